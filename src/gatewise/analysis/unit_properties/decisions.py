"""Each property of paper 003 decided on a curve, with its constants, or with a witness against it."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gatewise.analysis.unit_properties.scalar_curve import FAR, Curve, is_bounded

ROUNDING = 1e-9  # by how much a weight may fall and still count as not falling
LEAST = 1e-6  # differences of weights below are none
APART = tuple(2.0**k for k in range(-6, 11))


@dataclass(frozen=True)
class Property:
    """One property: whether it holds, with which constants, or what stands against it."""

    name: str
    holds: bool
    constants: dict[str, float]  # of the definition, where it holds
    witness: dict[str, float]  # numbers that break it, where it does not

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for a file; infinity as text."""
        return {
            "name": self.name,
            "holds": self.holds,
            "constants": plain(self.constants),
            "witness": plain(self.witness),
        }

    def __str__(self) -> str:
        shown = ", ".join(
            f"{name} = {value:.4g}" for name, value in (self.constants or self.witness).items()
        )
        return f"{'yes' if self.holds else 'no':3}  {shown}"


def plain(values: dict[str, float]) -> dict[str, Any]:
    """Numbers that JSON has, and words for those it has not."""
    return {name: value if math.isfinite(value) else str(value) for name, value in values.items()}


def selective(curve: Curve) -> Property:
    """Definition 1: two inputs, neither 0, with different weights."""
    low, high = int(curve.rho.argmin()), int(curve.rho.argmax())
    x, rho = curve.x.tolist(), curve.rho.tolist()
    pair = {"x": x[low], "y": x[high], "rho(x)": rho[low], "rho(y)": rho[high]}
    holds = rho[high] - rho[low] > ROUNDING * max(1.0, abs(rho[high]))
    return Property(
        "loosely selective",
        holds,
        pair if holds else {},
        {} if holds else {"rho everywhere": rho[low]},
    )


def monotone(curve: Curve) -> Property:
    """Property 1: a larger response has no smaller weight, in absolute value."""
    size = curve.rho.abs()
    top, where = size.cummax(0)
    fall = top - size - ROUNDING * top.clamp(min=1.0)
    worst = int(fall.argmax())
    x, rho = curve.x.tolist(), curve.rho.tolist()
    if float(fall[worst]) > 0:
        before = int(where[worst])
        witness = {"x": x[worst], "y": x[before], "rho(x)": rho[worst], "rho(y)": rho[before]}
        return Property("monotone in its adjuster", False, {}, witness)
    return Property(
        "monotone in its adjuster",
        True,
        {"rho(-inf)": curve.weight_end(-1), "rho(+inf)": curve.weight_end(1)},
        {},
    )


def constrained_negative(curve: Curve) -> Property:
    """Property 2: bounded for responses below eta."""
    end = curve.end(-1)
    far = curve.at(-torch.tensor(FAR, dtype=torch.float64))
    bounded = math.isfinite(end) or (math.isnan(end) and is_bounded(far, curve.y[curve.x < 0]))
    if not bounded:
        return Property(
            "constrained negative influence", False, {}, {"x": -FAR[-1], "f(x)": float(far[-1])}
        )
    at_zero = float(curve.at(torch.tensor([-1e-12], dtype=torch.float64)).abs())
    most = max(
        curve.largest(curve.at, -math.inf, 0.0)[1], at_zero, 0.0 if math.isnan(end) else abs(end)
    )
    return Property("constrained negative influence", True, {"eta": 0.0, "M": most}, {})


def preserved_positive(curve: Curve) -> Property:
    """Property 3: the derivative is bounded for responses above eta."""
    far = curve.slope(torch.tensor(FAR, dtype=torch.float64))
    x = curve.x[curve.x > 0]
    if not is_bounded(far, curve.slope(x)):
        return Property(
            "preserved positive influence", False, {}, {"x": FAR[-1], "f'(x)": float(far[-1])}
        )
    most = max(curve.largest(curve.slope, 0.0, math.inf)[1], float(far.abs().max()))
    return Property("preserved positive influence", True, {"eta": 0.0, "M": most}, {})


def discriminate(curve: Curve) -> Property:
    """Property 4: responses on either side of eta, far enough apart, have weights that differ by delta or more."""
    thresholds = torch.tensor(
        [*curve.kinks, 0.0, *torch.linspace(-10, 10, 401).tolist()], dtype=torch.float64
    )
    gaps = _gaps_at_infinity(curve, thresholds)
    best = int(gaps.argmax())
    eta, most = float(thresholds[best]), float(gaps[best])
    if most <= LEAST:
        return Property("oriented discriminateness", False, {}, _undiscerned(curve))
    deltas = [(apart, _gap(curve, eta, apart)) for apart in APART]
    enough = [pair for pair in deltas if pair[1] >= min(most, 2.0) / 2]
    apart, delta = enough[0] if enough else deltas[-1]
    if delta <= LEAST:
        return Property("oriented discriminateness", False, {}, _undiscerned(curve))
    return Property(
        "oriented discriminateness", True, {"eta": eta, "epsilon": apart, "delta": delta}, {}
    )


def _gaps_at_infinity(curve: Curve, eta: Tensor) -> Tensor:
    """The least difference of the weights of pairs around each ``eta`` that are as far apart as one likes."""
    low, high = curve.weight_end(-1), curve.weight_end(1)
    above = curve.rho.flip(0).cummin(0).values.flip(0)[torch.searchsorted(curve.x, eta, right=True)]
    below = curve.rho.cummax(0).values[torch.searchsorted(curve.x, eta) - 1]
    return torch.minimum(high - below.clamp(min=low), above.clamp(max=high) - low)


def _gap(curve: Curve, eta: float, apart: float) -> float:
    """The least ``rho(x) - rho(y)`` for ``x > eta > y`` and ``x - y > apart``."""
    ahead = torch.cat((curve.rho, torch.tensor([curve.weight_end(1)], dtype=torch.float64)))
    least_from = ahead.flip(0).cummin(0).values.flip(0)
    y = curve.x[curve.x < eta]
    first = torch.searchsorted(curve.x, (y + apart).clamp(min=eta), right=True)
    inside = float((least_from[first] - curve.rho[: len(y)]).min())
    start = int(torch.searchsorted(curve.x, torch.tensor(eta, dtype=torch.float64), right=True))
    return min(inside, float(least_from[start]) - curve.weight_end(-1))


def _undiscerned(curve: Curve) -> dict[str, float]:
    """Two responses far on either side whose weights do not differ in the right sense."""
    low, high = curve.weight_end(-1), curve.weight_end(1)
    return {
        "rho(-inf)": low,
        "rho(+inf)": high,
        "largest rho": float(curve.rho.max()),
        "least rho": float(curve.rho.min()),
    }
