"""The gated networks that paper 004 trains, by name."""

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from gatewise.errors import ArgumentError
from gatewise.layers import Flatten, Step
from gatewise.models.blocks import check_scale, check_sizes
from gatewise.models.catalogue import network
from gatewise.models.gated import DeepGatedConvNetwork, DeepGatedNetwork


class FlatteningDeepGatedNetwork(DeepGatedNetwork):
    """:class:`~gatewise.nn.DeepGatedNetwork` of inputs of any shape.

    Shape: ``(N, *) -> (N, d_out)``.
    """

    def enter(self, i: int, z: Tensor) -> Tensor:
        """The input as features; behind that, ``z`` itself."""
        return z.flatten(1) if i == 0 else z

    def steps_before(self, i: int) -> tuple[Step, ...]:
        """The inputs are flattened first of all."""
        return (Flatten(),) if i == 0 else ()

    def batch_of(self, x: Tensor) -> tuple[int, ...]:
        """The first dimension alone counts inputs."""
        return (len(x),)

    def check_shape(self, x: Tensor) -> None:
        """An error if an input has not ``d_in`` numbers."""
        if x.dim() < 2 or math.prod(x.shape[1:]) != self.d_in:
            what = f"{self.network}: the input has another number of features"
            raise ArgumentError(
                what, got=f"shape {tuple(x.shape)}", allowed=f"(N, *), {self.d_in} numbers each"
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
    """:class:`~gatewise.nn.DeepGatedNetwork` of flattened images.

    W = 100 and d = 6 as in experiments 3 to 5.
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
    """Four 3x3 convolutions of 64, 64, 128 and 128, flattened, 256 and 256 units, and the classes, all gated.

    ``scale`` is a factor on all widths.
    """
    check_sizes("deep_gated_cnn", classes=classes, channels=channels, size=size)
    *maps, first, second = (
        check_scale("deep_gated_cnn", scale, width) for width in (64, 64, 128, 128, 256, 256)
    )
    shape = (channels, size, size)
    return DeepGatedConvNetwork(shape, maps, dense=(first, second), d_out=classes, **options)
