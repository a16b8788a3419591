"""The papers' networks, built from layers and units."""

from gatewise.models.deep_gated_conv_network import DeepGatedConvNetwork as DeepGatedConvNetwork
from gatewise.models.deep_gated_network import DeepGatedNetwork as DeepGatedNetwork

__all__ = ["DeepGatedConvNetwork", "DeepGatedNetwork"]
