"""The declared properties of a unit, in words and as a record for ``--json``."""

import inspect
import math
from collections.abc import Mapping
from typing import Any

from gatewise.report import MINUS, Fact, join, number, plain
from gatewise.units import FAMILIES, PAPERS, Unit

NEEDS_IN_WORDS = {
    "channels": "the number of channels",
    "maps": "2-d feature maps (N, C, H, W)",
    "groups": "input channels divisible by the number of pieces",
}

MOST_KINKS = 4  # that are listed one by one


def defaults(unit: Unit) -> dict[str, Any]:
    """Return the options of the unit's first sample: its defaults, and its required options."""
    return dict(unit.samples[0])


def fact(unit: Unit, name: str) -> Any:
    """Return a declared property under the default options."""
    return unit.fact(name, **defaults(unit))


def gain(unit: Unit) -> float:
    """Return the init gain under the default options. Random initial values use seed 0."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return unit.init_gain_for(**defaults(unit))


def facts(unit: Unit) -> tuple[Fact, ...]:
    """Return all declared properties, in the order of the gallery's cards."""
    return (
        Fact("Family", f"{unit.family}: {FAMILIES[unit.family]}"),
        Fact("Kinks", kinks(fact(unit, "kinks"))),
        Fact("Limits", limits(unit)),
        Fact("Pieces", pieces(fact(unit, "pieces"))),
        Fact("Contains", spans(fact(unit, "spans"))),
        Fact("Channels", channels_in_words(unit)),
        Fact("Trainable", parameters(unit)),
        Fact("Init gain", number(gain(unit), 4)),
        Fact("Needs", join([NEEDS_IN_WORDS[name] for name in unit.needs], "only its input")),
        Fact("Defined in", unit.paper),
        Fact("Studied in", join(list(unit.studied_in), "none of the five papers")),
    )


def kinks(points: Mapping[float, float]) -> str:
    """Return where the derivative jumps, and the derivative that is used there."""
    if len(points) > MOST_KINKS:
        return f"{len(points)} from {number(min(points))} to {number(max(points))}"
    return "; ".join(f"at {number(x)}, {_derivative(d)}" for x, d in points.items()) or "none"


def _derivative(value: float) -> str:
    """Return the derivative at a kink in words. NaN means: that of either side."""
    if math.isnan(value):
        return "derivative of either side there"
    return f"derivative {number(value)} there"


def limits(unit: Unit) -> str:
    """Return the values far to the left and far to the right."""
    values = fact(unit, "limits")
    return f"{_numbers(values.minus)} at {MINUS}∞, {_numbers(values.plus)} at +∞, NaN at NaN"


def _numbers(values: tuple[float, ...]) -> str:
    shown = ", ".join(map(number, values))
    return f"({shown})" if len(values) > 1 else shown


def pieces(lines: tuple[tuple[float, ...], tuple[float, ...]] | None) -> str:
    """Return the affine functions of which a max-affine unit is the maximum.

    Args:
        lines: Slopes and offsets, or ``None`` for other units.
    """
    if lines is None:
        return "none"
    terms = [_sum([(slope, "x"), (offset, "")]) for slope, offset in zip(*lines, strict=True)]
    return "maximum of " + ", ".join(terms)


def spans(units: Mapping[str, tuple[float, ...]]) -> str:
    """Return which other units are weighted sums of the output's parts.

    Args:
        units: The weights for each of these units, by name.
    """
    sums = [f"{name} = {_sum(_parts(weights))}" for name, weights in units.items()]
    return "; ".join(sums) or "no other unit"


def _parts(weights: tuple[float, ...]) -> list[tuple[float, str]]:
    """Return each weight with the name of its part of the output."""
    names = [f"part {number}" for number in range(1, len(weights) + 1)]
    if len(weights) == 1:
        names = ["output"]
    elif len(weights) == 2:
        names = ["first", "second"]
    return list(zip(weights, names, strict=True))


def _sum(terms: list[tuple[float, str]]) -> str:
    """Return ``[(1, "x"), (-2, "")]`` as ``x − 2``."""
    text = ""
    for weight, name in terms:
        if not weight:
            continue
        size = number(abs(weight)) if abs(weight) != 1 or not name else ""
        if text:
            text += f" {MINUS} " if weight < 0 else " + "
        elif weight < 0:
            text += MINUS
        text += f"{size} {name}".strip()
    return text or "0"


def channels(unit: Unit) -> str:
    """Return the output channels per input channel: ``1``, ``2`` or ``1/2``."""
    return str(fact(unit, "channel_ratio"))


def channels_in_words(unit: Unit) -> str:
    """Return the output channels per input channel in words."""
    ratio = fact(unit, "channel_ratio")
    if ratio == 1:
        return "same as the input"
    return f"{ratio.numerator} out for every {ratio.denominator} in"


def parameters(unit: Unit) -> str:
    """Return the trainable parameters and their initial values."""
    texts = []
    for name, start in unit.parameters.items():
        value = start if start.startswith("as ") else f"at {start}"
        texts.append(f"{name} starts {value}")
    return "; ".join(texts) or "nothing"


def call(unit: Unit) -> str:
    """Return the Python call that creates the unit."""
    arguments = {"channels": "channels=C"} if "channels" in unit.needs else {}
    for name, option in unit.options.items():
        if option.default is inspect.Parameter.empty:
            arguments.setdefault(name, f"{name}=...")
    return f"gw.create_unit({', '.join([repr(unit.name), *arguments.values()])})"


def options(unit: Unit) -> dict[str, str]:
    """Return every option of the unit's module, with its default."""
    defaults = {}
    for name, option in unit.options.items():
        required = option.default is inspect.Parameter.empty
        defaults[name] = "required" if required else repr(option.default)
    return defaults


def record(unit: Unit) -> dict[str, Any]:
    """Return the unit for ``--json``, under the default options."""
    ends = fact(unit, "limits")
    return {
        "name": unit.name,
        "title": unit.title,
        "family": unit.family,
        "formula": unit.formula,
        "formula_text": plain(unit.formula),
        "paper": unit.paper,
        "studied_in": {key: PAPERS[key] for key in unit.studied_in},
        "channel_ratio": fact(unit, "channel_ratio"),
        "spans": fact(unit, "spans"),
        "kinks": [{"x": x, "derivative": d} for x, d in fact(unit, "kinks").items()],
        "limits": {"minus": ends.minus, "plus": ends.plus},
        "pieces": _pieces_record(unit),
        "parameters": unit.parameters,
        "init_gain": gain(unit),
        "needs": unit.needs,
        "options": options(unit),
        "promised": _promised_record(unit),
        "note": unit.note,
    }


def _pieces_record(unit: Unit) -> list[dict[str, float]] | None:
    """Return slopes and offsets of the affine pieces."""
    lines = fact(unit, "pieces")
    if not lines:
        return None
    return [{"slope": slope, "offset": offset} for slope, offset in zip(*lines, strict=True)]


def _promised_record(unit: Unit) -> dict[str, Any]:
    """Return the declared error bounds by dtype and direction."""
    record: dict[str, Any] = {}
    for name, promise in unit.error.items():
        record[name] = {
            "forward": {"ulps": promise.forward.ulps, "absolute": promise.forward.absolute},
            "backward": {"ulps": promise.backward.ulps, "absolute": promise.backward.absolute},
        }
    return record
