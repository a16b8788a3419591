"""Residual blocks: the unit before or after the sum, and a learned mixture instead of the sum."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gatewise.checks import check_choice, check_flag
from gatewise.errors import ArgumentError
from gatewise.layers import Coupler
from gatewise.models import Block
from gatewise.models.blocks import Slot, UnitChoice, conv_block, slot_of
from gatewise_papers.slots import stream_slot

PLACEMENTS = ("after", "before")


@dataclass(frozen=True)
class Style:
    """What the blocks of one network have in common.

    Attributes:
        inner: the slot inside the blocks.
        out: the slot at the end of the blocks.
        placement: of the block's last unit: ``"after"`` the addition as in ResNet, or ``"before"``
            it as in the networks of IIEU.
        coupler: the reduction of a Coupler in place of the addition; ``None`` for an addition.
    """

    inner: Slot
    out: Slot
    placement: str
    coupler: int | None = None

    @property
    def before(self) -> bool:
        """Whether both branches have a unit of their own before they are added."""
        return self.placement == "before"

    @property
    def branch(self) -> Slot | None:
        """The slot at the end of each branch."""
        return self.out if self.before else None


def style_of(
    model: str,
    unit: UnitChoice,
    filters: str,
    out_unit: UnitChoice | None,
    placement: str | None,
    coupler: bool,
    reduction: int = 16,
) -> Style:
    """Return the style of a network's blocks.

    Args:
        model: the name of the network, for messages.
        unit: the unit inside the blocks.
        filters: ``"same"`` or ``"half"``. See :class:`Slot`.
        out_unit: the unit at the end of the blocks; as ``unit`` unless given.
        placement: of the last unit; by default the one that the unit needs.
        coupler: whether a learned mixture replaces the addition.
        reduction: of the learned mixture.

    Raises:
        ArgumentError: the unit cannot stand after an addition.
    """
    inner = slot_of(unit, filters)
    out = inner if out_unit is None else slot_of(out_unit, filters)
    # A sum has no single convolution before it, and its width cannot change.
    only_before = out.binds or out.ratio != 1
    if placement is None:
        placement = "before" if only_before else "after"
    check_choice(model, "placement", placement, PLACEMENTS)
    if placement == "after" and only_before:
        why = "it changes the number of channels"
        if out.binds:
            why = "it reads the one convolution before it"
        raise ArgumentError(
            f"{model}: {out.unit} cannot stand after an addition: {why}",
            got="placement='after'",
            fix="placement='before', or out_unit='relu'",
        )
    return Style(
        inner, out, placement, reduction if check_flag(model, "coupler", coupler) else None
    )


class Residual(nn.Module):
    """A main branch and a shortcut, joined by a sum or a Coupler, then a unit.

    Args:
        main: the modules of the main branch.
        shortcut: the module of the other branch.
        join: joins the branches; ``None`` for a sum.
        unit: follows the join; an identity for none.
    """

    def __init__(
        self,
        main: Sequence[nn.Module],
        shortcut: nn.Module,
        join: nn.Module | None,
        unit: nn.Module,
    ) -> None:
        super().__init__()
        for place, part in enumerate(main, 1):
            self.add_module(f"conv{place}", part)
        self.steps = len(main)
        self.shortcut = shortcut
        self.join = join
        self.unit = unit

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for place in range(1, self.steps + 1):
            y = self.get_submodule(f"conv{place}")(y)
        side = self.shortcut(x)
        return self.unit(y + side if self.join is None else self.join(y, side))


def shortcut(channels: int, width: int, stride: int, style: Style) -> nn.Module:
    """Return the shortcut of a block: an identity, or a 1x1 convolution where shapes change."""
    if stride == 1 and channels == width:
        return nn.Identity()
    if not style.before:
        return conv_block(channels, width, 1, None, stride=stride)
    return conv_block(channels, style.out.count_filters(width), 1, style.out, stride=stride)


def join_and_unit(width: int, style: Style) -> tuple[nn.Module | None, nn.Module]:
    """Return the module that joins the branches, ``None`` for a sum, and the unit after it."""
    join = None
    if style.coupler is not None:
        # A stage narrower than the reduction has one feature, as the narrowest one of the paper.
        join = Coupler(width, reduction=min(style.coupler, width))
    if style.before:
        return join, nn.Identity()
    unit = style.out.module(nn.Identity(), width)
    return join, nn.Identity() if unit is None else unit


def last_conv(
    channels: int,
    width: int,
    kernel: int,
    style: Style,
    *,
    before: Slot,
    padding: int = 0,
) -> Block:
    """Return the last convolution of the main branch. It has ``width`` channels after its unit."""
    if not style.before:
        return conv_block(channels, width, kernel, None, before=before, padding=padding)
    filters = style.out.count_filters(width)
    return conv_block(channels, filters, kernel, style.out, before=before, padding=padding)


def bottleneck(channels: int, inner: int, stride: int, style: Style) -> Residual:
    """Return a block of a 1x1, a 3x3 and a 1x1 convolution.

    Args:
        channels: input channels.
        inner: channels of the first two convolutions; the last one has four times as many.
        stride: of the 3x3 convolution.
        style: the style of the network.
    """
    width = 4 * inner
    slot = style.inner
    stream_slot(style.out, width, "at a block's end")
    filters = slot.count_filters(inner)
    read = slot.count_channels(filters)
    main = [
        conv_block(channels, filters, 1, slot),
        conv_block(read, filters, 3, slot, before=slot, stride=stride, padding=1),
        last_conv(read, width, 1, style, before=slot),
    ]
    return Residual(main, shortcut(channels, width, stride, style), *join_and_unit(width, style))


def basic_block(channels: int, width: int, stride: int, style: Style) -> Residual:
    """Return a block of two 3x3 convolutions with ``width`` channels; the first has the stride."""
    slot = style.inner
    stream_slot(style.out, width, "at a block's end")
    filters = slot.count_filters(width)
    main = [
        conv_block(channels, filters, 3, slot, stride=stride, padding=1),
        last_conv(slot.count_channels(filters), width, 3, style, before=slot, padding=1),
    ]
    return Residual(main, shortcut(channels, width, stride, style), *join_and_unit(width, style))


def stem(channels: int, width: int, kernel: int, stride: int, style: Style) -> Block:
    """Return the first convolution.

    A unit that cannot stand before a sum is replaced by the unit at the end of the blocks.
    """
    # The output of the stem is added to that of the first block, so its width is fixed.
    slot = style.inner if _fits(style.inner, width) else style.out
    stream_slot(slot, width, "in the stem")
    return conv_block(
        channels,
        slot.count_filters(width),
        kernel,
        slot,
        stride=stride,
        padding=kernel // 2,
    )


def _fits(slot: Slot, width: int) -> bool:
    return not slot.defers and slot.count_channels(slot.count_filters(width)) == width


class PooledClassifier(nn.Module):
    """Features, their mean over positions, and a linear layer.

    Args:
        features: returns (N, channels, H, W).
        channels: channels of the features.
        classes: outputs of the linear layer.
    """

    def __init__(self, features: nn.Module, channels: int, classes: int) -> None:
        super().__init__()
        self.features = features
        self.head = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        pooled = nn.functional.adaptive_avg_pool2d(self.features(x), 1)
        return self.head(torch.flatten(pooled, 1))
