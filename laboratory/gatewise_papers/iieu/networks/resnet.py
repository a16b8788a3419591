"""ResNet-14, -26 and -50 for ImageNet, plain and in the two IIEU forms of the IIEU paper."""

from collections import OrderedDict

from torch import nn

from gatewise.errors import ArgumentError
from gatewise.models import network
from gatewise.models.blocks import UnitChoice, check_scale, check_sizes
from gatewise_papers.iieu.networks.residual import (
    PooledClassifier,
    Style,
    bottleneck,
    stem,
    style_of,
)

# By depth: the number of blocks of each stage.
STAGES = {14: (1, 1, 1, 1), 26: (2, 2, 2, 2), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}
WIDTHS = (64, 128, 256, 512)  # inside the blocks of each stage
STEM_STRIDES = (4, 2, 1)


@network(
    title="ResNet with bottlenecks",
    reads=(3, 224, 224),
    paper="IIEU paper, table 3; arXiv:1512.03385",
)
def resnet(
    *,
    depth: int = 50,
    unit: UnitChoice = "relu",
    filters: str = "same",
    out_unit: UnitChoice | None = None,
    placement: str | None = None,
    coupler: bool = False,
    scale: float = 1.0,
    stem_stride: int = 4,
    classes: int = 1000,
    channels: int = 3,
) -> PooledClassifier:
    """A 7x7 stem, four stages of bottleneck blocks, a mean and a linear layer.

    Args:
        depth: 14, 26, 50 or 101.
        unit: the unit inside the blocks, and in the stem.
        filters: ``"same"`` or ``"half"``: filters before a unit that doubles the channels.
        out_unit: the unit at the end of the blocks; as ``unit`` unless given.
        placement: of the blocks' last unit: ``"after"`` the addition, as in ResNet, or ``"before"``
            it in each branch, as in the IIEU networks. By default as the unit needs it. A fair
            comparison shows both.
        coupler: whether the learned mixture of IIEU-DC replaces the addition.
        scale: factor on all widths.
        stem_stride: pixels for each position after the stem. 4 is the stem of ImageNet: a 7x7
            convolution and a max-pool. 2 and 1 are for smaller images: a 3x3 convolution with that
            stride.
        classes: outputs.
        channels: input channels.
    """
    if depth not in STAGES:
        raise ArgumentError(
            "resnet: option depth is not allowed",
            got=depth,
            allowed=", ".join(map(str, STAGES)),
        )
    if stem_stride not in STEM_STRIDES:
        raise ArgumentError(
            "resnet: option stem_stride is not allowed",
            got=stem_stride,
            allowed=", ".join(map(str, STEM_STRIDES)),
        )
    check_sizes("resnet", classes=classes, channels=channels)
    style = style_of("resnet", unit, filters, out_unit, placement, coupler)
    widths = [check_scale("resnet", scale, width) for width in WIDTHS]
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    if stem_stride == 4:
        parts["stem"] = stem(channels, widths[0], 7, 2, style)
        parts["pool"] = nn.MaxPool2d(3, 2, 1)
    else:
        parts["stem"] = stem(channels, widths[0], 3, stem_stride, style)
    read = widths[0]
    for number, (count, width) in enumerate(zip(STAGES[depth], widths, strict=True), 1):
        parts[f"stage{number}"] = stage(read, width, count, 1 if number == 1 else 2, style)
        read = 4 * width
    return PooledClassifier(nn.Sequential(parts), read, classes)


def stage_channels(scale: float) -> list[int]:
    """Return the channels of the outputs of the four stages."""
    return [4 * check_scale("resnet", scale, width) for width in WIDTHS]


def stage(channels: int, inner: int, count: int, stride: int, style: Style) -> nn.Sequential:
    """Return ``count`` bottlenecks; the first one changes the width, and the size by ``stride``."""
    first = bottleneck(channels, inner, stride, style)
    return nn.Sequential(first, *(bottleneck(4 * inner, inner, 1, style) for _ in range(count - 1)))
