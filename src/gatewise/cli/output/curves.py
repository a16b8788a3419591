"""The curve of a unit: value and derivative over its input, for each of its sample options."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gatewise.cli.output.measured_errors import one_thread
from gatewise.report import Curve, Kink, Line, Plot
from gatewise.units import Unit, create_unit

if TYPE_CHECKING:
    from torch import Tensor

LOW = -4.0
HIGH = 4.0
STEPS = 160
EVEN = tuple(LOW + (HIGH - LOW) * step / STEPS for step in range(STEPS + 1))
BESIDE = 1e-5  # distance from a kink at which its two sides are drawn
JUMP = 1e-3  # the derivative of a smooth curve never changes this much over twice that distance
MOST_CURVES = 5  # more could not be distinguished in the plot
HIDDEN = ("channels", "dim")  # options that do not change the curve


def sweep(unit: Unit) -> Plot:
    """Return the curves of ``unit``: default options first, then sample options that differ."""
    with one_thread():
        curves = _curves(unit)
        kinks = _kinks(unit, unit.samples[0])
    about = _about(unit)
    left_out = len(curves) - MOST_CURVES
    if left_out > 0:
        about = f"{about} {left_out} more sample options are not shown.".strip()
    return Plot(tuple(curves[:MOST_CURVES]), kinks, about)


def _curves(unit: Unit) -> list[Curve]:
    """Return one curve for each set of sample options that gives another curve."""
    curves: list[Curve] = []
    for options in unit.samples:
        curve = Curve(_label(options, first=not curves), _lines(unit, options))
        if all(curve.lines != other.lines for other in curves):
            curves.append(curve)
    return curves


def _label(options: Mapping[str, Any], *, first: bool) -> str:
    """Return the options in words, without those that do not change the curve."""
    shown = {key: value for key, value in options.items() if key not in HIDDEN}
    if not shown and first:
        return "default"
    texts = []
    for key, value in (shown or options).items():
        texts.append(f"{key} = {value:.4g}" if isinstance(value, float) else f"{key} = {value}")
    return ", ".join(texts)


def _about(unit: Unit) -> str:
    """Return how the curve was computed, if that is not obvious."""
    if "groups" in unit.needs:
        return "One channel of a group varies, the others are 0."
    if unit.probe is not None:
        return "The element varies while its context is fixed."
    drawn = []
    for name, start in unit.parameters.items():
        if "N(" in start and name not in unit.samples[0]:
            drawn.append(name)
    return f"Random initial values ({', '.join(drawn)}) with seed 0." if drawn else ""


def _lines(unit: Unit, options: Mapping[str, Any]) -> tuple[Line, ...]:
    """Return one line per part of the output.

    At each kink, the value is NaN, so that the line breaks there.
    """
    breaks = _breaks(unit, options)
    xs = {*EVEN, *breaks}
    for kink in breaks:
        xs |= {kink - BESIDE, kink + BESIDE}
    grid = sorted(xs)
    values, slopes = evaluate(unit, options, grid)

    def points(numbers: list[float]) -> tuple[tuple[float, float], ...]:
        pairs = zip(grid, numbers, strict=True)
        return tuple((x, math.nan if x in breaks else y) for x, y in pairs)

    lines = []
    for part, (value, slope) in enumerate(zip(values, slopes, strict=True), 1):
        label = f"part {part}" if len(values) > 1 else ""
        lines.append(Line(label, points(value), points(slope)))
    return tuple(lines)


def _breaks(unit: Unit, options: Mapping[str, Any]) -> list[float]:
    """Return the declared kinks, and jumps of the derivative that a fixed context causes."""
    _, below = evaluate(unit, options, [x - BESIDE for x in EVEN])
    _, above = evaluate(unit, options, [x + BESIDE for x in EVEN])
    breaks = set(unit.fact("kinks", **options))
    for slopes_below, slopes_above in zip(below, above, strict=True):
        for x, before, after in zip(EVEN, slopes_below, slopes_above, strict=True):
            if abs(after - before) > JUMP:
                breaks.add(x)
    return sorted(x for x in breaks if LOW < x < HIGH)


def _kinks(unit: Unit, options: Mapping[str, Any]) -> tuple[Kink, ...]:
    """Return the declared kinks, with the value of each part there."""
    slopes = unit.fact("kinks", **options)
    if not slopes:
        return ()
    values, _ = evaluate(unit, options, list(slopes))
    kinks = []
    for place, (x, slope) in enumerate(slopes.items()):
        kinks.append(Kink(x, tuple(part[place] for part in values), slope))
    return tuple(kinks)


def evaluate(
    unit: Unit,
    options: Mapping[str, Any],
    xs: list[float],
) -> tuple[list[list[float]], list[list[float]]]:
    """Return value and derivative of each part of the output at ``xs``, in float64.

    Args:
        unit: The unit.
        options: Its options.
        xs: The inputs.
    """
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
    """Return ``x`` in every channel that the unit expects, or in the first channel of a group."""
    import torch

    if "groups" in unit.needs:
        pieces = 1 / unit.fact("channel_ratio", **options)
        return torch.cat((x, x.new_zeros(x.shape[0], int(pieces) - 1)), 1)
    wide = x.expand(-1, options.get("channels") or 1)
    if "maps" in unit.needs:
        return wide[:, :, None, None]
    return wide


def _parts(unit: Unit, out: "Tensor", channels: int) -> list["Tensor"]:
    """Return the first channel of each part of the output."""
    out = out.flatten(1)
    step = channels if "groups" not in unit.needs else out.shape[1]
    return [out[:, i] for i in range(0, out.shape[1], step)]
