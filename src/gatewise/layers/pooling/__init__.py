"""Beta pooling and apodized convolution."""

from gatewise.layers.pooling.beta_channel_pool import BetaChannelPool as BetaChannelPool
from gatewise.layers.pooling.beta_pool import BetaPool1d as BetaPool1d
from gatewise.layers.pooling.beta_pool import BetaPool2d as BetaPool2d
from gatewise.layers.pooling.beta_pool import BetaPoolNd as BetaPoolNd
