"""Deep gated networks: responses and gates may come from different networks."""

from gatewise_papers.deep_gated.networks import catalogue_networks as catalogue_networks
from gatewise_papers.deep_gated.networks.conv_network import (
    DeepGatedConvNetwork as DeepGatedConvNetwork,
)
from gatewise_papers.deep_gated.networks.dense_network import DeepGatedNetwork as DeepGatedNetwork
