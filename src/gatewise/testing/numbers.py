"""Contract: values are right for all inputs (N3 to N7)."""

import math
from itertools import product

import torch
from torch import Tensor

from gatewise.testing.case import Case, require
from gatewise.testing.rounding import FULL, QUICK, Sweep, sweep_backward, sweep_forward
from gatewise.testing.ulps import float32_values, inputs_of
from gatewise.units import Bound

HALVES = ("float16", "bfloat16")


def every_half_precision_value_is_within_the_promise(case: Case) -> None:
    """N3, N5: errors are within the bound for all 65,536 inputs of float16 and of bfloat16.

    The output is NaN exactly if the input is NaN.
    """
    for name in HALVES:
        sweep = sweep_forward(case, inputs_of(getattr(torch, name), 0))
        _require_within(sweep, case.unit.error[name].forward, name)


def every_half_precision_derivative_is_within_the_promise(case: Case) -> None:
    """N3, N5: the derivative at every finite float16 and bfloat16 input is within the bound."""
    for name in HALVES:
        values = inputs_of(getattr(torch, name), 0)
        sweep = sweep_backward(case, values[values.isfinite()])
        _require_within(sweep, case.unit.error[name].backward, name)


def float32_is_within_the_promise(case: Case, *, full: bool = False) -> None:
    """N4, N5: values and derivatives are within the bound for every exponent of float32.

    The digits are random.
    """
    values = float32_values(FULL if full else QUICK)
    bounds = case.unit.error["float32"]
    for part in values.split(1 << 20):
        _require_within(sweep_forward(case, part), bounds.forward, "float32")
        _require_within(sweep_backward(case, part[part.isfinite()]), bounds.backward, "float32")


def float64_agrees_with_the_reference(case: Case) -> None:
    """Function and reference are equal in float64 to 1e-12 relative or 1e-14 absolute."""
    magnitudes = torch.logspace(-12, 2, 4200, dtype=torch.float64)
    zeros = torch.zeros(12, dtype=torch.float64)
    x = case.spread(torch.cat((-magnitudes, zeros, magnitudes)))
    got = case.function(x)
    want = case.reference(x)
    close = torch.isclose(got, want, rtol=1e-12, atol=1e-14)
    require(
        bool(close.all()),
        "float64 differs from the reference",
        got=_first(got, ~close),
        allowed=_first(want, ~close),
    )


def a_nan_never_vanishes_on_the_way_back(case: Case) -> None:
    """N5: if input and incoming gradient are NaN, the outgoing gradient is NaN."""
    values = torch.tensor([1.0, math.nan, -1.0, 0.5, math.nan, 2.0] * 2)
    x = case.spread(values).requires_grad_()
    y = case.function(x)
    cotangent = torch.where(y.isnan(), math.nan, 1.0)
    (got,) = torch.autograd.grad(y, x, cotangent)
    require(
        bool(got[x.isnan()].isnan().all()),
        "a NaN input has a gradient that is not NaN",
        got=got[x.isnan()][:4].tolist(),
    )


def limits_hold_at_every_length_and_stride(case: Case) -> None:
    """N6: infinities and NaN give the declared values in tensors of 1 to 64 elements.

    The tensors are contiguous or strided.
    """
    if case.probed_ratio < 1:
        return _all_infinite_groups(case)
    count = int(case.probed_ratio)
    limits = {
        math.inf: case.limits.plus,
        -math.inf: case.limits.minus,
        math.nan: (math.nan,) * count,
    }
    # More than the 8 or 16 numbers of a vector register: its rest is computed in another way.
    for special, length, stride in product(limits, range(1, 65), (1, 2, 3)):
        x = torch.full((1, case.channels, length * stride), special)[..., ::stride]
        parts = case.function(x).chunk(count, case.dim)
        for part, limit in zip(parts, limits[special], strict=True):
            _expect(part, limit, f"at {special}, length {length}, stride {stride}")


def denormals_are_kept_or_flushed_cleanly(case: Case) -> None:
    """N7: tiny inputs are right.

    With flush-to-zero on, results are off by at most twice the smallest normal number: the input
    and the result are flushed.
    """
    generator = torch.Generator().manual_seed(0)
    digits = torch.randint(1, 1 << 23, (1200,), generator=generator, dtype=torch.int32)
    # Bits below those of the exponent alone are denormal numbers.
    denormals = digits.view(torch.float32)
    x = case.spread(torch.cat((denormals, -denormals)))
    want = case.reference(x)
    bound = case.unit.error["float32"].forward
    _require_within(Sweep(x, case.function(x), want), bound, "float32 denormals")
    if not torch.set_flush_denormal(True):
        return
    try:
        flushed = case.function(x)
    finally:
        torch.set_flush_denormal(False)
    slack = 2 * torch.finfo(torch.float32).tiny + bound.absolute + 4e-7 * want.abs()
    require(
        bool(((flushed.double() - want).abs() <= slack).all()),
        "flush-to-zero changes a result by more than twice the smallest normal",
    )


def _all_infinite_groups(case: Case) -> None:
    for special in (math.inf, -math.inf, math.nan):
        x = torch.full((2, 6, 12), special)
        _expect(case.function(x), special, f"at {special}")


def _expect(part: Tensor, limit: float, where: str) -> None:
    right = torch.full_like(part, limit)
    if math.isfinite(limit):
        same = (part - right).abs() <= 1e-6
    else:
        same = torch.where(right.isnan(), part.isnan(), part == right)
    require(
        bool(same.all()),
        f"the value {where} is not the declared limit",
        got=part.flatten()[:4].tolist(),
        allowed=limit,
    )


def _require_within(sweep: Sweep, bound: Bound, name: str) -> None:
    broken = ~sweep.within(bound)
    if not broken.any():
        return
    wrong_nan = int(sweep.wrong_nan.sum())
    # Where several inputs belong to one output there is no one input to name.
    one_to_one = sweep.x.shape == sweep.got.shape
    where = float(sweep.x[broken][0]) if one_to_one else math.nan
    worst = int(sweep.ulps[broken].max())
    require(
        False,
        f"{name}: {int(broken.sum())} of {broken.numel()} results break the promise, "
        f"{wrong_nan} NaNs hidden or added",
        got=f"{_first(sweep.got, broken)} at x = {where!r}, at most {worst} ulp off",
        allowed=f"{_first(sweep.want, broken)} to {bound.ulps} ulp or {bound.absolute:.3g}",
    )


def _first(values: Tensor, mask: Tensor) -> float:
    if mask.any():
        return float(values[mask][0])
    return math.nan
