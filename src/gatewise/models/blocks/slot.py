"""What stands in an activation slot of a network, and what that means for the layers around it.

Note [Phases]. With ``unit="psc"`` a slot is empty, and the layer after it has two weights for each
input: one for positive and one for negative values. Other packages register further layers with
:func:`phase_layers`. A max-pool between the two pools the responses themselves, so a negative
response survives only where its whole window is negative. A mean over positions would mix both
signs, so the last slot before a mean is a CReLU, and the layer after it reads both signs as
channels.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any

from torch import nn

from gatewise.checks import check_choice, check_kind
from gatewise.errors import ArgumentError
from gatewise.extensions import load_extensions, unknown_addition
from gatewise.layers import PSConv2d, PSLinear
from gatewise.units import create_unit, get_unit, registered_units

# A unit's name, or its name and options: {"name": "beta_vq", "pieces": "abs"}.
UnitChoice = str | Mapping[str, Any]
FILTERS = ("same", "half")


@dataclass(frozen=True)
class PhaseChoice:
    """A name that is not a unit: an empty slot, and phase selective layers after it.

    See Note [Phases].

    Attributes:
        conv: the convolution after the slot.
        linear: the linear layer after the slot.
        options: of these layers, that a choice of the unit may set.
    """

    conv: type[nn.Module]
    linear: type[nn.Module]
    options: tuple[str, ...] = ()


PHASE_CHOICES: dict[str, PhaseChoice] = {}


def phase_layers(
    name: str, conv: type[nn.Module], linear: type[nn.Module], options: Sequence[str] = ()
) -> None:
    """Register phase selective layers under a name that networks take in place of a unit's.

    Args:
        name: the name.
        conv: the convolution after an empty slot.
        linear: the linear layer after an empty slot.
        options: of these layers, that a choice of the unit may set.
    """
    check_kind("phase_layers", "name", name, str)
    for kind in (conv, linear):
        check_kind("phase_layers", "a layer", kind, type)
    check_kind("phase_layers", "options", options, Sequence)
    PHASE_CHOICES[name] = PhaseChoice(conv, linear, tuple(options))


phase_layers("psc", PSConv2d, PSLinear)


@dataclass(frozen=True)
class Slot:
    """One activation slot: a unit with its options, or phase selection by the next layer.

    Attributes:
        unit: the name of the unit, or a name of ``PHASE_CHOICES``.
        options: the options of the unit, or of the phase selective layers.
        filters: what a unit that doubles the channels does to the convolution before it. ``"same"``
            keeps its filters, so the next layer reads twice the channels; ``"half"`` halves them.
    """

    unit: str
    options: Mapping[str, Any] = field(default_factory=dict)
    filters: str = "same"

    @property
    def defers(self) -> bool:
        """Whether the slot is empty and the next layer is phase selective. See Note [Phases]."""
        return self.unit in PHASE_CHOICES

    @property
    def next_conv(self) -> Callable[..., nn.Module]:
        """The type of a convolution that reads the slot."""
        if not self.defers:
            return nn.Conv2d
        return partial(PHASE_CHOICES[self.unit].conv, **self.options)

    @property
    def next_linear(self) -> Callable[..., nn.Module]:
        """The type of a linear layer that reads the slot."""
        if not self.defers:
            return nn.Linear
        return partial(PHASE_CHOICES[self.unit].linear, **self.options)

    @property
    def binds(self) -> bool:
        """Whether the unit reads the layer before it and the input of that layer."""
        return not self.defers and "conv" in get_unit(self.unit).options

    @property
    def needs_maps(self) -> bool:
        """Whether the unit can only follow a convolution."""
        return not self.defers and "maps" in get_unit(self.unit).needs

    @property
    def ratio(self) -> Fraction:
        """Channels after the slot for each channel before it."""
        if self.defers:
            return Fraction(1)
        return get_unit(self.unit).fact("channel_ratio", **self.options)

    @property
    def _divides_last_dimension(self) -> bool:
        """Whether the unit takes the last dimension for the channels, as gated linear units do."""
        dim = get_unit(self.unit).options.get("dim")
        return dim is not None and dim.default == -1

    def count_filters(self, width: int) -> int:
        """Return the filters before the slot, where a pointwise unit would have ``width``."""
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
        """Return the channels after the slot, for ``filters`` before it."""
        return int(filters * self.ratio)

    def module(self, layer: nn.Module, channels: int) -> nn.Module | None:
        """Return the module of the unit; ``None`` if the slot is empty.

        Args:
            layer: the layer before the slot.
            channels: outputs of the layer.
        """
        if self.defers:
            return None
        options = dict(self.options)
        if self.binds and isinstance(layer, nn.Linear):
            options["dim"] = -1
        elif not isinstance(layer, nn.Linear) and self._divides_last_dimension:
            options.setdefault("dim", 1)
        return create_unit(self.unit, channels=channels, **options)


RELU = Slot("relu")


def slot_of(unit: UnitChoice, filters: str = "same") -> Slot:
    """Return the slot of a unit.

    Args:
        unit: the name of a unit, or a mapping of its name and options.
        filters: ``"same"`` or ``"half"``. See :class:`Slot`.
    """
    choice = {"name": unit} if isinstance(unit, str) else unit
    if not isinstance(choice, Mapping) or not isinstance(choice.get("name"), str):
        raise ArgumentError(
            "unit must be a name, or a mapping with a name and options",
            got=unit,
            allowed="'crelu', {'name': ...}",
        )
    options = dict(choice)
    name = options.pop("name")
    if name not in PHASE_CHOICES and name not in registered_units():
        load_extensions("units")
    known = {*registered_units(), *PHASE_CHOICES}
    if name not in known:
        raise unknown_addition("units", "unit", name, known)
    if {"channels", "conv"} & set(options):
        raise ArgumentError(
            "unit: the network sets the options channels and conv itself", got=sorted(options)
        )
    if name in PHASE_CHOICES and not set(options) <= set(PHASE_CHOICES[name].options):
        raise ArgumentError(
            f"{name}: unknown options",
            got=", ".join(map(str, options)),
            allowed=", ".join(PHASE_CHOICES[name].options) or "no options",
        )
    return Slot(name, options, check_choice("model", "filters", filters, FILTERS))
