"""Which properties does a nonlinearity have, of those that paper 003 derives for feature activation?"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from gatewise.analysis.unit_properties.decisions import (
    Property,
    constrained_negative,
    discriminate,
    monotone,
    plain,
    preserved_positive,
    selective,
)
from gatewise.analysis.unit_properties.scalar_curve import Curve, curve_of
from gatewise.units import Unit, registered_units

TABLE_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "acon_c": {"p1": 1.2, "p2": -0.3}
}  # others as they start
HEAD = "| unit | selective | monotone | bounded below | slope bounded above | discriminates |"


@dataclass(frozen=True, eq=False)
class Properties:
    """The answer of :func:`properties`."""

    name: str
    selective: Property
    monotone: Property
    constrained_negative: Property
    preserved_positive: Property
    discriminate: Property
    premises: dict[str, bool]  # of propositions 2 to 4
    ends: dict[str, float]  # value and weight at both infinities
    curve: Curve

    @property
    def all(self) -> tuple[Property, ...]:
        """The five in the paper's order."""
        return (
            self.selective,
            self.monotone,
            self.constrained_negative,
            self.preserved_positive,
            self.discriminate,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for a file."""
        return {
            "name": self.name,
            "properties": [each.to_dict() for each in self.all],
            "premises": self.premises,
            "ends": plain(self.ends),
        }

    def plot(self, axes: Any = None) -> Any:
        """The function and its weight; returns the axes."""
        if axes is None:
            from matplotlib.figure import Figure

            axes = Figure(figsize=(4.2, 3.2), layout="constrained").subplots()
        x = self.curve.x
        shown = (x > -6) & (x < 6)
        axes.plot(x[shown].tolist(), self.curve.y[shown].tolist(), label="f(x)")
        axes.plot(
            x[shown].tolist(),
            self.curve.rho[shown].clamp(-3, 3).tolist(),
            "--",
            label="rho(x) = f(x) / x",
        )
        axes.set(xlabel="response x", title=self.name, ylim=(-2, 4))
        axes.legend(fontsize=7)
        return axes

    def __repr__(self) -> str:
        return "\n".join([self.name, *(f"  {each.name:31} {each}" for each in self.all)])

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"


def properties(unit_or_function: Any, **options: Any) -> Properties:
    r"""Which of the properties of paper 003 a scalar unit has, with constants, or with a witness where it has not.

    The unit is :math:`\phi(x) = \rho(x)\,x`, and its response is the importance that the weight :math:`\rho` goes by:

    - loosely selective (definition 1): :math:`\rho` is not constant off 0; exactly then :math:`\phi` is nonlinear.
    - monotone in its adjuster (property 1): :math:`|\rho|` does not fall.
    - constrained negative influence (2): :math:`|\phi| \le M` below :math:`\eta`.
    - preserved positive influence (3): :math:`|\phi'| \le M` above :math:`\eta`.
    - oriented discriminateness (4): :math:`\rho(x) - \rho(y) \ge \delta` where :math:`x > \eta > y` and
      :math:`x - y > \epsilon`.

    Args:
        unit_or_function: the name of a unit, a unit, a module (its trained numbers count), or a function of a tensor.
            options: of the unit.

    Decided in float64 on a fine grid to 1,000 either way, refined at its extremes, and at infinity by the unit's facts,
    or where there are none by values to 1e8: growth slower than a logarithm's is not seen. Units that look around are
    taken as their facts' probe has them (FReLU with its funnel closed, IIEU with lengths 1).

    ``premises`` are those of the propositions. Corrections: proposition 2 needs a continuous weight (the absolute value
    has property 1, and weights of both signs); the proof of proposition 4 does not hold (a bounded growing weight may
    have steps so steep that :math:`x \rho'` is unbounded), so property 3 is decided by itself.
    """
    if isinstance(unit_or_function, str | Unit):
        options = _with_channels(unit_or_function, options)
    curve = curve_of(unit_or_function, options)
    low, high = curve.weight_end(-1), curve.weight_end(1)
    ends = {"f(-inf)": curve.end(-1), "f(+inf)": curve.end(1), "rho(-inf)": low, "rho(+inf)": high}
    least, most = float(curve.rho.min()), float(curve.rho.max())
    premises = {
        "2: the weight has one sign": bool(least >= 0 or most <= 0),
        "3: f(-inf) = 0": ends["f(-inf)"] == 0 or abs(ends["f(-inf)"]) < 1e-12,
        "4: the weight is bounded": math.isfinite(low)
        and math.isfinite(high)
        and max(-least, most) < 1e4,
    }
    return Properties(
        curve.name,
        selective(curve),
        monotone(curve),
        constrained_negative(curve),
        preserved_positive(curve),
        discriminate(curve),
        premises,
        ends,
        curve,
    )


def property_table() -> str:
    """The properties of all scalar units of the catalogue as a Markdown table, in the catalogue's order.

    Units with trained numbers are taken as they start. A cell is the constant (M, or delta), or "no".
    """
    lines = [HEAD, "|---|---|---|---|---|---|"]
    for name, unit in registered_units().items():
        options = dict(TABLE_OPTIONS.get(name, {}))
        if unit.fact("channel_ratio") != 1:
            continue
        found = properties(unit, **options)
        given = (
            " (" + ", ".join(f"{key} = {value:g}" for key, value in options.items()) + ")"
            if options
            else ""
        )
        cells = [_cell(each) for each in found.all]
        lines.append(f"| {name}{given} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(each: Property) -> str:
    if not each.holds:
        return "no"
    constant = each.constants.get("M", each.constants.get("delta"))
    word = "delta" if "delta" in each.constants else "M"
    return "yes" if constant is None else f"{word} = {constant:.3g}"


def _with_channels(given: str | Unit, options: dict[str, Any]) -> dict[str, Any]:
    """One channel, where a unit must be told how many."""
    unit = registered_units().get(given) if isinstance(given, str) else given
    return {"channels": 1, **options} if unit is not None and "channels" in unit.needs else options
