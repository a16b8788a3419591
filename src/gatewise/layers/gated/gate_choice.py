"""From the name of a gate to the gate."""

import inspect
from typing import Any

from torch import nn

from gatewise.errors import ArgumentError, unknown_name
from gatewise.layers.gated.constant_gate import ConstantGate, GivenGate
from gatewise.layers.gated.response_gate import HardGate, SoftGate, StraightThroughGate
from gatewise.units import Unit, create_unit, registered_units

RESPONSE_GATES = {"hard": HardGate, "soft": SoftGate, "straight_through": StraightThroughGate}
SET_BY_SOURCE = (GivenGate, HardGate, SoftGate)
PLAIN = {"sigmoid": lambda: SoftGate(beta=1.0, eps=0.0), "identity": nn.Identity}
OUTSIDE_GATES = {"constant": ConstantGate, "given": GivenGate, **RESPONSE_GATES}


def outside_gate(layer: str, gate: str | nn.Module) -> nn.Module:
    """The gate of a layer that is gated from outside.

    By name with its default options, or as it is.
    """
    if isinstance(gate, nn.Module):
        return gate
    if gate == "random":
        what = f"{layer}: random gates are drawn for a known number of training examples"
        raise ArgumentError(what, got="gate='random'", fix="gate=RandomGate(examples, units)")
    if not isinstance(gate, str) or gate not in OUTSIDE_GATES:
        raise unknown_name("gate", gate, OUTSIDE_GATES)
    return OUTSIDE_GATES[gate]()


def inside_gate(layer: str, gate: str, channels: int, spatial: int, /, **options: Any) -> nn.Module:
    """The gate of a layer that gates itself.

    Any unit that keeps the width, or a gate that a response sets.

    ``options`` are its own, with ``device`` and ``dtype``; ``spatial`` is how many dimensions
    follow the channels.
    """
    if not isinstance(gate, str):
        raise unknown_name("gate", gate, (*PLAIN, *RESPONSE_GATES, *registered_units()))
    if gate not in RESPONSE_GATES and gate not in PLAIN:
        return _unit_gate(layer, gate, channels, spatial, options)
    given = {name: value for name, value in options.items() if name not in ("device", "dtype")}
    taken = inspect.signature(RESPONSE_GATES[gate]).parameters if gate in RESPONSE_GATES else {}
    if unknown := [name for name in given if name not in taken]:
        allowed = ", ".join(taken) or "none"
        raise ArgumentError(
            f"{layer}: gate {gate!r} has no such option", got=", ".join(unknown), allowed=allowed
        )
    return RESPONSE_GATES[gate](**given) if gate in RESPONSE_GATES else PLAIN[gate]()


def _unit_gate(
    layer: str, gate: str, channels: int, spatial: int, options: dict[str, Any]
) -> nn.Module:
    if gate not in registered_units():
        raise unknown_name("gate", gate, (*PLAIN, *RESPONSE_GATES, *registered_units()))
    unit = registered_units()[gate]
    if (
        unit.family == "context"
    ):  # its derivative at one place is a sum over others, and overflows there
        what = f"{layer}: a gate looks at its own response alone"
        raise ArgumentError(
            what, got=f"{gate}, {_why_not(unit)}", allowed="any unit of another family"
        )
    if "dim" in options or options.get("channels") not in (None, channels):
        what = f"{layer}: the layer knows the gate's dim, and its channels are the layer's outputs"
        raise ArgumentError(
            what, got=options, allowed=f"no dim; channels={channels} for a parameter per channel"
        )
    if "channels" in unit.needs:
        options["channels"] = channels
    if "dim" in unit.options:
        options["dim"] = -1 - spatial
    made = create_unit(gate, **options)
    ratio = unit.fact("channel_ratio", **{k: v for k, v in options.items() if k in unit.options})
    if ratio != 1:
        what = f"{layer}: the unit {gate} changes the width, so it cannot gate another response"
        raise ArgumentError(what, got=f"{ratio} output channels per input channel", allowed="1")
    return made


def _why_not(unit: Unit) -> str:
    """What a unit that looks beyond its own element looks at."""
    if "maps" in unit.needs:
        return "which needs maps: it looks at the positions around its own"
    if "conv" in unit.options:
        return "which needs its producer: it looks at the layer that made the response, and at that layer's input"
    return "which looks at the mean over all positions of its channel"
