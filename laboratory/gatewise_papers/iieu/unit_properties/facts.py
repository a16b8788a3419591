"""Which of the properties that the IIEU paper derives a nonlinearity has."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gatewise.analysis.record import PlottedResult
from gatewise.units import Unit, registered_units
from gatewise_papers.iieu.unit_properties.decisions import (
    Property,
    constrained_negative,
    discriminate,
    monotone,
    preserved_positive,
    selective,
    with_infinity_as_text,
)
from gatewise_papers.iieu.unit_properties.scalar_curve import Curve, curve_of

# Options of units in the table. The others have their initial parameters.
TABLE_OPTIONS: Mapping[str, Mapping[str, Any]] = {"acon_c": {"p1": 1.2, "p2": -0.3}}
HEAD = "| unit | selective | monotone | bounded below | slope bounded above | discriminates |"


@dataclass(frozen=True, eq=False)
class Properties(PlottedResult):
    """The result of :func:`properties`.

    Attributes:
        name: The name of the unit.
        selective: Definition 1.
        monotone: Property 1.
        constrained_negative: Property 2.
        preserved_positive: Property 3.
        discriminate: Property 4.
        premises: Whether the premises of propositions 2 to 4 hold.
        ends: Value and weight at both infinities.
        curve: The function, tabulated.
    """

    name: str
    selective: Property
    monotone: Property
    constrained_negative: Property
    preserved_positive: Property
    discriminate: Property
    premises: dict[str, bool]
    ends: dict[str, float]
    curve: Curve

    @property
    def all(self) -> tuple[Property, ...]:
        """The five properties in the order of the paper."""
        return (
            self.selective,
            self.monotone,
            self.constrained_negative,
            self.preserved_positive,
            self.discriminate,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for a file."""
        return {
            "name": self.name,
            "properties": [item.to_dict() for item in self.all],
            "premises": self.premises,
            "ends": with_infinity_as_text(self.ends),
        }

    def _figure_size(self) -> tuple[float, float]:
        return 4.2, 3.2

    def _draw(self, axes: Any) -> None:
        """Draw the function and its weight."""
        shown = self.curve.x.abs() < 6
        x = self.curve.x[shown].tolist()
        weight = self.curve.rho[shown].clamp(-3, 3).tolist()
        axes.plot(x, self.curve.y[shown].tolist(), label="f(x)")
        axes.plot(x, weight, "--", label="rho(x) = f(x) / x")
        axes.set(xlabel="response x", title=self.name, ylim=(-2, 4))
        axes.legend(fontsize=7)

    def __str__(self) -> str:
        return "\n".join([self.name, *(f"  {item.name:31} {item}" for item in self.all)])


def properties(unit_or_function: Any, **options: Any) -> Properties:
    r"""Decide which properties of the IIEU paper a scalar unit has.

    The unit is :math:`\phi(x) = \rho(x)\,x`. The weight :math:`\rho` depends on the response,
    which is the importance of the feature:

    - loosely selective (definition 1): :math:`\rho` is not constant apart from 0. This is
      equivalent to :math:`\phi` being nonlinear.
    - monotone in its adjuster (property 1): :math:`|\rho|` does not decrease.
    - constrained negative influence (2): :math:`|\phi| \le M` below :math:`\eta`.
    - preserved positive influence (3): :math:`|\phi'| \le M` above :math:`\eta`.
    - oriented discriminateness (4): :math:`\rho(x) - \rho(y) \ge \delta` where
      :math:`x > \eta > y` and :math:`x - y > \epsilon`.

    Properties are decided in float64 on a fine grid up to 1,000 on both sides, refined at its
    extremes. At infinity the facts of the unit decide, or without facts the values up to 1e8: a
    function that grows more slowly than a logarithm appears bounded. Units that depend on their
    surroundings are taken as the probe in their facts has them (FReLU with its funnel closed, IIEU
    with lengths 1).

    Corrections of the paper: proposition 2 needs a continuous weight (the absolute value has
    property 1, and weights of both signs). The proof of proposition 4 does not hold: a bounded
    increasing weight may have steps so steep that :math:`x \rho'` is unbounded. So property 3 is
    decided separately.

    Args:
        unit_or_function: The name of a unit, a unit, a module with its trained parameters, or a
            function of a tensor.
        **options: Options of the unit.

    Raises:
        NotApplicableError: It is not a function of one number.
    """
    if isinstance(unit_or_function, str | Unit):
        options = _with_channels(unit_or_function, options)
    curve = curve_of(unit_or_function, options)
    low = curve.weight_end(-1)
    high = curve.weight_end(1)
    at_minus = curve.end(-1)
    least = float(curve.rho.min())
    most = float(curve.rho.max())
    finite = math.isfinite(low) and math.isfinite(high)
    return Properties(
        name=curve.name,
        selective=selective(curve),
        monotone=monotone(curve),
        constrained_negative=constrained_negative(curve),
        preserved_positive=preserved_positive(curve),
        discriminate=discriminate(curve),
        premises={
            "2: the weight has one sign": least >= 0 or most <= 0,
            "3: f(-inf) = 0": abs(at_minus) < 1e-12,
            "4: the weight is bounded": finite and max(-least, most) < 1e4,
        },
        ends={
            "f(-inf)": at_minus,
            "f(+inf)": curve.end(1),
            "rho(-inf)": low,
            "rho(+inf)": high,
        },
        curve=curve,
    )


def property_table() -> str:
    """Return the properties of all scalar units of the catalogue as a Markdown table.

    Units have their initial parameters. A cell is the constant (M or delta), "yes" or "no".
    """
    lines = [HEAD, "|---|---|---|---|---|---|"]
    for name, unit in registered_units().items():
        if unit.fact("channel_ratio") != 1:
            continue
        options = TABLE_OPTIONS.get(name, {})
        settings = ", ".join(f"{key} = {value:g}" for key, value in options.items())
        title = f"{name} ({settings})" if settings else name
        cells = [_cell(item) for item in properties(unit, **options).all]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(item: Property) -> str:
    if not item.holds:
        return "no"
    for name in ("M", "delta"):
        if name in item.constants:
            return f"{name} = {item.constants[name]:.3g}"
    return "yes"


def _with_channels(given: str | Unit, options: dict[str, Any]) -> dict[str, Any]:
    """Add one channel, if the unit needs their number."""
    unit = registered_units().get(given) if isinstance(given, str) else given
    if unit is None or "channels" not in unit.needs:
        return options
    return {"channels": 1, **options}
