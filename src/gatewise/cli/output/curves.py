"""A unit's curve: its value and derivative along a sweep of its input, in float64, under each of its sample options."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gatewise.cli.output.measured_errors import one_thread
from gatewise.report import Curve, Kink, Line, Plot
from gatewise.units import Unit, create_unit

if TYPE_CHECKING:
    from torch import Tensor

LOW, HIGH, STEPS = -4.0, 4.0, 160
EVEN = tuple(LOW + (HIGH - LOW) * i / STEPS for i in range(STEPS + 1))
BESIDE = 1e-5  # how near to a kink its two sides are drawn
JUMP = 1e-3  # how much the derivative of a smooth curve never changes over twice that
MOST_CURVES = 5  # the default and as many others as the plot can tell apart
HIDDEN = ("channels", "dim")  # options that do not change the curve


def sweep(unit: Unit) -> Plot:
    """The curves of ``unit``.

    Default options first, then the sample options that look different.
    """
    with one_thread():
        curves = _curves(unit)
        kinks = _kinks(unit, unit.samples[0])
    left_out = len(curves) - MOST_CURVES
    more = f"{left_out} more of its sample options are not drawn." if left_out > 0 else ""
    return Plot(
        tuple(curves[:MOST_CURVES]), kinks, " ".join(text for text in (_about(unit), more) if text)
    )


def _curves(unit: Unit) -> list[Curve]:
    curves: list[Curve] = []
    for options in unit.samples:
        curve = Curve(_label(options, first=not curves), _lines(unit, options))
        if all(curve.lines != other.lines for other in curves):
            curves.append(curve)
    return curves


def _label(options: Mapping[str, Any], *, first: bool) -> str:
    shown = ", ".join(f"{k} = {_short(v)}" for k, v in options.items() if k not in HIDDEN)
    return shown or (
        "default" if first else ", ".join(f"{k} = {_short(v)}" for k, v in options.items())
    )


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _about(unit: Unit) -> str:
    """How the input was swept, where that needs saying."""
    if "groups" in unit.needs:
        return "One channel of a group is swept, the others are 0."
    if unit.probe is not None:
        return "The context it looks at is held fixed while the element is swept."
    drawn = [
        name
        for name, start in unit.parameters.items()
        if "N(" in start and name not in unit.samples[0]
    ]
    return f"Random starting values ({', '.join(drawn)}) drawn with seed 0." if drawn else ""


def _lines(unit: Unit, options: Mapping[str, Any]) -> tuple[Line, ...]:
    """One line per part of the output.

    A point that is not a number stands at each kink, so that lines break there.
    """
    breaks = _breaks(unit, options)
    xs = _grid(breaks)
    values, slopes = evaluate(unit, options, xs)
    several = len(values) > 1
    return tuple(
        Line(
            f"part {i + 1}" if several else "",
            tuple((x, math.nan if x in breaks else v) for x, v in zip(xs, value, strict=True)),
            tuple((x, math.nan if x in breaks else s) for x, s in zip(xs, slope, strict=True)),
        )
        for i, (value, slope) in enumerate(zip(values, slopes, strict=True))
    )


def _grid(breaks: list[float]) -> list[float]:
    sides = [k + side for k in breaks for side in (-BESIDE, 0.0, BESIDE)]
    return sorted({*EVEN, *sides})


def _breaks(unit: Unit, options: Mapping[str, Any]) -> list[float]:
    """Declared kinks, and jumps of the derivative that come from what was held fixed."""
    _, below = evaluate(unit, options, [x - BESIDE for x in EVEN])
    _, above = evaluate(unit, options, [x + BESIDE for x in EVEN])
    jumps = {
        x
        for low, high in zip(below, above, strict=True)
        for x, a, b in zip(EVEN, low, high, strict=True)
        if abs(b - a) > JUMP
    }
    return sorted(x for x in {*unit.fact("kinks", **options), *jumps} if LOW < x < HIGH)


def _kinks(unit: Unit, options: Mapping[str, Any]) -> tuple[Kink, ...]:
    found = unit.fact("kinks", **options)
    if not found:
        return ()
    values, _ = evaluate(unit, options, list(found))
    return tuple(
        Kink(x, tuple(part[i] for part in values), slope)
        for i, (x, slope) in enumerate(found.items())
    )


def evaluate(
    unit: Unit, options: Mapping[str, Any], xs: list[float]
) -> tuple[list[list[float]], list[list[float]]]:
    """Each part's value and derivative at ``xs``."""
    import torch

    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(0)
        module: Any = create_unit(unit.name, **options).double().eval()
        x = torch.tensor(xs, dtype=torch.float64)[:, None].requires_grad_()
        wide = _widen(unit, options, x)
        arguments = unit.probe(wide) if unit.probe is not None else module.arguments(wide)
        parts = _parts(unit, unit.function(wide, **arguments), wide.shape[1])
        slopes = [torch.autograd.grad(part.sum(), x, retain_graph=True)[0] for part in parts]
    return [part.detach().tolist() for part in parts], [slope[:, 0].tolist() for slope in slopes]


def _widen(unit: Unit, options: Mapping[str, Any], x: "Tensor") -> "Tensor":
    """``x`` in every channel the unit expects; in the first of its group where it takes groups."""
    import torch

    if "groups" in unit.needs:
        pieces = 1 / unit.fact("channel_ratio", **options)
        return torch.cat((x, x.new_zeros(x.shape[0], int(pieces) - 1)), 1)
    wide = x.expand(-1, options.get("channels") or 1)
    return wide[:, :, None, None] if "maps" in unit.needs else wide


def _parts(unit: Unit, out: "Tensor", channels: int) -> list["Tensor"]:
    """The first channel of each part of the output."""
    out = out.flatten(1)
    step = channels if "groups" not in unit.needs else out.shape[1]
    return [out[:, i] for i in range(0, out.shape[1], step)]
