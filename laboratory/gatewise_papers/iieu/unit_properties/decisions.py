"""Decides each property of the IIEU paper on a curve, with constants or a counterexample."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gatewise.analysis import AnalysisResult
from gatewise_papers.iieu.unit_properties.scalar_curve import FAR, Curve, is_bounded

ROUNDING = 1e-9  # a weight may decrease by this and still count as not decreasing
LEAST = 1e-6  # weights that differ by less are equal
DISTANCES = tuple(2.0**k for k in range(-6, 11))  # tried for epsilon of property 4
THRESHOLDS = torch.linspace(-10, 10, 401, device="cpu").tolist()  # tried for eta of property 4


@dataclass(frozen=True)
class Property(AnalysisResult):
    """Whether a unit has one property.

    Attributes:
        name: The name of the property.
        holds: Whether it holds.
        constants: The constants of the definition, if it holds.
        witness: Numbers that contradict it, if it does not hold.
    """

    name: str
    holds: bool
    constants: dict[str, float]
    witness: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for a file. Infinity becomes text."""
        return {
            "name": self.name,
            "holds": self.holds,
            "constants": with_infinity_as_text(self.constants),
            "witness": with_infinity_as_text(self.witness),
        }

    def __str__(self) -> str:
        numbers = (self.constants or self.witness).items()
        text = ", ".join(f"{name} = {value:.4g}" for name, value in numbers)
        return f"{'yes' if self.holds else 'no':3}  {text}"


def with_infinity_as_text(values: dict[str, float]) -> dict[str, Any]:
    """Return ``values`` for JSON, which has no NaN and no infinity."""
    return {name: value if math.isfinite(value) else str(value) for name, value in values.items()}


def selective(curve: Curve) -> Property:
    """Decide definition 1: two inputs other than 0 have different weights."""
    name = "loosely selective"
    low = int(curve.rho.argmin())
    high = int(curve.rho.argmax())
    pair = _pair(curve, low, high)
    largest = pair["rho(y)"]
    if largest - pair["rho(x)"] > ROUNDING * max(1.0, abs(largest)):
        return Property(name, True, pair, {})
    return Property(name, False, {}, {"rho everywhere": pair["rho(x)"]})


def monotone(curve: Curve) -> Property:
    """Decide property 1: a larger response has no smaller weight, in absolute value."""
    name = "monotone in its adjuster"
    size = curve.rho.abs()
    top, where = size.cummax(0)
    fall = top - size - ROUNDING * top.clamp(min=1.0)
    worst = int(fall.argmax())
    if float(fall[worst]) > 0:
        return Property(name, False, {}, _pair(curve, worst, int(where[worst])))
    ends = {"rho(-inf)": curve.weight_end(-1), "rho(+inf)": curve.weight_end(1)}
    return Property(name, True, ends, {})


def constrained_negative(curve: Curve) -> Property:
    """Decide property 2: the function is bounded for responses below eta."""
    name = "constrained negative influence"
    end = curve.end(-1)
    far = curve.at(-torch.tensor(FAR, dtype=torch.float64))
    bounded = math.isfinite(end)
    if math.isnan(end):
        bounded = is_bounded(far, curve.y[curve.x < 0])
    if not bounded:
        return Property(name, False, {}, {"x": -FAR[-1], "f(x)": float(far[-1])})
    # The grid leaves out 0, where a function may jump.
    at_zero = float(curve.at(torch.tensor([-1e-12], dtype=torch.float64)).abs())
    at_end = 0.0 if math.isnan(end) else abs(end)
    most = max(curve.largest(curve.at, -math.inf, 0.0)[1], at_zero, at_end)
    return Property(name, True, {"eta": 0.0, "M": most}, {})


def preserved_positive(curve: Curve) -> Property:
    """Decide property 3: the derivative is bounded for responses above eta."""
    name = "preserved positive influence"
    far = curve.slope(torch.tensor(FAR, dtype=torch.float64))
    near = curve.slope(curve.x[curve.x > 0])
    if not is_bounded(far, near):
        return Property(name, False, {}, {"x": FAR[-1], "f'(x)": float(far[-1])})
    most = max(curve.largest(curve.slope, 0.0, math.inf)[1], float(far.abs().max()))
    return Property(name, True, {"eta": 0.0, "M": most}, {})


def discriminate(curve: Curve) -> Property:
    """Decide property 4: responses far apart on either side of eta have different weights.

    The weights must differ by at least delta.
    """
    name = "oriented discriminateness"
    thresholds = torch.tensor([*curve.kinks, 0.0, *THRESHOLDS], dtype=torch.float64)
    gaps = _gaps_at_infinity(curve, thresholds)
    best = int(gaps.argmax())
    eta = float(thresholds[best])
    most = float(gaps[best])
    if most <= LEAST:
        return Property(name, False, {}, _weights_at_infinity(curve))
    # The smallest distance at which half of the largest possible difference is reached.
    epsilon = delta = 0.0
    for epsilon in DISTANCES:
        delta = _gap(curve, eta, epsilon)
        if delta >= min(most, 2.0) / 2:
            break
    if delta <= LEAST:
        return Property(name, False, {}, _weights_at_infinity(curve))
    return Property(name, True, {"eta": eta, "epsilon": epsilon, "delta": delta}, {})


def _pair(curve: Curve, first: int, second: int) -> dict[str, float]:
    """Return two points x and y of the grid, and their weights."""
    return {
        "x": float(curve.x[first]),
        "y": float(curve.x[second]),
        "rho(x)": float(curve.rho[first]),
        "rho(y)": float(curve.rho[second]),
    }


def _least_from(values: Tensor) -> Tensor:
    """Return for each place the least of the values from there on."""
    return values.flip(0).cummin(0).values.flip(0)


def _gaps_at_infinity(curve: Curve, eta: Tensor) -> Tensor:
    """Return the least difference of the weights of two points far apart around each ``eta``."""
    low = curve.weight_end(-1)
    high = curve.weight_end(1)
    above = _least_from(curve.rho)[torch.searchsorted(curve.x, eta, right=True)]
    below = curve.rho.cummax(0).values[torch.searchsorted(curve.x, eta) - 1]
    return torch.minimum(high - below.clamp(min=low), above.clamp(max=high) - low)


def _gap(curve: Curve, eta: float, epsilon: float) -> float:
    """Return the least ``rho(x) - rho(y)`` for ``x > eta > y`` and ``x - y > epsilon``."""
    end = torch.tensor([curve.weight_end(1)], dtype=torch.float64)
    least = _least_from(torch.cat((curve.rho, end)))
    y = curve.x[curve.x < eta]
    first = torch.searchsorted(curve.x, (y + epsilon).clamp(min=eta), right=True)
    inside = float((least[first] - curve.rho[: len(y)]).min())
    start = int(torch.searchsorted(curve.x, torch.tensor(eta, dtype=torch.float64), right=True))
    return min(inside, float(least[start]) - curve.weight_end(-1))


def _weights_at_infinity(curve: Curve) -> dict[str, float]:
    """Return the weights at both ends, which do not differ in the right sense."""
    return {
        "rho(-inf)": curve.weight_end(-1),
        "rho(+inf)": curve.weight_end(1),
        "largest rho": float(curve.rho.max()),
        "least rho": float(curve.rho.min()),
    }
