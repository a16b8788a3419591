"""largeCNN of the MASO paper (appendix D), with orthogonal filters on request."""

from collections.abc import Sequence

from torch import Tensor, nn

from gatewise.checks import check_flag
from gatewise.errors import ArgumentError
from gatewise.layers import orthogonal
from gatewise.models import Block, network
from gatewise.models.blocks import Chain, UnitChoice, check_scale, check_sizes
from gatewise_papers.slots import slots

# filters, kernel, stride, padding
LAYERS = (
    (96, 3, 1, 1),
    (96, 3, 1, 1),
    (96, 3, 2, 1),
    (192, 3, 1, 1),
    (192, 3, 1, 1),
    (192, 3, 2, 1),
    (192, 3, 1, 0),
    (192, 1, 1, 0),
)


@network(title="largeCNN", reads=(3, 32, 32), paper="arXiv:1810.09274, appendix D")
def large_cnn(
    *,
    unit: UnitChoice = "relu",
    filters: str = "same",
    at: Sequence[int] | None = None,
    orthogonal_filters: bool = False,
    norm: bool = False,
    scale: float = 1.0,
    classes: int = 10,
    channels: int = 3,
) -> nn.Sequential:
    """Eight convolutions, a 1x1 convolution to the classes, and a global average.

    Args:
        unit: the unit in the eight slots, or in those of ``at``.
        filters: ``"same"`` or ``"half"``: filters before a unit that doubles the channels.
        at: the slots that have ``unit``, counted from 1; the others have ReLU.
        orthogonal_filters: whether filters are orthogonal by construction, as in the paper's
            Gram-Schmidt runs, in every layer that has no more filters than inputs. The first layer
            has 96 filters of 27 numbers and stays as it is. Not for ``unit="psc"``, whose layers
            have two sets of filters.
        norm: whether batch norm precedes each unit.
        scale: factor on all widths.
        classes: outputs.
        channels: input channels.
    """
    check_sizes("large_cnn", classes=classes, channels=channels)
    check_flag("large_cnn", "orthogonal_filters", orthogonal_filters)
    chosen = slots(len(LAYERS), unit, at=at, filters=filters)
    if orthogonal_filters and any(slot.defers for slot in chosen):
        raise ArgumentError(
            "large_cnn: phase selective layers have two sets of filters and cannot be orthogonal",
            got="unit='psc', orthogonal_filters=True",
            fix="another unit, or orthogonal_filters=False",
        )
    chain = Chain(channels)
    for place, ((width, kernel, stride, padding), slot) in enumerate(
        zip(LAYERS, chosen, strict=True), 1
    ):
        width = check_scale("large_cnn", scale, width)
        chain.conv(
            f"conv{place}",
            width,
            kernel,
            slot,
            stride=stride,
            padding=padding,
            norm=norm,
            bias=True,
        )
    chain.conv("conv9", classes, 1, None, norm=False, bias=True)
    chain.average("pool")
    model = chain.build()
    if orthogonal_filters:
        _orthogonalise(model)
    return model


def _orthogonalise(model: nn.Sequential) -> None:
    for block in model:
        if isinstance(block, Block):
            weight = block.layer.weight
            assert isinstance(weight, Tensor)  # noqa: S101 - every convolution has one
            # More filters than inputs cannot all be orthogonal.
            if weight.shape[0] <= weight[0].numel():
                orthogonal(block.layer)
