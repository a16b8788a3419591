"""All-CNN-B for ImageNet, and its CReLU forms (CReLU paper, tables S7 to S12)."""

from collections.abc import Sequence

from torch import nn

from gatewise.checks import check_number
from gatewise.models import network
from gatewise.models.blocks import RELU, Chain, Slot, UnitChoice, check_scale, check_sizes
from gatewise_papers.slots import slots

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
    title="All-CNN-B for ImageNet",
    reads=(3, 224, 224),
    paper="arXiv:1603.05201, tables S7 to S12",
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

    Images have 224 pixels along each side. The last maps then have 6 x 6 positions, so that the
    global average is the 6 x 6 average pool of tables S7 to S12. With 227 pixels they would have
    7 x 7.

    The paper's forms have ``unit="crelu"``: ``at=range(1, 5)``, ``range(1, 8)``, ``range(1, 10)``
    with all filters (S8 to S10), ``at=range(1, 11), filters="half"`` (S11) and ``at=(1, 4, 7),
    filters="half"`` (S12).

    Correction: table S11 cannot be built as printed, as the tenth CReLU returns 1024 channels and
    the eleventh convolution reads 512. The count of 4.7M parameters needs an eleventh convolution
    from 1024 to 512 channels with ReLU: :func:`all_cnn_crelu` is that network.

    Args:
        unit: the unit in the eleven slots, or in those of ``at``.
        filters: ``"same"`` or ``"half"``: filters before a unit that doubles the channels.
        at: the slots that have ``unit``, counted from 1; the others have ReLU.
        dropout: ratio of the dropout before the tenth convolution; 0.25 in S9 to S12.
        scale: factor on all widths.
        classes: outputs.
        channels: input channels.
    """
    check_sizes("all_cnn", classes=classes, channels=channels)
    chosen = slots(len(LAYERS), unit, at=at, filters=filters)
    widths = [check_scale("all_cnn", scale, layer[0]) for layer in LAYERS]
    return _build(channels, widths, chosen, dropout, classes)


@network(
    title="All-CNN-B with CReLU everywhere",
    reads=(3, 224, 224),
    paper="arXiv:1603.05201, table S11, corrected",
)
def all_cnn_crelu(
    *, dropout: float = 0.25, classes: int = 1000, channels: int = 3
) -> nn.Sequential:
    """All-CNN-B with half the filters and CReLU in ten slots: table S11, corrected.

    The eleventh convolution has 512 filters and ReLU.

    Args:
        dropout: ratio of the dropout before the tenth convolution.
        classes: outputs.
        channels: input channels.
    """
    check_sizes("all_cnn_crelu", classes=classes, channels=channels)
    chosen = slots(len(LAYERS), "crelu", at=range(1, 11), filters="half")
    return _build(channels, [*(layer[0] for layer in LAYERS[:10]), 512], chosen, dropout, classes)


def _build(
    channels: int,
    widths: Sequence[int],
    chosen: Sequence[Slot],
    dropout: float,
    classes: int,
) -> nn.Sequential:
    chain = Chain(channels)
    layers = zip(widths, LAYERS, chosen, strict=True)
    for place, (width, (_, kernel, stride, padding), slot) in enumerate(layers, 1):
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
