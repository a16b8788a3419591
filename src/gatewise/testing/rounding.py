"""Measure a unit's error against its float64 reference.

The inputs are every 16-bit value, and a stratified sample of float32.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from gatewise.checks import check_choice, check_kind
from gatewise.testing.case import Case
from gatewise.testing.ulps import inputs_of, ulps_apart
from gatewise.units import DTYPES, Bound, Unit, get_unit

# Numbers of float32 inputs.
QUICK = 1 << 17
FULL = 10_000_000


@dataclass(frozen=True)
class Measured:
    """The largest error of one unit in one dtype and direction, and that of torch's own function.

    Args:
        unit: the name of the unit.
        options: its options, as text.
        dtype: the dtype of the input.
        direction: ``"forward"`` or ``"backward"``.
        inputs: the number of inputs tried.
        ulps: the largest error in units in the last place.
        ulps_at: the input of that error.
        absolute: the largest absolute error among results beyond the promised ulps.
        absolute_at: the input of that error.
        promised_ulps: the declared bound in ulps.
        promised_absolute: the declared absolute bound.
        kept: whether every result is within the bound.
        torch_ulps: the largest error of torch's function, if torch has one.
        torch_absolute: its largest absolute error beyond the promised ulps.
    """

    unit: str
    options: str
    dtype: str
    direction: str
    inputs: int
    ulps: float
    ulps_at: float
    absolute: float
    absolute_at: float
    promised_ulps: int
    promised_absolute: float
    kept: bool
    torch_ulps: float | None = None
    torch_absolute: float | None = None


@dataclass(frozen=True)
class Sweep:
    """Results and right answers, element by element.

    Args:
        x: the inputs.
        got: the results.
        want: the right answers in float64.
    """

    x: Tensor
    got: Tensor
    want: Tensor

    @property
    def rounded(self) -> Tensor:
        """The right answers in the dtype of the results."""
        return self.want.to(self.got.dtype)

    @property
    def wrong_nan(self) -> Tensor:
        """Where a NaN was hidden or added."""
        return self.got.isnan() != self.rounded.isnan()

    @property
    def ulps(self) -> Tensor:
        """Distance to the right answer in units in the last place; 0 where both are NaN."""
        has_nan = self.got.isnan() | self.rounded.isnan()
        return torch.where(has_nan, 0, ulps_apart(self.got, self.rounded))

    @property
    def absolute(self) -> Tensor:
        """Distance to the rounded right answer; infinite where exactly one of the two is."""
        error = (self.got.double() - self.rounded.double()).abs()
        error = torch.where(self.got == self.rounded, 0.0, error)
        return error.nan_to_num(nan=0.0, posinf=math.inf)

    def absolute_beyond(self, bound: Bound) -> Tensor:
        """Return the absolute error where it exceeds the ulps of ``bound``, 0 elsewhere."""
        return torch.where(self.ulps > bound.ulps, self.absolute, 0.0)

    def within(self, bound: Bound) -> Tensor:
        """Return where the error is within ``bound``, in ulps or absolutely."""
        close = (self.ulps <= bound.ulps) | (self.absolute <= bound.absolute)
        return close & ~self.wrong_nan


def covered_inputs(case: Case, dtype: torch.dtype, count: int) -> Tensor:
    """Return the inputs for which the error bounds hold: NaN, and numbers up to ``largest``.

    Args:
        case: the unit and its options.
        dtype: of the inputs.
        count: the number of float32 inputs; of a half type, all are covered.
    """
    values = inputs_of(dtype, count)
    is_covered = values.isfinite() & (values.double().abs() <= case.unit.largest)
    return values[is_covered | values.isnan()]


def sweep_forward(
    case: Case,
    values: Tensor,
    function: Callable[[Tensor], Tensor] | None = None,
) -> Sweep:
    """Compare values with the reference and the declared limits.

    Args:
        case: the unit and its options.
        values: the inputs.
        function: a function to measure in place of the unit's.
    """
    x = case.spread(values)
    got = (function or case.function)(x)
    want = case.reference(x)
    # Units that reduce channels have no limit of a single input.
    if not case.probed_ratio < 1:
        want = _with_limits(case, x, want)
    return Sweep(_repeat_like(x, got, case), got, want)


def sweep_backward(
    case: Case,
    values: Tensor,
    function: Callable[[Tensor], Tensor] | None = None,
) -> Sweep:
    """Compare derivatives with those of the reference, and with the declared ones at kinks.

    Args:
        case: the unit and its options.
        values: the inputs, all finite.
        function: a function to measure in place of the unit's.
    """
    x = case.spread(values)
    got = _derivative(function or case.function, x)
    want = _derivative(case.reference, x.double())
    for kink, derivative in case.kinks.items():
        distance = (x.double() - kink).abs()
        near = distance <= 2e-6 * max(1.0, abs(kink))
        # NaN declares that either one-sided derivative is right.
        if math.isnan(derivative):
            want = torch.where(near, got.double(), want)
        elif case.probed_ratio == 1:
            want = torch.where(x.double() == kink, derivative, want)
    return Sweep(x, got, want)


def measure(
    unit: str | Unit,
    *,
    dtypes: Sequence[str] = DTYPES,
    full: bool = False,
) -> list[Measured]:
    """Return the largest errors of ``unit`` for each of its sample options, by dtype and direction.

    Args:
        unit: a name from the catalogue, or your own :class:`~gatewise.units.Unit`.
        dtypes: names of dtypes.
        full: whether to try ten million float32 inputs instead of 131,072.
    """
    spec = unit if isinstance(unit, Unit) else get_unit(unit)
    for name in check_kind("measure", "dtypes", dtypes, Sequence):
        check_choice("measure", "a dtype", name, DTYPES)
    rows = []
    for options in spec.samples:
        case = Case(spec, options)
        torch_function = None if options else torch_function_of(spec)
        for name in dtypes:
            values = covered_inputs(case, getattr(torch, name), FULL if full else QUICK)
            finite = values[values.isfinite()]
            for direction, sweep, inputs in (
                ("forward", sweep_forward, values),
                ("backward", sweep_backward, finite),
            ):
                ours = sweep(case, inputs)
                theirs = sweep(case, inputs, torch_function) if torch_function else None
                rows.append(_summary(case, name, direction, inputs.numel(), ours, theirs))
    return rows


def torch_function_of(unit: Unit) -> Callable[[Tensor], Tensor] | None:
    """Return torch's function of the same name and default options, for comparison only."""
    if unit.learns or unit.probe is not None:
        return None
    function = getattr(functional, unit.name, getattr(torch, unit.name, None))
    try:
        if function is not None:
            function(torch.zeros(1))
    except TypeError:  # its options have no defaults
        return None
    return function


def _summary(
    case: Case,
    dtype: str,
    direction: str,
    inputs: int,
    sweep: Sweep,
    torch_sweep: Sweep | None,
) -> Measured:
    bound: Bound = getattr(case.unit.error[dtype], direction)
    ulps = sweep.ulps
    absolute = sweep.absolute_beyond(bound)
    theirs = {}
    if torch_sweep is not None:
        theirs = {
            "torch_ulps": float(torch_sweep.ulps.max()),
            "torch_absolute": float(torch_sweep.absolute_beyond(bound).max()),
        }
    return Measured(
        unit=case.unit.name,
        options=", ".join(f"{k}={v}" for k, v in case.options.items()),
        dtype=dtype,
        direction=direction,
        inputs=inputs,
        ulps=float(ulps.max()),
        ulps_at=_at(sweep, int(ulps.argmax())),
        absolute=float(absolute.max()),
        absolute_at=_at(sweep, int(absolute.argmax())),
        promised_ulps=bound.ulps,
        promised_absolute=bound.absolute,
        kept=bool(sweep.within(bound).all()),
        **theirs,
    )


def _at(sweep: Sweep, index: int) -> float:
    if sweep.x.shape != sweep.got.shape:
        return math.nan
    return float(sweep.x.flatten()[index])


def _derivative(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    x = x.detach().requires_grad_()
    y = function(x)
    return torch.autograd.grad(y, x, torch.ones_like(y))[0]


def _with_limits(case: Case, x: Tensor, want: Tensor) -> Tensor:
    """Return ``want`` with the declared limits at infinite inputs, and NaN at NaN."""
    parts = want.chunk(int(case.probed_ratio), case.dim)
    limits = case.limits
    right = []
    for part, minus, plus in zip(parts, limits.minus, limits.plus, strict=True):
        part = torch.where(x == math.inf, plus, part)
        part = torch.where(x == -math.inf, minus, part)
        right.append(torch.where(x.isnan(), math.nan, part))
    return torch.cat(right, case.dim)


def _repeat_like(x: Tensor, got: Tensor, case: Case) -> Tensor:
    """Return the input of each output element."""
    if case.probed_ratio < 1:
        return x
    return torch.cat([x] * int(case.probed_ratio), case.dim)
