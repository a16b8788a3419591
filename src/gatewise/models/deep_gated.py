"""The gated networks that paper 004 trains, by name."""

from collections.abc import Sequence
from typing import Any

from torch import nn

from gatewise.models._catalogue import network
from gatewise.models._options import check_sizes
from gatewise.models.deep_gated_conv_network import DeepGatedConvNetwork
from gatewise.models.deep_gated_network import DeepGatedNetwork


@network(title="Deep gated network", reads=(1, 28, 28), paper="arXiv:2002.03996")
def deep_gated_mlp(
    *, width: int | Sequence[int] = 100, depth: int = 6, features: int = 784, classes: int = 1, **options: Any
) -> nn.Sequential:
    """:class:`~gatewise.nn.DeepGatedNetwork` of flattened images; w = 100 and d = 6 as in experiments 3 to 5."""
    check_sizes("deep_gated_mlp", features=features, classes=classes)
    return nn.Sequential(nn.Flatten(), DeepGatedNetwork(features, width, depth, d_out=classes, **options))


@network(title="Deep gated convolution network", reads=(3, 32, 32), paper="arXiv:2002.03996, experiments 6 and 7")
def deep_gated_cnn(*, classes: int = 10, channels: int = 3, size: int = 32, **options: Any) -> DeepGatedConvNetwork:
    """Four 3x3 convolutions of 64, 64, 128 and 128, flattened, 256 and 256 units, and the classes, all gated."""
    check_sizes("deep_gated_cnn", classes=classes, channels=channels, size=size)
    shape = (channels, size, size)
    return DeepGatedConvNetwork(shape, (64, 64, 128, 128), dense=(256, 256), d_out=classes, **options)
