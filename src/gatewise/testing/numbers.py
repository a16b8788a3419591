"""Contract: values are right for every input there is (N3 to N7)."""

import math

import torch
from torch import Tensor

from gatewise.testing.case import Case, require
from gatewise.testing.rounding import FULL, QUICK, Sweep, sweep_backward, sweep_forward
from gatewise.testing.ulps import float32_values, inputs_of
from gatewise.units import Bound

HALVES = ("float16", "bfloat16")


def every_half_precision_value_is_within_the_promise(case: Case) -> None:
    """N3, N5: all 65,536 inputs of float16 and of bfloat16.

    Error as promised, NaN in and only then NaN out.
    """
    for name in HALVES:
        _hold(
            sweep_forward(case, inputs_of(getattr(torch, name), 0)),
            case.unit.error[name].forward,
            name,
        )


def every_half_precision_derivative_is_within_the_promise(case: Case) -> None:
    """N3, N5: the derivative at every finite float16 and bfloat16 input."""
    for name in HALVES:
        values = inputs_of(getattr(torch, name), 0)
        _hold(sweep_backward(case, values[values.isfinite()]), case.unit.error[name].backward, name)


def float32_is_within_the_promise(case: Case, *, full: bool = False) -> None:
    """N4, N5: every exponent of float32 with random digits, forward and backward."""
    values = float32_values(FULL if full else QUICK)
    for part in values.split(1 << 20):
        _hold(sweep_forward(case, part), case.unit.error["float32"].forward, "float32")
        _hold(
            sweep_backward(case, part[part.isfinite()]),
            case.unit.error["float32"].backward,
            "float32",
        )


def float64_agrees_with_the_reference(case: Case) -> None:
    """Function and reference compute one thing in two ways.

    Equal in float64 to 1e-12 relative or 1e-14 absolute.
    """
    magnitudes = torch.logspace(-12, 2, 4200, dtype=torch.float64)
    x = case.spread(torch.cat((-magnitudes, torch.zeros(12, dtype=torch.float64), magnitudes)))
    got, want = case.function(x), case.reference(x)
    close = torch.isclose(got, want, rtol=1e-12, atol=1e-14)
    require(
        bool(close.all()),
        "float64 differs from the reference",
        got=_first(got, ~close),
        allowed=_first(want, ~close),
    )


def a_nan_never_vanishes_on_the_way_back(case: Case) -> None:
    """N5: where the input is NaN and the gradient arriving is NaN, the gradient leaving is NaN."""
    x = case.spread(torch.tensor([1.0, math.nan, -1.0, 0.5, math.nan, 2.0] * 2)).requires_grad_()
    y = case.function(x)
    cotangent = torch.where(y.isnan(), math.nan, 1.0)
    (got,) = torch.autograd.grad(y, x, cotangent)
    require(
        bool(got[x.isnan()].isnan().all()),
        "a NaN input has a gradient that is not NaN",
        got=got[x.isnan()][:4].tolist(),
    )


def limits_hold_at_every_length_and_stride(case: Case) -> None:
    """N6: infinities and NaN give the declared values in tensors of 1 to 64 elements, contiguous or not."""
    if case.ratio < 1:
        return _all_infinite_groups(case)
    for special in (math.inf, -math.inf, math.nan):
        limits = {math.inf: case.limits.plus, -math.inf: case.limits.minus}.get(special)
        for length in range(1, 65):
            for stride in (1, 2, 3):
                x = torch.full((1, case.channels, length * stride), special)[..., ::stride]
                parts = case.function(x).chunk(int(case.ratio), case.dim)
                for part, limit in zip(parts, limits or [math.nan] * len(parts), strict=True):
                    _expect(part, limit, f"at {special}, length {length}, stride {stride}")


def denormals_are_kept_or_flushed_cleanly(case: Case) -> None:
    """N7: tiny inputs are right.

    With flush-to-zero on, results are off by at most the smallest normal number.
    """
    digits = torch.randint(
        1, 1 << 23, (1200,), generator=torch.Generator().manual_seed(0), dtype=torch.int32
    )
    x = case.spread(torch.cat((digits.view(torch.float32), -digits.view(torch.float32))))
    want = case.reference(x)
    _hold(Sweep(x, case.function(x), want), case.unit.error["float32"].forward, "float32 denormals")
    if not torch.set_flush_denormal(True):
        return
    try:
        flushed = case.function(x)
    finally:
        torch.set_flush_denormal(False)
    slack = (
        torch.finfo(torch.float32).tiny
        + case.unit.error["float32"].forward.absolute
        + 4e-7 * want.abs()
    )
    require(
        bool(((flushed.double() - want).abs() <= slack).all()),
        "flush-to-zero changes a result by more than the smallest normal",
    )


def _all_infinite_groups(case: Case) -> None:
    for special in (math.inf, -math.inf, math.nan):
        x = torch.full((2, 6, 12), special)
        _expect(case.function(x), special, f"at {special}")


def _expect(part: Tensor, limit: float, where: str) -> None:
    right = torch.full_like(part, limit)
    same = (
        torch.where(right.isnan(), part.isnan(), part == right)
        if not math.isfinite(limit)
        else (part - right).abs() <= 1e-6
    )
    require(
        bool(same.all()),
        f"the value {where} is not the declared limit",
        got=part.flatten()[:4].tolist(),
        allowed=limit,
    )


def _hold(sweep: Sweep, bound: Bound, name: str) -> None:
    broken = ~sweep.within(bound)
    if not broken.any():
        return
    hidden = int(sweep.wrong_nan.sum())
    where = float(sweep.x[broken][0]) if sweep.x.shape == sweep.got.shape else math.nan
    require(
        False,
        f"{name}: {int(broken.sum())} of {broken.numel()} results break the promise, {hidden} NaNs hidden or invented",
        got=f"{_first(sweep.got, broken)} at x = {where!r}, {int(sweep.ulps[broken].max())} ulp off at worst",
        allowed=f"{_first(sweep.want, broken)} to {bound.ulps} ulp or {bound.absolute:.3g}",
    )


def _first(values: Tensor, mask: Tensor) -> float:
    return float(values[mask][0]) if mask.any() else math.nan
