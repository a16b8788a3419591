"""ShuffleNetV2 at four widths (IIEU paper, at width 0.5)."""

from collections import OrderedDict

import torch
from torch import Tensor, nn

from gatewise.checks import check_flag
from gatewise.errors import ArgumentError
from gatewise.models import network
from gatewise.models.blocks import RELU, Slot, UnitChoice, check_sizes, conv_block, slot_of
from gatewise_papers.iieu.networks.residual import PooledClassifier
from gatewise_papers.slots import stream_slot

# By the factor: channels of the three stages, and of the last convolution.
WIDTHS = {
    0.5: (48, 96, 192, 1024),
    1.0: (116, 232, 464, 1024),
    1.5: (176, 352, 704, 1024),
    2.0: (244, 488, 976, 2048),
}
COUNTS = (4, 8, 4)  # blocks of each stage
STEM = 24  # channels of the stem at every width


class Shuffle(nn.Module):
    """A block with two branches whose outputs are interleaved.

    One branch is an identity for half of the channels; with a stride, both branches read all
    channels.

    Args:
        channels: input channels.
        width: output channels.
        stride: 1 or 2.
        inner: the slot inside the branches.
        out: the slot at the end of the branches.
    """

    def __init__(self, channels: int, width: int, stride: int, inner: Slot, out: Slot) -> None:
        super().__init__()
        half = width // 2
        stream_slot(out, half, "at a branch's end")
        read = channels if stride == 2 else half
        filters = inner.count_filters(half)
        self.splits = stride == 1
        last = out.count_filters(half)
        self.side = nn.Identity()
        if stride == 2:
            self.side = nn.Sequential(
                conv_block(read, read, 3, None, stride=2, padding=1, groups=read),
                conv_block(read, last, 1, out),
            )
        wide = inner.count_channels(filters)
        self.main = nn.Sequential(
            conv_block(read, filters, 1, inner),
            conv_block(
                wide,
                wide,
                3,
                None,
                before=inner,
                stride=stride,
                padding=1,
                groups=wide,
            ),
            conv_block(wide, last, 1, out),
        )

    def forward(self, x: Tensor) -> Tensor:
        left, right = x.chunk(2, 1) if self.splits else (x, x)
        # Stacked behind the channels and flattened: the channels of both branches alternate.
        y = torch.stack((self.side(left), self.main(right)), 2)
        return y.flatten(1, 2)


@network(
    title="ShuffleNetV2",
    reads=(3, 224, 224),
    paper="arXiv:1807.11164; IIEU paper at width 0.5",
)
def shufflenet_v2(
    *,
    width: float = 0.5,
    unit: UnitChoice = "relu",
    filters: str = "same",
    out_unit: UnitChoice | None = None,
    small_images: bool = False,
    classes: int = 1000,
    channels: int = 3,
) -> PooledClassifier:
    """A 3x3 stem, sixteen shuffle blocks, a 1x1 convolution, a mean and a linear layer.

    There is no addition, so the learned mixture of IIEU-DC has no place here. IIEU-B stands
    wherever ReLU stood.

    Args:
        width: 0.5, 1.0, 1.5 or 2.0.
        unit: the unit inside the branches.
        filters: ``"same"`` or ``"half"``: filters before a unit that doubles the channels.
        out_unit: the unit at the end of the branches, in the stem and after the last convolution;
            as ``unit`` unless given.
        small_images: whether the stem keeps the size and has no max-pool, for images of 32 pixels,
            of which otherwise one position would remain.
        classes: outputs.
        channels: input channels.
    """
    if width not in WIDTHS:
        raise ArgumentError(
            "shufflenet_v2: option width is not allowed",
            got=width,
            allowed="0.5, 1.0, 1.5, 2.0",
        )
    check_sizes("shufflenet_v2", classes=classes, channels=channels)
    check_flag("shufflenet_v2", "small_images", small_images)
    inner = slot_of(unit, filters)
    out = inner if out_unit is None else slot_of(out_unit, filters)
    # A max-pool follows the stem, so the stem cannot leave its unit to the next layer.
    first = RELU if out.defers else out
    *stages, last = WIDTHS[width]
    stem_filters = stream_slot(first, STEM, "in the stem").count_filters(STEM)
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    stride = 1 if small_images else 2
    parts["stem"] = conv_block(channels, stem_filters, 3, first, stride=stride, padding=1)
    parts["pool"] = nn.Identity() if small_images else nn.MaxPool2d(3, 2, 1)
    read = STEM
    for number, (wide, count) in enumerate(zip(stages, COUNTS, strict=True), 1):
        blocks = nn.Sequential()
        for place in range(count):
            blocks.append(Shuffle(read, wide, 2 if place == 0 else 1, inner, out))
            read = wide
        parts[f"stage{number}"] = blocks
    parts["last"] = conv_block(read, out.count_filters(last), 1, out)
    return PooledClassifier(nn.Sequential(parts), last, classes)
