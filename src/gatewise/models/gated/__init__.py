"""Deep gated networks: responses and gates may come from different networks."""

from gatewise.models.gated.conv_network import DeepGatedConvNetwork as DeepGatedConvNetwork
from gatewise.models.gated.dense_network import DeepGatedNetwork as DeepGatedNetwork
