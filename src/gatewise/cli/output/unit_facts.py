"""A unit's declared facts in words, and as a record for ``--json``."""

import inspect
import math
from collections.abc import Mapping
from typing import Any

from gatewise.report import MINUS, Fact, bound, join, number, plain
from gatewise.units import DTYPES, FAMILIES, PAPERS, Unit

NEEDS_IN_WORDS = {
    "channels": "the number of channels",
    "maps": "2-d feature maps (N, C, H, W)",
    "groups": "input channels divisible by the number of pieces",
}

MANY = 4  # kinks that are listed one by one


def defaults(unit: Unit) -> dict[str, Any]:
    """The options of the unit's first sample: its defaults, and what it cannot do without."""
    return dict(unit.samples[0])


def fact(unit: Unit, name: str) -> Any:
    """A declared fact under the default options."""
    return unit.fact(name, **defaults(unit))


def gain(unit: Unit) -> float:
    """The init gain under the default options; random starting values are drawn with seed 0."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return unit.init_gain_for(**defaults(unit))


def facts(unit: Unit) -> tuple[Fact, ...]:
    """Everything declared, in the order of the cards."""
    return (
        Fact("Family", f"{unit.family}: {FAMILIES[unit.family]}"),
        Fact("Kinks", kinks(fact(unit, "kinks"))),
        Fact("Limits", limits(unit)),
        Fact("Pieces", pieces(fact(unit, "pieces"))),
        Fact("Gives back", spans(fact(unit, "spans"))),
        Fact("Channels", channels_in_words(unit)),
        Fact("Learns", parameters(unit)),
        Fact("Init gain", number(gain(unit), 4)),
        Fact("Needs", join([NEEDS_IN_WORDS[name] for name in unit.needs], "nothing but its input")),
        Fact("Defined in", unit.paper),
        Fact("Studied in", join(list(unit.studied_in), "none of the five papers")),
    )


def kinks(points: Mapping[float, float]) -> str:
    """Where the derivative jumps, and which derivative is used there."""
    if len(points) > MANY:
        return f"{len(points)} from {number(min(points))} to {number(max(points))}"
    return "; ".join(f"at {number(x)}, {_derivative(d)}" for x, d in points.items()) or "none"


def _derivative(value: float) -> str:
    return (
        "derivative of either side there"
        if math.isnan(value)
        else f"derivative {number(value)} there"
    )


def limits(unit: Unit) -> str:
    """The value far to the left and far to the right."""
    found = fact(unit, "limits")
    return f"{_each(found.minus)} at {MINUS}∞, {_each(found.plus)} at +∞, NaN at NaN"


def _each(values: tuple[float, ...]) -> str:
    shown = ", ".join(number(v) for v in values)
    return f"({shown})" if len(values) > 1 else shown


def pieces(found: tuple[tuple[float, ...], tuple[float, ...]] | None) -> str:
    """The straight lines a max-affine unit is the largest of."""
    if found is None:
        return "none"
    return "largest of " + ", ".join(_affine(a, b) for a, b in zip(*found, strict=True))


def _affine(slope: float, offset: float) -> str:
    return _sum([(slope, "x"), (offset, "")])


def spans(found: Mapping[str, tuple[float, ...]]) -> str:
    """Which sums of the output's parts are other units."""
    return (
        "; ".join(f"{other} = {_sum(_parts(weights))}" for other, weights in found.items())
        or "no other unit"
    )


def _parts(weights: tuple[float, ...]) -> list[tuple[float, str]]:
    names = ["output"] if len(weights) == 1 else ["first", "second"] if len(weights) == 2 else None
    return [(w, names[i] if names else f"part {i + 1}") for i, w in enumerate(weights)]


def _sum(terms: list[tuple[float, str]]) -> str:
    """``[(1, "x"), (-2, "")]`` as ``x − 2``."""
    text = ""
    for weight, name in terms:
        if weight:
            size = number(abs(weight)) if abs(weight) != 1 or not name else ""
            sign = (f" {MINUS} " if weight < 0 else " + ") if text else MINUS * (weight < 0)
            text += sign + " ".join(part for part in (size, name) if part)
    return text or "0"


def channels(unit: Unit) -> str:
    """Output channels for each input channel: ``1``, ``2``, ``1/2``."""
    return str(fact(unit, "channel_ratio"))


def channels_in_words(unit: Unit) -> str:
    """The same, said in full."""
    ratio = fact(unit, "channel_ratio")
    return (
        f"{ratio.numerator} out for every {ratio.denominator} in"
        if ratio != 1
        else "as many out as in"
    )


def parameters(unit: Unit) -> str:
    """Trainable parameters and where they start."""
    found = (
        (name, start if start.startswith("as ") else f"at {start}")
        for name, start in unit.parameters.items()
    )
    return "; ".join(f"{name} starts {start}" for name, start in found) or "nothing"


def call(unit: Unit) -> str:
    """How to make one."""
    given = {"channels": "channels=C"} if "channels" in unit.needs else {}
    required = {
        k: given.get(k, f"{k}=...")
        for k, v in unit.options.items()
        if v.default is inspect.Parameter.empty
    }
    return f"gw.create_unit({', '.join([repr(unit.name), *(given | required).values()])})"


def options(unit: Unit) -> dict[str, str]:
    """Every option of the unit's module and its default."""
    empty = inspect.Parameter.empty
    return {
        k: "required" if v.default is empty else repr(v.default) for k, v in unit.options.items()
    }


def promises(unit: Unit) -> dict[str, tuple[str, str]]:
    """The promised error by dtype, forward and backward, in words."""
    found = {name: unit.error[name] for name in DTYPES}
    return {
        name: (
            bound(p.forward.ulps, p.forward.absolute),
            bound(p.backward.ulps, p.backward.absolute),
        )
        for name, p in found.items()
    }


def record(unit: Unit) -> dict[str, Any]:
    """The unit for ``--json``, under the default options."""
    found = fact(unit, "limits")
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
        "limits": {"minus": found.minus, "plus": found.plus},
        "pieces": _pieces_record(unit),
        "parameters": unit.parameters,
        "init_gain": gain(unit),
        "needs": unit.needs,
        "options": options(unit),
        "promised": _promised_record(unit),
        "note": unit.note,
    }


def _pieces_record(unit: Unit) -> list[dict[str, float]] | None:
    found = fact(unit, "pieces")
    return [{"slope": a, "offset": b} for a, b in zip(*found, strict=True)] if found else None


def _promised_record(unit: Unit) -> dict[str, Any]:
    return {
        name: {
            direction: {"ulps": found.ulps, "absolute": found.absolute}
            for direction, found in (("forward", p.forward), ("backward", p.backward))
        }
        for name, p in unit.error.items()
    }
