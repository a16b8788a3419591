"""MobileNetV2 at any width, plain and with IIEU (IIEU paper, at width 0.17)."""

from collections import OrderedDict

from torch import Tensor, nn

from gatewise.checks import check_flag
from gatewise.layers import Coupler
from gatewise.models import Block, network
from gatewise.models.blocks import (
    RELU,
    Slot,
    UnitChoice,
    check_scale,
    check_sizes,
    conv_block,
    slot_of,
)
from gatewise_papers.iieu.networks.residual import PooledClassifier
from gatewise_papers.slots import divisible

# expansion, width, blocks, stride of the first
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
LAST = 1280  # channels of the last convolution, at widths up to 1


class Inverted(nn.Module):
    """An inverted residual block: 1x1 expansion, depthwise 3x3 and 1x1 projection.

    The input is added where shapes agree.

    Args:
        channels: input channels.
        width: output channels.
        factor: of the expansion; 1 for none.
        stride: of the depthwise convolution.
        slot: follows the expansion and the depthwise convolution.
        coupler: whether a learned mixture replaces the addition.
    """

    def __init__(
        self,
        channels: int,
        width: int,
        factor: int,
        stride: int,
        slot: Slot,
        coupler: bool,
    ) -> None:
        super().__init__()
        read = channels
        before = RELU
        self.expand: Block | None = None
        if factor != 1:
            filters = slot.count_filters(factor * channels)
            self.expand = conv_block(channels, filters, 1, slot)
            read = slot.count_channels(filters)
            before = slot
        # One filter per channel, unless the unit needs several responses for each output.
        filters = read if slot.ratio >= 1 else slot.count_filters(read)
        self.depthwise = conv_block(
            read,
            filters,
            3,
            slot,
            before=before,
            stride=stride,
            padding=1,
            groups=read,
        )
        self.project = conv_block(slot.count_channels(filters), width, 1, None, before=slot)
        self.adds = stride == 1 and channels == width
        self.join: nn.Module | None = None
        if coupler and self.adds:
            self.join = Coupler(width, reduction=4, variant="mobilenet")

    def forward(self, x: Tensor) -> Tensor:
        y = x if self.expand is None else self.expand(x)
        y = self.project(self.depthwise(y))
        if not self.adds:
            return y
        if self.join is None:
            return y + x
        return self.join(y, x)


@network(
    title="MobileNetV2",
    reads=(3, 224, 224),
    paper="arXiv:1801.04381; IIEU paper at width 0.17",
)
def mobilenet_v2(
    *,
    width: float = 1.0,
    unit: UnitChoice = "relu",
    filters: str = "same",
    coupler: bool = False,
    small_images: bool = False,
    classes: int = 1000,
    channels: int = 3,
) -> PooledClassifier:
    """A 3x3 stem, seventeen inverted residual blocks, a 1x1 convolution, a mean and a linear layer.

    With ``unit="psc"`` the stem has a ReLU, since its output may also be added.

    Args:
        width: factor on the widths, which are rounded to multiples of 8. The last convolution keeps
            1280 channels below width 1.
        unit: follows the stem, the expansions, the depthwise and the last convolution. Projections
            have no unit.
        filters: ``"same"`` or ``"half"``: filters before a unit that doubles the channels. A
            depthwise convolution has as many filters as channels and is not halved.
        coupler: whether the learned mixture of IIEU-DC replaces the additions.
        small_images: whether the stem and the second stage keep the size, for images of 32 pixels,
            of which otherwise one position would remain.
        classes: outputs.
        channels: input channels.
    """
    check_sizes("mobilenet_v2", classes=classes, channels=channels)
    check_scale("mobilenet_v2", width, 1, name="width")
    check_flag("mobilenet_v2", "coupler", coupler)
    check_flag("mobilenet_v2", "small_images", small_images)
    slot = slot_of(unit, filters)
    read = divisible(32 * width)
    stem_filters = slot.count_filters(read)
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    parts["stem"] = conv_block(
        channels,
        stem_filters,
        3,
        RELU if slot.defers else slot,
        stride=1 if small_images else 2,
        padding=1,
    )
    read = slot.count_channels(stem_filters)
    for number, (factor, wide, count, stride) in enumerate(STAGES, 1):
        blocks = []
        for place in range(count):
            out = divisible(wide * width)
            step = stride if place == 0 and not (small_images and number == 2) else 1
            blocks.append(Inverted(read, out, factor, step, slot, coupler))
            read = out
        parts[f"stage{number}"] = nn.Sequential(*blocks)
    # With phase selection, the mean is taken of both signs apart.
    last_slot = slot_of("crelu") if slot.defers else slot
    filters_last = slot.count_filters(divisible(LAST * max(1.0, width)))
    parts["last"] = conv_block(read, filters_last, 1, last_slot)
    return PooledClassifier(nn.Sequential(parts), last_slot.count_channels(filters_last), classes)
