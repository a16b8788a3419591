"""All-CNN-B for ImageNet, and its CReLU forms (paper 002, tables S7 to S12)."""

from collections.abc import Sequence

from torch import nn

from gatewise.models.blocks import RELU, Chain, Slot, UnitChoice, check_scale, check_sizes, slots
from gatewise.models.catalogue import network
from gatewise.units import check_number

# filters, kernel, stride, padding of the first eleven convolutions
LAYERS = (
    (96, 11, 4, 0),
    (96, 1, 1, 0),
    (96, 3, 2, 0),
    (256, 5, 1, 2),
    (256, 1, 1, 0),
    (256, 3, 2, 0),
    (384, 3, 1, 1),
    (384, 1, 1, 0),
    (384, 3, 2, 1),
    (1024, 3, 1, 1),
    (1024, 1, 1, 0),
)


@network(
    title="All-CNN-B for ImageNet", reads=(3, 227, 227), paper="arXiv:1603.05201, tables S7 to S12"
)
def all_cnn(
    *,
    unit: UnitChoice = "relu",
    filters: str = "same",
    at: Sequence[int] | None = None,
    dropout: float = 0.0,
    scale: float = 1.0,
    classes: int = 1000,
    channels: int = 3,
) -> nn.Sequential:
    """Eleven convolutions, a 1x1 convolution to the classes with ReLU, and a global average.

    Args: unit, filters, at: what stands in the eleven slots, or in some of them (ReLU in the
        others). The paper's forms:
            ``unit="crelu"`` with ``at=range(1, 5)``, ``range(1, 8)``, ``range(1, 10)`` and all
            filters (S8 to S10); ``at=range(1, 11), filters="half"`` (S11, see below),
            ``at=(1, 4, 7), filters="half"`` (S12).
        dropout: before the tenth convolution; 0.25 in S9 to S12. scale: factor on all widths.
            classes, channels: outputs, and channels of the input.

    Correction: table S11 cannot be built as printed (the tenth CReLU gives 1024 channels and the
    eleventh reads 512). The count of 4.7M needs an eleventh convolution from 1024 to 512 with ReLU:
    :func:`all_cnn_crelu` is that network.
    """
    check_sizes("all_cnn", classes=classes, channels=channels)
    chosen = slots(len(LAYERS), unit, at=at, filters=filters)
    widths = [check_scale("all_cnn", scale, layer[0]) for layer in LAYERS]
    return _build(channels, widths, chosen, dropout, classes)


@network(
    title="All-CNN-B with CReLU everywhere",
    reads=(3, 227, 227),
    paper="arXiv:1603.05201, table S11, corrected",
)
def all_cnn_crelu(
    *, dropout: float = 0.25, classes: int = 1000, channels: int = 3
) -> nn.Sequential:
    """Half the filters and CReLU in the first ten slots.

    An eleventh convolution of 512 filters with ReLU.
    """
    check_sizes("all_cnn_crelu", classes=classes, channels=channels)
    chosen = slots(len(LAYERS), "crelu", at=range(1, 11), filters="half")
    return _build(channels, [*(layer[0] for layer in LAYERS[:10]), 512], chosen, dropout, classes)


def _build(
    channels: int, widths: Sequence[int], chosen: Sequence[Slot], dropout: float, classes: int
) -> nn.Sequential:
    chain = Chain(channels)
    for place, (width, (_, kernel, stride, padding), slot) in enumerate(
        zip(widths, LAYERS, chosen, strict=True), 1
    ):
        if place == 10 and check_number("all_cnn", "dropout", dropout, above=-1e-300, most=0.99):
            chain.add("drop", nn.Dropout(dropout))
        chain.conv(
            f"conv{place}",
            width,
            kernel,
            slot,
            stride=stride,
            padding=padding,
            norm=False,
            bias=True,
        )
    chain.conv("conv12", classes, 1, RELU, norm=False, bias=True)
    chain.average("pool")
    return chain.build()
