"""The networks of the paper on deep gated networks."""

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from gatewise.errors import ArgumentError
from gatewise.models import network
from gatewise.models.blocks import check_scale, check_sizes
from gatewise_papers.deep_gated.layers import Flatten, Step
from gatewise_papers.deep_gated.networks.conv_network import DeepGatedConvNetwork
from gatewise_papers.deep_gated.networks.dense_network import DeepGatedNetwork


class FlatteningDeepGatedNetwork(DeepGatedNetwork):
    """A :class:`~gatewise.nn.DeepGatedNetwork` that flattens its inputs.

    Shape: ``(N, *) -> (N, d_out)``.
    """

    def enter(self, i: int, z: Tensor, chosen: Tensor | None = None) -> Tensor:
        """Return the flattened input; after the first layer, ``z``."""
        return z.flatten(1) if i == 0 else z

    def steps_before(self, i: int) -> tuple[Step, ...]:
        """Return the step that flattens, before the first layer."""
        return (Flatten(),) if i == 0 else ()

    def batch_of(self, x: Tensor) -> tuple[int, ...]:
        """Return the first dimension, which alone counts inputs."""
        return (len(x),)

    def check_shape(self, x: Tensor) -> None:
        """Raise an error if an input does not have ``d_in`` numbers."""
        if x.dim() < 2 or math.prod(x.shape[1:]) != self.d_in:
            raise ArgumentError(
                f"{self.network}: the input has another number of features",
                got=f"shape {tuple(x.shape)}",
                allowed=f"(N, *), {self.d_in} numbers each",
            )


@network(
    title="Deep gated network",
    reads=(1, 28, 28),
    paper="arXiv:2002.03996",
    passes_to=DeepGatedNetwork,
    sets=("d_in", "d_out"),
)
def deep_gated_mlp(
    *,
    width: int | Sequence[int] = 100,
    depth: int = 6,
    features: int = 784,
    classes: int = 1,
    **options: Any,
) -> DeepGatedNetwork:
    """A :class:`~gatewise.nn.DeepGatedNetwork` of flattened images.

    The defaults W = 100 and d = 6 are those of experiments 3 to 5.

    Args:
        width: units in each hidden layer, or one number for each.
        depth: number of layers of weights.
        features: numbers of one input.
        classes: outputs.
        **options: further options of the network.
    """
    check_sizes("deep_gated_mlp", features=features, classes=classes)
    return FlatteningDeepGatedNetwork(features, width, depth, d_out=classes, **options)


@network(
    title="Deep gated convolution network",
    reads=(3, 32, 32),
    paper="arXiv:2002.03996, experiments 6 and 7",
    passes_to=DeepGatedConvNetwork,
    sets=("in_shape", "dense", "d_out"),
)
def deep_gated_cnn(
    *, classes: int = 10, channels: int = 3, size: int = 32, scale: float = 1.0, **options: Any
) -> DeepGatedConvNetwork:
    """Four gated 3x3 convolutions, two gated dense layers and a linear layer.

    The convolutions have 64, 64, 128 and 128 channels, the dense layers 256 units.

    Args:
        classes: outputs.
        channels: input channels.
        size: height and width of the input.
        scale: factor on all widths.
        **options: further options of the network.
    """
    check_sizes("deep_gated_cnn", classes=classes, channels=channels, size=size)
    *maps, first, second = (
        check_scale("deep_gated_cnn", scale, width) for width in (64, 64, 128, 128, 256, 256)
    )
    shape = (channels, size, size)
    return DeepGatedConvNetwork(shape, maps, dense=(first, second), d_out=classes, **options)
