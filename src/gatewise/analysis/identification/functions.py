"""Recognise a function of one number from its values at a few points.

Note [Points]. The points are exact in every floating point type. They reach from 2^-12, where
thresholds and slopes at 0 show, to 100, beyond every clamp in use. A candidate is accepted if it
is within 3e-6, absolute or relative, at all points: the closest pair of candidates, the exact and
the tanh form of GELU, differs by 4.7e-4. Constants (slopes, clamps, scales) are computed from
single values first and then checked at all points like any other candidate.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from gatewise.units import registered_units

Function = Callable[[Tensor], Tensor]
_BOTH = (
    2.0**-12,
    2.0**-8,
    0.0625,
    0.125,
    0.25,
    0.5,
    0.75,
    1.0,
    1.25,
    1.5,
    1.75,
    2.0,
    2.25,
    2.75,
    3.0,
    3.5,
    4.0,
    5.0,
    6.5,
    8.0,
    20.0,
)
_POSITIVE = (2.0**-11, 2.0**-6, 0.375, 2.5, 6.0, 7.0, 7.5, 10.0, 12.0, 15.0, 16.5, 32.0, 100.0)
POINTS = tuple(sorted((0.0, *_BOTH, *_POSITIVE, *(-point for point in _BOTH))))
TOLERANCE = 3e-6
FAR = 100.0  # beyond every clamp
SMALLEST = 1e-3  # below it a constant is not told from 0


@dataclass(frozen=True)
class Recognised:
    """What a function is.

    Attributes:
        name: the name of the function; empty if no candidate fits.
        constants: its constants, such as the limit of a clamp, by name.
        difference: the largest difference from it at the points.
        runner_up: the name of the nearest candidate that does not fit.
        runner_up_difference: its largest difference at the points.
    """

    name: str
    constants: dict[str, float]
    difference: float
    runner_up: str
    runner_up_difference: float

    def __str__(self) -> str:
        if not self.name:
            return f"not recognised (nearest: {self.runner_up}, off by {self.difference:.2g})"
        constants = ", ".join(f"{name} {value:.6g}" for name, value in self.constants.items())
        return f"{self.name} ({constants})" if constants else self.name


@dataclass(frozen=True)
class _Candidate:
    name: str
    function: Function
    constants: tuple[tuple[str, float], ...] = ()


def points(dtype: torch.dtype = torch.float64) -> Tensor:
    """Return the points at which functions are compared."""
    return torch.tensor(POINTS, dtype=dtype)


def recognise(values: Tensor) -> Recognised:
    """Return the function that has these values at :func:`points`.

    Args:
        values: the values, one per point.
    """
    x = points()
    y = values.detach().double().flatten()
    ranked = []
    for candidate in _candidates(x, y):
        want = candidate.function(x)
        error = (y - want).abs()
        fits = bool((error <= TOLERANCE * (1 + want.abs())).all())
        worst = float(error.max()) if bool(error.isfinite().all()) else math.inf
        # Of several that fit, the one with fewer constants, then the one with round constants: a
        # clamp before and one after the function differ only next to the limit.
        odd = sum(abs(16 * value - round(16 * value)) for _, value in candidate.constants)
        rank = (len(candidate.constants), round(odd, 4)) if fits else (0, 0.0)
        ranked.append((not fits, rank, worst, candidate))
    ranked.sort(key=lambda row: row[:3])
    unfit, _, worst, best = ranked[0]
    others = [row for row in ranked[1:] if row[0] and row[3].name != best.name]
    second = others[0]
    if unfit:
        return Recognised("", {}, worst, best.name, worst)
    constants = dict(best.constants)
    return Recognised(best.name, constants, worst, second[3].name, second[2])


def _candidates(x: Tensor, y: Tensor) -> Iterator[_Candidate]:
    """Yield all functions with the constants that single values of ``y`` suggest."""
    for name, function in PLAIN.items():
        yield _Candidate(name, function)
    yield from _with_slopes(x, y)
    yield from _clamped(x, y)
    yield from _scaled(x, y)


def _quick_gelu(x: Tensor) -> Tensor:
    return x * torch.sigmoid(1.702 * x)


# Units of one number without options or with their usual ones.
UNITS = (
    "relu",
    "relu2",
    "abs",
    "silu",
    "gelu",
    "gelu_tanh",
    "mish",
    "telu",
    "hardswish",
    "hardsigmoid",
    "hardtanh",
    "relu6",
    "selu",
    "sigmoid",
    "tanh",
    "softsign",
    "softplus",
    "logsigmoid",
    "tanhshrink",
)
PLAIN: dict[str, Function] = {
    "identity": torch.clone,
    "square": torch.square,
    "quick_gelu": _quick_gelu,
    **{name: registered_units()[name].function for name in UNITS},
}
# Functions that models clamp, before or after they are taken.
CLAMPED = ("silu", "quick_gelu", "gelu", "gelu_tanh", "relu", "identity")


def _at(x: Tensor, y: Tensor, point: float) -> float:
    return float(y[x == point][0])


def _with_slopes(x: Tensor, y: Tensor) -> Iterator[_Candidate]:
    """Yield functions with one constant that is read off at one point."""
    slope = _at(x, y, -20.0) / -20.0
    if SMALLEST < abs(slope) and abs(slope - 1) > SMALLEST:
        yield _Candidate(
            "leaky_relu",
            lambda z: torch.where(z > 0, z, slope * z),
            (("slope", slope),),
        )
    alpha = -_at(x, y, -20.0)
    if alpha > SMALLEST:
        yield _Candidate(
            "elu",
            lambda z: torch.where(z > 0, z, alpha * torch.expm1(z)),
            (("alpha", alpha),),
        )
        yield _Candidate(
            "celu",
            lambda z: torch.where(z > 0, z, alpha * torch.expm1(z / alpha)),
            (("alpha", alpha),),
        )
    one = _at(x, y, 1.0)
    if 0 < one < 1:
        beta = math.log(one / (1 - one))
        yield _Candidate("swish", lambda z: z * torch.sigmoid(beta * z), (("beta", beta),))
    below = [float(point) for point in x[(y == 0) & (x > 0)]]
    if below:
        # The threshold is between the last closed and the first open point.
        last = max(below)
        yield _Candidate(
            "threshold",
            lambda z: torch.where(z > last, z, 0.0),
            (("at least", last),),
        )
    negative = math.sqrt(max(0.0, _at(x, y, -20.0))) / 20.0
    if negative > SMALLEST:
        yield _Candidate(
            "leaky_relu2",
            lambda z: torch.where(z > 0, z, negative * z).square(),
            (("slope", negative),),
        )


def _clamped(x: Tensor, y: Tensor) -> Iterator[_Candidate]:
    """Yield functions that are constant far out, with the limit that their plateau tells."""
    plateau = _at(x, y, FAR)
    if not 0 < plateau < FAR / 2 or abs(plateau - _at(x, y, 32.0)) > TOLERANCE * (1 + plateau):
        return
    for name in CLAMPED:
        function = PLAIN[name]
        before = _inverse(function, plateau)
        if before is not None:
            limit = before
            yield _Candidate(
                f"{name}, clamped before",
                lambda z, f=function, limit=limit: f(z.clamp(max=limit)),
                (("limit", limit),),
            )
        yield _Candidate(
            f"{name}, clamped after",
            lambda z, f=function: f(z).clamp(-plateau, plateau),
            (("limit", plateau),),
        )


def _inverse(function: Function, value: float) -> float | None:
    """Return the positive number at which a growing function has ``value``, by bisection."""
    low, high = 0.0, FAR
    for _ in range(100):
        middle = (low + high) / 2
        if float(function(torch.tensor(middle, dtype=torch.float64))) < value:
            low = middle
        else:
            high = middle
    return high if 0 < high < FAR else None


def _scaled(x: Tensor, y: Tensor) -> Iterator[_Candidate]:
    """Yield functions of two constants: xIELU, StarReLU and DyT, from values at three points."""
    bias = _at(x, y, -20.0)
    scale = (_at(x, y, 2.0) - bias) / 4
    if abs(scale) > SMALLEST:
        yield _Candidate(
            "star_relu",
            lambda z: scale * torch.relu(z).square() + bias,
            (("scale", scale), ("bias", bias)),
        )
    one, two = _at(x, y, 1.0), _at(x, y, 2.0)
    positive = (two - 2 * one) / 2  # a_p + b and 4 a_p + 2 b
    slope = one - positive
    negative = (_at(x, y, -20.0) + 20 * slope) / (20 + math.expm1(-20.0))
    if positive > SMALLEST and negative > SMALLEST:
        yield _Candidate(
            "xielu",
            lambda z: torch.where(
                z > 0,
                positive * z * z + slope * z,
                negative * (torch.expm1(z.clamp(max=0)) - z) + slope * z,
            ),
            (("alpha_p", positive), ("alpha_n", negative), ("beta", slope)),
        )
    top = _at(x, y, FAR)
    if abs(top) > SMALLEST and 0 < one / top < 1:
        alpha = math.atanh(one / top)
        yield _Candidate(
            "dyt",
            lambda z: top * torch.tanh(alpha * z),
            (("alpha", alpha), ("weight", top)),
        )
