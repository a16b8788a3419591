"""Beta pooling and apodized convolution."""

from gatewise.layers.pooling.apodized_conv import ApodizedConv1d as ApodizedConv1d
from gatewise.layers.pooling.apodized_conv import ApodizedConv2d as ApodizedConv2d
from gatewise.layers.pooling.apodized_conv import partition_deviation as partition_deviation
from gatewise.layers.pooling.beta_channel_pool import BetaChannelPool as BetaChannelPool
from gatewise.layers.pooling.beta_pool import BetaPool1d as BetaPool1d
from gatewise.layers.pooling.beta_pool import BetaPool2d as BetaPool2d
from gatewise.layers.pooling.beta_pool import BetaPoolNd as BetaPoolNd
