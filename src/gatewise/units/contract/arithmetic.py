"""Arithmetic that the units share.

Right at infinities and NaN, the same bits in every layout, length and thread count.

Note [Which torch functions]. ``torch.sigmoid``, ``silu``, ``elu``, ``softplus`` and ``softmax`` run
one formula on full vector registers and another on what is left over, so the same number can give
two results within one tensor. ``exp``, ``expm1``, ``log1p``, ``tanh``, ``erf``, ``erfc`` and
``logsigmoid`` do not. Units are built from the latter and from + - * /.

Note [NaN in the backward pass]. ``clamp`` gives a NaN input the gradient 0, so a NaN vanishes.
``where`` with a comparison that is false for NaN passes the gradient on. Units bound values with
:func:`at_least` and :func:`at_most`, or clamp only what is multiplied by the unclamped input again.

Note [Far out]. Near the largest finite numbers (beyond 3e26 in float32) a gate has long settled,
its derivative is 0, and the chain rule multiplies that 0 by products that overflow: NaN. There
gates are constants: :func:`detach_saturated`.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from gatewise.errors import ArgumentError

HALVES = (torch.float16, torch.bfloat16)
FLOATS = (*HALVES, torch.float32, torch.float64)


def check_input(unit: str, x: Tensor) -> Tensor:
    """``x`` itself, if a unit can take it; an error that names what it is otherwise."""
    allowed = "a torch.Tensor of dtype float16, bfloat16, float32 or float64"
    if not isinstance(x, Tensor):
        raise ArgumentError(
            f"{unit}: the input must be a tensor", got=type(x).__name__, allowed=allowed
        )
    if x.dtype not in FLOATS:
        raise ArgumentError(
            f"{unit}: the input must be real floating point",
            got=x.dtype,
            allowed=allowed,
            fix="x.float()",
        )
    return x


def to_compute_dtype(x: Tensor) -> Tensor:
    """``x`` in the precision a unit computes in: float32 for the half types, its own otherwise."""
    return x.float() if x.dtype in HALVES else x


def resolve_dim(unit: str, x: Tensor, dim: int) -> int:
    """``dim`` counted from the front, if ``x`` has it."""
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise ArgumentError(f"{unit}: dim must be an integer", got=dim)
    if not -x.dim() <= dim < x.dim():
        raise ArgumentError(
            f"{unit}: the input has no dimension {dim}",
            got=f"shape {tuple(x.shape)}",
            allowed=f"{-x.dim()} <= dim < {x.dim()}",
            fix="give the channel dimension as dim=..., or add a batch dimension",
        )
    return dim % x.dim()


def per_channel(unit: str, name: str, value: float | Tensor, x: Tensor, dim: int) -> float | Tensor:
    """A number, or a tensor of one number or one per channel, ready to be combined with the working form of ``x``."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, Tensor):
        raise ArgumentError(
            f"{unit}: {name} must be a number or a tensor", got=type(value).__name__
        )
    value = cast_like_input(unit, name, value, x)
    if value.dim() == 0 or tuple(value.shape) == (1,):
        return value.reshape(())
    axis = resolve_dim(unit, x, dim)
    if value.dim() != 1 or value.shape[0] != x.shape[axis]:
        raise ArgumentError(
            f"{unit}: {name} must hold one number, or one per channel of dimension {dim}",
            got=f"{name} of shape {tuple(value.shape)} for an input of shape {tuple(x.shape)}",
            allowed=f"(1,) or ({x.shape[axis]},)",
        )
    return value.reshape([-1 if i == axis else 1 for i in range(x.dim())])


def cast_like_input(unit: str, name: str, value: Tensor, x: Tensor) -> Tensor:
    """``value`` in the working dtype of ``x``: widened silently, never narrowed, never moved."""
    dtype = torch.promote_types(x.dtype, torch.float32)
    if value.dtype not in FLOATS or torch.promote_types(value.dtype, dtype) != dtype:
        raise ArgumentError(
            f"{unit}: {name} is of another kind than the input",
            got=f"{name} {value.dtype}, input {x.dtype}",
            allowed=f"a floating dtype no wider than {dtype}",
            fix=f"module.to({x.dtype}) or x.to({value.dtype})",
        )
    if value.device != x.device and not (value.dim() == 0 and value.device.type == "cpu"):
        raise ArgumentError(
            f"{unit}: {name} and the input are on different devices",
            got=f"{name} on {value.device}, input on {x.device}",
            fix=f"module.to({str(x.device)!r})",
        )
    return value.to(dtype)


def at_least(x: Tensor, low: float) -> Tensor:
    """``max(x, low)`` that keeps NaN forward and backward; derivative 0 below ``low``."""
    return torch.where(x < low, low, x)


def at_most(x: Tensor, high: float) -> Tensor:
    """``min(x, high)`` that keeps NaN forward and backward; derivative 0 above ``high``."""
    return torch.where(x > high, high, x)


def replace_infinities(x: Tensor) -> Tensor:
    """``x`` with infinities replaced by the largest finite numbers, and no gradient there.

    NaN stays NaN.
    """
    bound = torch.finfo(x.dtype).max
    return torch.where(x.isinf(), x.detach().clamp(-bound, bound), x)


def saturation_bound(x: Tensor) -> float:
    """Where ``x`` counts as far out. See Note [Far out]."""
    return torch.finfo(x.dtype).max * 2.0**-40


def detach_saturated(x: Tensor, value: Tensor) -> Tensor:
    """``value``, which far out no longer changes with ``x`` or any parameter: no gradient there.

    See Note [Far out].
    """
    return torch.where(x.abs() > saturation_bound(x), value.detach(), value)


def mean_without_overflow(x: Tensor, dims: list[int]) -> Tensor:
    """The mean over ``dims``, to the bit, without overflow on the way: added up as parts of 2^32.

    What is below 2^-94 in float32 may be lost, so this is for means that are then compared with
    larger numbers.
    """
    return (x * 2.0**-32).mean(dims) * 2.0**32


def max_magnitude(x: Tensor, dims: list[int], *, keepdim: bool = False) -> Tensor:
    """The largest magnitude over ``dims``, a constant; 0 where there is none."""
    size = x.detach().abs()
    if not dims:
        return size
    return (
        size.amax(dims, keepdim) if size.numel() else size.sum(dims, keepdim)
    )  # amax has no answer for nothing


def apply_gate(x: Tensor, opening: Tensor) -> Tensor:
    """``x * opening``, where a closed gate (0) also stops an infinite ``x``."""
    return torch.where(x.isinf() & (opening == 0), 0.0, x) * opening


def self_gated(x: Tensor, gate: Callable[[Tensor], Tensor]) -> Tensor:
    """``x * gate(x)`` with the right limits at infinities, and no gradient that overflows into NaN."""
    return apply_gate(
        x, detach_saturated(x, gate(x.clamp(-saturation_bound(x), saturation_bound(x))))
    )


def sigmoid(x: Tensor) -> Tensor:
    """The logistic function to 2 ulp, without overflow. See Note [Which torch functions].

    ``where`` and not ``abs`` chooses the sign, for the derivative at 0 must be 1/4 and ``abs`` has
    derivative 0 there.
    """
    positive = x >= 0
    e = torch.exp(torch.where(positive, -x, x))
    return torch.where(positive, 1.0, e) / (1.0 + e)


def softplus(x: Tensor, beta: float | Tensor = 1.0) -> Tensor:
    """``log(1 + exp(beta x)) / beta`` for positive ``beta``, without overflow.

    The derivative at 0 is 1/2.
    """
    positive = x >= 0
    e = torch.exp(beta * torch.where(positive, -x, x))
    return torch.where(positive, x, 0.0) + torch.log1p(e) / beta
