"""ConvPool-CNN-C as the CReLU paper trains it on CIFAR (tables S1 and S2)."""

from collections.abc import Sequence

from torch import nn

from gatewise.checks import check_flag
from gatewise.errors import ArgumentError
from gatewise.models.blocks import RELU, Chain, UnitChoice, check_scale, check_sizes
from gatewise.models.catalogue import network
from gatewise_papers.slots import slots

# Filters of the seven convolutions.
WIDTHS = (96, 96, 192, 192, 192, 192, 192)


@network(title="ConvPool-CNN-C", reads=(3, 32, 32), paper="arXiv:1603.05201, tables S1 and S2")
def convpool_cnn(
    *,
    unit: UnitChoice = "relu",
    filters: str = "same",
    at: Sequence[int] | None = None,
    scale: float = 1.0,
    norm: bool = False,
    dropout: bool = False,
    as_printed: bool = False,
    classes: int = 10,
    channels: int = 3,
) -> nn.Sequential:
    """Seven convolutions, two max-pools, a 1x1 convolution to the classes, and an average.

    Corrections: pools round up, since only then the last pool averages maps of 10x10 (rounded down
    they are 9x9). In the half network the third convolution has 96 filters, as the table's 0.7M
    parameters need, not 48; ``as_printed=True`` is the network of the table.

    Args:
        unit: the unit in the seven slots, or in those of ``at``.
        filters: ``"same"`` or ``"half"``: filters before a unit that doubles the channels.
        at: the slots that have ``unit``, counted from 1; the others have ReLU.
        scale: factor on all widths; 2 is the paper's "double".
        norm: whether batch norm precedes each unit.
        dropout: whether there is dropout of 0.2 on the input and of 0.5 after each pool, as the
            authors of the network have it.
        as_printed: whether half the filters are those of table S2, 48 in the third convolution.
        classes: outputs.
        channels: input channels.
    """
    check_sizes("convpool_cnn", classes=classes, channels=channels)
    check_flag("convpool_cnn", "as_printed", as_printed)
    if as_printed and filters != "half":
        raise ArgumentError(
            "convpool_cnn: as_printed is about half the filters",
            got=f"filters={filters!r}",
            fix="filters='half'",
        )
    full = (*WIDTHS[:2], WIDTHS[1], *WIDTHS[3:]) if as_printed else WIDTHS
    widths = [check_scale("convpool_cnn", scale, width) for width in full]
    chosen = slots(len(widths), unit, at=at, filters=filters)
    chain = Chain(channels)
    if dropout:
        chain.add("drop0", nn.Dropout(0.2))
    for place, (width, slot) in enumerate(zip(widths, chosen, strict=True), 1):
        chain.conv(
            f"conv{place}",
            width,
            1 if place == 7 else 3,
            slot,
            padding=1,
            norm=norm,
            bias=True,
        )
        # Two pools, after the second and the fifth convolution.
        if place in (2, 5):
            chain.add(f"pool{place // 2}", nn.MaxPool2d(3, 2, ceil_mode=True))
            if dropout:
                chain.add(f"drop{place // 2}", nn.Dropout(0.5))
    chain.conv("conv8", classes, 1, RELU, norm=False, bias=True)
    chain.average("pool3")
    return chain.build()
