"""What stands in an activation slot of a network, and what that means for the layers around it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from torch import nn

from gatewise.errors import ArgumentError, unknown_name
from gatewise.units import check_choice, create_unit, get_unit, registered_units

UnitChoice = (
    str | Mapping[str, Any]
)  # a unit's name, or its name and options: {"name": "beta_vq", "pieces": "abs"}
FILTERS = ("same", "half")
PSC = "psc"  # not a unit: no activation here, and a phase selective layer next. See Note [Phases]

# Note [Phases]. With unit="psc" a slot is empty, and the layer after it tells positive from
# negative inputs. A max- pool between the two pools the responses themselves, so a negative one
# survives only where its whole window is negative: pooling each phase apart, as after CReLU, would
# need both phases as channels. A mean over positions mixes the phases, so that the last slot before
# one is a CReLU, and the layer after it reads both phases as channels.


@dataclass(frozen=True)
class Slot:
    """One activation slot: a unit with its options, or phase selection by the layer that follows.

    ``filters`` says what a unit that doubles the channels does to the convolution before it:
    ``"same"`` keeps its filters, so that the next layer reads twice the channels; ``"half"`` halves
    them, and it reads as many as before.
    """

    unit: str
    options: Mapping[str, Any] = field(default_factory=dict)
    filters: str = "same"

    @property
    def defers(self) -> bool:
        """Whether nothing happens here, and the next layer reads both phases."""
        return self.unit == PSC

    @property
    def binds(self) -> bool:
        """Whether the unit reads the layer before it, and that layer's input."""
        return not self.defers and "conv" in get_unit(self.unit).options

    @property
    def needs_maps(self) -> bool:
        """Whether the unit can only follow a convolution."""
        return not self.defers and "maps" in get_unit(self.unit).needs

    @property
    def ratio(self) -> Fraction:
        """Channels after the slot for each channel before it."""
        return (
            Fraction(1)
            if self.defers
            else get_unit(self.unit).fact("channel_ratio", **self.options)
        )

    def count_filters(self, width: int) -> int:
        """Filters of the layer before the slot, where a pointwise unit would have ``width``."""
        if self.ratio < 1:  # maxout: as many channels come out as the network is wide
            return int(width / self.ratio)
        if self.ratio == 1 or self.filters == "same":
            return width
        if width % self.ratio.numerator:
            raise ArgumentError(
                f"{self.unit}: an odd number of filters cannot be halved", got=width
            )
        return width // self.ratio.numerator

    def count_channels(self, filters: int) -> int:
        """Channels after the slot, of ``filters`` before it."""
        return int(filters * self.ratio)

    def module(self, layer: nn.Module, channels: int) -> nn.Module | None:
        """The unit's module for the response of ``layer``.

        None where the slot defers to the next layer.
        """
        if self.defers:
            return None
        if self.binds:
            options = {"dim": -1} if isinstance(layer, nn.Linear) else {}
            return create_unit(self.unit, channels=channels, **options, **self.options)
        return create_unit(self.unit, channels=channels, **self.options)


RELU = Slot("relu")


def slot_of(unit: UnitChoice, filters: str = "same") -> Slot:
    """The slot for a unit given by name, or as a mapping of its name and options."""
    given = {"name": unit} if isinstance(unit, str) else unit
    if not isinstance(given, Mapping) or not isinstance(given.get("name"), str):
        raise ArgumentError(
            "unit must be a name, or a mapping with a name and options",
            got=unit,
            allowed="'crelu', {'name': ...}",
        )
    options = {key: value for key, value in given.items() if key != "name"}
    name = given["name"]
    if name != PSC and name not in registered_units():
        raise unknown_name("unit", name, [*registered_units(), PSC])
    if {"channels", "conv"} & set(options):
        raise ArgumentError(
            "unit: the network says which channels and layer a unit has", got=sorted(options)
        )
    if name == PSC and options:
        raise ArgumentError("psc: takes no options here", got=", ".join(map(str, options)))
    return Slot(name, options, check_choice("model", "filters", filters, FILTERS))


def slots(
    count: int,
    unit: UnitChoice,
    *,
    at: Sequence[int] | None = None,
    other: UnitChoice = "relu",
    filters: str = "same",
) -> list[Slot]:
    """``count`` slots: ``unit`` at the places ``at``, counted from 1, or everywhere.

    ``other`` elsewhere.
    """
    chosen, rest = slot_of(unit, filters), slot_of(other)
    if at is None:
        return [chosen] * count
    wrong = [
        place
        for place in at
        if isinstance(place, bool) or not isinstance(place, int) or not 1 <= place <= count
    ]
    if wrong or not at:
        raise ArgumentError(
            "at: no such place", got=list(at), allowed=f"one or more of 1 to {count}"
        )
    return [chosen if place in at else rest for place in range(1, count + 1)]


def stream_slot(slot: Slot, width: int, where: str) -> Slot:
    """``slot`` if it can stand where its output is added to others of ``width`` channels."""
    if slot.defers or slot.count_channels(slot.count_filters(width)) != width:
        why = (
            "needs the layer after it"
            if slot.defers
            else f"would make {slot.count_channels(width)} channels"
        )
        raise ArgumentError(
            f"{slot.unit} cannot stand {where}: it {why}, and {width} are added to others",
            fix="out_unit='relu' puts another unit there"
            + ("" if slot.defers else ", filters='half' keeps the width"),
        )
    return slot
