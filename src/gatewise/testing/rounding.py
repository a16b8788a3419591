"""Measure a unit's error against its float64 reference.

Every 16-bit input, a stratified sample of float32.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gatewise.testing.case import Case
from gatewise.testing.ulps import inputs_of, ulps_apart
from gatewise.units import DTYPES, Bound, Unit, get_unit

QUICK, FULL = 1 << 17, 10_000_000  # float32 inputs tried

TORCH_OWN: dict[str, Callable[..., Tensor]] = {
    "relu": torch.relu,
    "leaky_relu": torch.nn.functional.leaky_relu,
    "abs": torch.abs,
    "elu": torch.nn.functional.elu,
    "softplus": torch.nn.functional.softplus,
    "gelu": torch.nn.functional.gelu,
    "silu": torch.nn.functional.silu,
    "mish": torch.nn.functional.mish,
}  # torch's function of the same default options, for comparison only


@dataclass(frozen=True)
class Measured:
    """The worst error of one unit in one dtype and direction, and torch's own beside it where torch has one."""

    unit: str
    options: str
    dtype: str
    direction: str  # "forward" or "backward"
    inputs: int
    ulps: float
    ulps_at: float
    absolute: float  # among results further off than the promised ulps, for these alone need it
    absolute_at: float
    promised_ulps: int
    promised_absolute: float
    kept: bool
    torch_ulps: float | None = None
    torch_absolute: float | None = None
    torch_hidden: int | None = None


@dataclass(frozen=True)
class Sweep:
    """Results and what they should have been, element by element."""

    x: Tensor
    got: Tensor
    want: Tensor  # float64

    @property
    def rounded(self) -> Tensor:
        """The right answer in the dtype of the result."""
        return self.want.to(self.got.dtype)

    @property
    def wrong_nan(self) -> Tensor:
        """Where a NaN was hidden or invented."""
        return self.got.isnan() != self.rounded.isnan()

    @property
    def ulps(self) -> Tensor:
        """Distance to the right answer in units in the last place; 0 where both are NaN."""
        return torch.where(
            self.got.isnan() | self.rounded.isnan(), 0, ulps_apart(self.got, self.rounded)
        )

    @property
    def absolute(self) -> Tensor:
        """Distance to the right answer, rounded once; infinite where exactly one of the two is."""
        error = (self.got.double() - self.rounded.double()).abs()
        return torch.where(self.got == self.rounded, 0.0, error).nan_to_num(
            nan=0.0, posinf=math.inf
        )

    def absolute_beyond(self, bound: Bound) -> Tensor:
        """Absolute error where it is more than the promised ulps; 0 elsewhere."""
        return torch.where(self.ulps > bound.ulps, self.absolute, 0.0)

    def within(self, bound: Bound) -> Tensor:
        """Where the promise is kept: few enough ulps, or a small enough absolute error."""
        return ~self.wrong_nan & ((self.ulps <= bound.ulps) | (self.absolute <= bound.absolute))


def sweep_forward(
    case: Case, values: Tensor, function: Callable[[Tensor], Tensor] | None = None
) -> Sweep:
    """Values of ``case`` (or of ``function`` in its place), against the reference and the declared limits."""
    x = case.spread(values)
    got = (function or case.function)(x)
    want = case.reference(x)
    if not case.ratio < 1:
        want = _with_limits(case, x, want)
    return Sweep(_repeat_like(x, got, case), got, want)


def sweep_backward(
    case: Case, values: Tensor, function: Callable[[Tensor], Tensor] | None = None
) -> Sweep:
    """Derivatives with respect to the input at ``values``, all finite.

    At a kink the declared one is right.
    """
    x = case.spread(values)
    got = _derivative(function or case.function, x)
    want = _derivative(case.reference, x.double())
    for kink, derivative in case.kinks.items():
        near = (x.double() - kink).abs() <= 2e-6 * max(1.0, abs(kink))
        if math.isnan(derivative):
            want = torch.where(near, got.double(), want)
        elif case.ratio == 1:
            want = torch.where(x.double() == kink, derivative, want)
    return Sweep(x, got, want)


def measure(
    unit: str | Unit, *, dtypes: Sequence[str] = DTYPES, full: bool = False
) -> list[Measured]:
    """The worst errors of ``unit`` with each of its sample options, by dtype and direction."""
    spec = get_unit(unit) if isinstance(unit, str) else unit
    rows = []
    for options in spec.samples:
        case = Case(spec, options)
        own = TORCH_OWN.get(spec.name) if not options else None
        for name in dtypes:
            values = inputs_of(getattr(torch, name), FULL if full else QUICK)
            for direction, sweep in (("forward", sweep_forward), ("backward", sweep_backward)):
                tried = values if direction == "forward" else values[values.isfinite()]
                theirs = sweep(case, tried, own) if own else None
                rows.append(
                    _summary(case, name, direction, tried.numel(), sweep(case, tried), theirs)
                )
    return rows


def _summary(
    case: Case, dtype: str, direction: str, tried: int, sweep: Sweep, own: Sweep | None
) -> Measured:
    bound: Bound = getattr(case.unit.error[dtype], direction)
    ulps, absolute = sweep.ulps, sweep.absolute_beyond(bound)
    worst, largest = int(ulps.argmax()), int(absolute.argmax())
    theirs = {}
    if own is not None:
        theirs = {
            "torch_ulps": float(own.ulps.max()),
            "torch_absolute": float(own.absolute_beyond(bound).max()),
            "torch_hidden": int(own.wrong_nan.sum()),
        }
    return Measured(
        unit=case.unit.name,
        options=", ".join(f"{k}={v}" for k, v in case.options.items()),
        dtype=dtype,
        direction=direction,
        inputs=tried,
        ulps=float(ulps.max()),
        ulps_at=_at(sweep, worst),
        absolute=float(absolute.max()),
        absolute_at=_at(sweep, largest),
        promised_ulps=bound.ulps,
        promised_absolute=bound.absolute,
        kept=bool(sweep.within(bound).all()),
        **theirs,
    )


def _at(sweep: Sweep, index: int) -> float:
    return float(sweep.x.flatten()[index]) if sweep.x.shape == sweep.got.shape else math.nan


def _derivative(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    x = x.detach().requires_grad_()
    y = function(x)
    return torch.autograd.grad(y, x, torch.ones_like(y))[0]


def _with_limits(case: Case, x: Tensor, want: Tensor) -> Tensor:
    """``want`` with the declared limits where ``x`` is infinite and NaN where it is NaN."""
    parts = want.chunk(int(case.ratio), case.dim)
    limits = case.limits
    right = []
    for part, minus, plus in zip(parts, limits.minus, limits.plus, strict=True):
        part = torch.where(x == -math.inf, minus, torch.where(x == math.inf, plus, part))
        right.append(torch.where(x.isnan(), math.nan, part))
    return torch.cat(right, case.dim)


def _repeat_like(x: Tensor, got: Tensor, case: Case) -> Tensor:
    """The input that each output element belongs to."""
    return torch.cat([x] * int(case.ratio), case.dim) if case.ratio >= 1 else x
