"""ConvPool-CNN-C as paper 002 trains it on CIFAR (tables S1 and S2)."""

from collections.abc import Sequence

from torch import nn

from gatewise.models.blocks import RELU, Chain, UnitChoice, check_scale, check_sizes, slots
from gatewise.models.catalogue import network

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
    classes: int = 10,
    channels: int = 3,
) -> nn.Sequential:
    """Seven convolutions with two max-pools, a 1x1 convolution to the classes with ReLU, and a global average.

    Args:
        unit, filters, at: what stands in the seven slots, or in some of them, counted from 1.
        scale: factor on all widths; 2 is the paper's "double". norm, dropout: batch norm before each unit; dropout
            after each pool (0.5) as the paper's recipe has it. classes, channels: outputs, and channels of the input.

    Corrections: pools round up, which alone gives the 10x10 maps that the last pool averages (with rounding down they
    are 9x9); in the half network the third convolution has 96 filters, as the table's 0.7M parameters need, not 48.
    """
    check_sizes("convpool_cnn", classes=classes, channels=channels)
    widths = [check_scale("convpool_cnn", scale, width) for width in WIDTHS]
    chosen = slots(len(widths), unit, at=at, filters=filters)
    chain = Chain(channels)
    for place, (width, slot) in enumerate(zip(widths, chosen, strict=True), 1):
        chain.conv(
            f"conv{place}", width, 1 if place == 7 else 3, slot, padding=1, norm=norm, bias=True
        )
        if place in (2, 5):
            chain.add(f"pool{place // 2}", nn.MaxPool2d(3, 2, ceil_mode=True))
            if dropout:
                chain.add(f"drop{place // 2}", nn.Dropout(0.5))
    chain.conv("conv8", classes, 1, RELU, norm=False, bias=True)
    chain.average("pool3")
    return chain.build()
