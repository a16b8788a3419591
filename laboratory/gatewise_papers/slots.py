"""Activation slots of the papers' networks: units at chosen places, and checks of widths."""

from collections.abc import Sequence

from gatewise.errors import ArgumentError
from gatewise.models.blocks import Slot, UnitChoice, slot_of


def slots(
    count: int,
    unit: UnitChoice,
    *,
    at: Sequence[int] | None = None,
    other: UnitChoice = "relu",
    filters: str = "same",
) -> list[Slot]:
    """Return ``count`` slots.

    Args:
        count: the number of slots.
        unit: the unit at the places ``at``.
        at: places, counted from 1; all places unless given.
        other: the unit at the other places.
        filters: ``"same"`` or ``"half"``. See :class:`Slot`.
    """
    chosen = slot_of(unit, filters)
    rest = slot_of(other)
    if at is None:
        return [chosen] * count
    if not at or not all(type(place) is int and 1 <= place <= count for place in at):
        raise ArgumentError(
            "at: no such place",
            got=list(at),
            allowed=f"one or more of 1 to {count}",
        )
    return [chosen if place in at else rest for place in range(1, count + 1)]


def stream_slot(slot: Slot, width: int, where: str) -> Slot:
    """Return ``slot``; raise an error if its output does not have ``width`` channels."""
    if slot.defers or slot.count_channels(slot.count_filters(width)) != width:
        why = "needs the layer after it"
        fix = "out_unit='relu' puts another unit there"
        if not slot.defers:
            why = f"would return {slot.count_channels(width)} channels"
            fix += ", filters='half' keeps the width"
        raise ArgumentError(
            f"{slot.unit} cannot stand {where}: it {why}, and {width} are added to others", fix=fix
        )
    return slot


def divisible(width: float, by: int = 8) -> int:
    """Return the multiple of ``by`` nearest to ``width``, at least nine tenths of ``width``.

    This is the rule of MobileNet.
    """
    # Rounding down by more than a tenth would lose too many channels.
    nearest = max(by, int(width + by / 2) // by * by)
    return nearest + by if nearest < 0.9 * width else nearest
