"""Contract: values are right for all finite inputs (N3 to N5, N7)."""

import math

import torch
from torch import Tensor

from gatewise.testing.case import Case, require
from gatewise.testing.rounding import (
    FULL,
    QUICK,
    Sweep,
    covered_inputs,
    sweep_backward,
    sweep_forward,
)
from gatewise.units import Bound

HALVES = ("float16", "bfloat16")
MUCH = 1000.0  # of a curve at 1e6 that grows without bound


def every_half_precision_value_is_within_the_promise(case: Case) -> None:
    """N3, N5: errors are within the bound for all finite inputs of float16 and of bfloat16.

    The output is NaN exactly if the input is NaN.
    """
    for name in HALVES:
        sweep = sweep_forward(case, covered_inputs(case, getattr(torch, name), 0))
        _require_within(sweep, case.unit.error[name].forward, name)


def every_half_precision_derivative_is_within_the_promise(case: Case) -> None:
    """N3, N5: the derivative at every finite float16 and bfloat16 input is within the bound."""
    for name in HALVES:
        values = covered_inputs(case, getattr(torch, name), 0)
        sweep = sweep_backward(case, values[values.isfinite()])
        _require_within(sweep, case.unit.error[name].backward, name)


def float32_is_within_the_promise(case: Case, *, full: bool = False) -> None:
    """N4, N5: values and derivatives are within the bound for every exponent of float32.

    The digits are random.
    """
    values = covered_inputs(case, torch.float32, FULL if full else QUICK)
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


def the_curve_tends_to_its_limits(case: Case) -> None:
    """The values at -1e6 and 1e6 are near the declared limits, in float64."""
    if case.probed_ratio < 1:
        return
    count = int(case.probed_ratio)
    for far, limits in ((-1e6, case.limits.minus), (1e6, case.limits.plus)):
        x = torch.full((1, case.channels, 12), far, dtype=torch.float64)
        for part, limit in zip(case.function(x).chunk(count, case.dim), limits, strict=True):
            bound = torch.full_like(part, limit)
            if math.isinf(limit):
                near = part * math.copysign(1.0, limit) >= MUCH
            else:
                near = (part - bound).abs() <= 1e-5
            require(
                bool(near.all()),
                f"the value at {far:g} is far from the declared limit",
                got=float(part.flatten()[0]),
                allowed=limit,
            )


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
