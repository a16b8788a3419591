"""Wide ResNet D-W: pre-activation blocks, ``W`` times as wide (the ResNetD-W of the MASO paper)."""

from collections import OrderedDict

from torch import Tensor, nn

from gatewise.checks import check_number
from gatewise.errors import ArgumentError
from gatewise.models import network
from gatewise.models.blocks import Slot, UnitChoice, check_sizes, slot_of
from gatewise_papers.iieu.networks.residual import PooledClassifier


class PreActivation(nn.Module):
    """Norm, unit and 3x3 convolution. Only this convolution reads the output of the unit.

    Args:
        channels: input channels.
        filters: filters of the convolution.
        slot: the activation slot.
        stride: of the convolution.
    """

    def __init__(self, channels: int, filters: int, slot: Slot, stride: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        self.unit = slot.module(nn.Identity(), channels)
        self.layer = slot.next_conv(
            slot.count_channels(channels),
            filters,
            3,
            stride=stride,
            padding=1,
            bias=False,
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        return self.layer(y if self.unit is None else self.unit(y))


class WideBlock(nn.Module):
    """Two pre-activated convolutions and a shortcut.

    The shortcut reads the output of the first unit where shapes change.

    Args:
        channels: input channels.
        width: output channels.
        stride: of the first convolution.
        dropout: ratio of the dropout between the convolutions.
        slot: the slot of both units.
    """

    def __init__(self, channels: int, width: int, stride: int, dropout: float, slot: Slot) -> None:
        super().__init__()
        hidden = slot.count_filters(width)
        self.first = PreActivation(channels, hidden, slot, stride)
        self.drop = nn.Dropout(dropout)
        self.second = PreActivation(hidden, width, slot, 1)
        self.shortcut: nn.Module | None = None
        if stride != 1 or channels != width:
            self.shortcut = slot.next_conv(
                slot.count_channels(channels), width, 1, stride=stride, bias=False
            )

    def forward(self, x: Tensor) -> Tensor:
        if self.shortcut is None:
            return x + self.second(self.drop(self.first(x)))
        # Both the shortcut and the first convolution read the output of the first unit.
        y = self.first.norm(x)
        y = y if self.first.unit is None else self.first.unit(y)
        return self.shortcut(y) + self.second(self.drop(self.first.layer(y)))


@network(title="Wide ResNet", reads=(3, 32, 32), paper="arXiv:1605.07146; used by arXiv:1810.09274")
def wide_resnet(
    *,
    depth: int = 16,
    width: int = 4,
    unit: UnitChoice = "relu",
    filters: str = "same",
    dropout: float = 0.0,
    classes: int = 10,
    channels: int = 3,
) -> PooledClassifier:
    """A 3x3 stem, three stages of pre-activation blocks, a norm, a mean and a linear layer.

    A unit that reads the convolution before it (IIEU) has no place here: sums stand before the
    units.

    Args:
        depth: 6n + 4: 10, 16, 22, 28, 40.
        width: factor on the widths 16, 32 and 64 of the stages.
        unit: the unit in all slots.
        filters: ``"same"`` or ``"half"``; ``"half"`` halves the convolution inside each block, as
            nothing else may change its width.
        dropout: ratio of the dropout between the two convolutions of a block.
        classes: outputs.
        channels: input channels.
    """
    if not isinstance(depth, int) or depth < 10 or depth % 6 != 4:
        raise ArgumentError(
            "wide_resnet: option depth is not allowed",
            got=depth,
            allowed="6n + 4: 10, 16, 22, 28, ...",
        )
    check_sizes("wide_resnet", width=width, classes=classes, channels=channels)
    check_number("wide_resnet", "dropout", dropout, above=-1e-300, most=0.99)
    slot = slot_of(unit, filters)
    if slot.binds or slot.ratio < 1:
        raise ArgumentError(
            f"wide_resnet: {slot.unit} cannot stand before a convolution",
            fix="resnet_cifar has a place for it",
        )
    parts: OrderedDict[str, nn.Module] = OrderedDict(
        stem=nn.Conv2d(channels, 16, 3, padding=1, bias=False)
    )
    read = 16
    for number in (1, 2, 3):
        wide = 16 * width * 2 ** (number - 1)
        blocks = nn.Sequential()
        for place in range(depth // 6):
            stride = 2 if number > 1 and place == 0 else 1
            blocks.append(WideBlock(read, wide, stride, dropout, slot))
            read = wide
        parts[f"stage{number}"] = blocks
    parts["norm"] = nn.BatchNorm2d(read)
    # With phase selection, the mean is taken of both signs apart.
    last = slot_of("crelu") if slot.defers else slot
    unit_module = last.module(nn.Identity(), read)
    assert unit_module is not None  # noqa: S101 - a slot that does not defer has a module
    parts["unit"] = unit_module
    return PooledClassifier(nn.Sequential(parts), last.count_channels(read), classes)
