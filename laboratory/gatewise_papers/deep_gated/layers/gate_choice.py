"""From the name of a gate to the gate's module."""

import inspect
from typing import Any

from torch import nn

from gatewise.errors import ArgumentError, unknown_name
from gatewise.layers import ConstantGate, GivenGate, HardGate, SoftGate, StraightThroughGate
from gatewise.units import Unit, create_unit, registered_units

RESPONSE_GATES = {
    "hard": HardGate,
    "soft": SoftGate,
    "straight_through": StraightThroughGate,
}
SET_BY_SOURCE = (GivenGate, HardGate, SoftGate)
PLAIN_GATES = {
    "sigmoid": lambda: SoftGate(beta=1.0, eps=0.0),
    "identity": nn.Identity,
}
OUTSIDE_GATES = {
    "constant": ConstantGate,
    "given": GivenGate,
    **RESPONSE_GATES,
}


def outside_gate(layer: str, gate: str | nn.Module) -> nn.Module:
    """Return the gate of a layer that is gated from outside.

    Args:
        layer: the layer's name in error messages.
        gate: a gate module, or the name of a gate that is built with its default options.
    """
    if isinstance(gate, nn.Module):
        return gate
    if gate == "random":
        raise ArgumentError(
            f"{layer}: random gates need the number of training examples",
            got="gate='random'",
            fix="gate=RandomGate(examples, units)",
        )
    if not isinstance(gate, str) or gate not in OUTSIDE_GATES:
        raise unknown_name("gate", gate, OUTSIDE_GATES)
    return OUTSIDE_GATES[gate]()


def inside_gate(
    layer: str,
    gate: str,
    channels: int,
    spatial: int,
    /,
    **options: Any,
) -> nn.Module:
    """Return the gate of a layer that gates itself.

    Args:
        layer: the layer's name in error messages.
        gate: a unit that keeps the width, or a gate that a response sets.
        channels: the number of the layer's outputs.
        spatial: the number of dimensions that follow the channels.
        **options: the gate's options, with ``device`` and ``dtype``.
    """
    names = (*PLAIN_GATES, *RESPONSE_GATES, *registered_units())
    if not isinstance(gate, str) or gate not in names:
        raise unknown_name("gate", gate, names)
    if gate not in RESPONSE_GATES and gate not in PLAIN_GATES:
        return _unit_gate(layer, gate, channels, spatial, options)
    options.pop("device", None)
    options.pop("dtype", None)
    factory = RESPONSE_GATES.get(gate) or PLAIN_GATES[gate]
    accepted = inspect.signature(factory).parameters if gate in RESPONSE_GATES else {}
    unknown = [name for name in options if name not in accepted]
    if unknown:
        raise ArgumentError(
            f"{layer}: gate {gate!r} has no such option",
            got=", ".join(unknown),
            allowed=", ".join(accepted) or "none",
        )
    return factory(**options)


def _unit_gate(
    layer: str,
    gate: str,
    channels: int,
    spatial: int,
    options: dict[str, Any],
) -> nn.Module:
    unit = registered_units()[gate]
    # The derivative of a context unit at one place is a sum over other places, which may overflow.
    if unit.family == "context":
        raise ArgumentError(
            f"{layer}: a gate may depend only on its own response",
            got=f"{gate}, {_context_of(unit)}",
            allowed="any unit of another family",
        )
    if "dim" in options or options.get("channels") not in (None, channels):
        raise ArgumentError(
            f"{layer}: the layer sets the gate's dim, and its channels must be those of the layer",
            got=options,
            allowed=f"no dim; channels={channels} for a parameter per channel",
        )
    if "channels" in unit.needs:
        options["channels"] = channels
    if "dim" in unit.options:
        options["dim"] = -1 - spatial
    module = create_unit(gate, **options)
    unit_options = {name: value for name, value in options.items() if name in unit.options}
    ratio = unit.fact("channel_ratio", **unit_options)
    if ratio != 1:
        raise ArgumentError(
            f"{layer}: the unit {gate} changes the width, so it cannot gate another response",
            got=f"{ratio} output channels per input channel",
            allowed="1",
        )
    return module


def _context_of(unit: Unit) -> str:
    """Return what a context unit reads besides its own element, for the error message."""
    if "maps" in unit.needs:
        return "which reads neighbouring positions of a feature map"
    if "conv" in unit.options:
        return "which reads the layer that made the response, and that layer's input"
    return "which reads the mean of its channel over all positions"
