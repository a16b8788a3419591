"""Arithmetic that the units share.

Results are right at infinities and NaN, and have the same bits in every layout, length and number
of threads.

Note [Which torch functions]. ``torch.sigmoid``, ``silu``, ``elu``, ``softplus`` and ``softmax`` use
one formula on full vector registers and another on the rest, so the same number can give two
results within one tensor. ``exp``, ``expm1``, ``log1p``, ``tanh``, ``erf``, ``erfc`` and
``logsigmoid`` do not. Units are built from the latter and from + - * /.

Note [NaN in the backward pass]. ``clamp`` gives a NaN input the gradient 0, so the NaN vanishes.
``where`` with a comparison that is false for NaN passes the gradient on. Units bound values with
:func:`at_least` and :func:`at_most`, or clamp only what is multiplied by the unclamped input again.

Note [Far out]. Near the largest finite numbers (beyond 3e26 in float32) every gate is saturated and
its derivative is 0. The chain rule multiplies that 0 by products that overflow, which gives NaN.
Gates are constants there: see :func:`detach_saturated`.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from gatewise.errors import ArgumentError
from gatewise.units.contract.factory import FLOATS, HALVES
from gatewise.units.contract.unit_module import resolve_dim


def to_compute_dtype(x: Tensor) -> Tensor:
    """Return ``x`` in the dtype of the computation: float32 for half types, else its own."""
    return x.float() if x.dtype in HALVES else x


def tanh_with_exact_slope(x: Tensor) -> Tensor:
    """Return the hyperbolic tangent, with a derivative that is right where it is small.

    Autograd's derivative is ``1 - tanh(x) ** 2``. Its absolute error is that of numbers near 1, so
    a factor behind the function would multiply it. Here the derivative is ``4 q / (1 + q) ** 2``
    with ``q = exp(-2 |x|)``: the relative error stays small for any factor.
    """
    falling = torch.exp(2 * torch.where(x < 0, x, -x))
    rising = (1 - falling) / (1 + falling)
    same = torch.where(x < 0, -rising, rising)  # less exact near 0, but with the right derivative
    return torch.tanh(x).detach() + (same - same.detach())


def per_channel(
    unit: str,
    name: str,
    value: float | Tensor,
    x: Tensor,
    dim: int,
) -> float | Tensor:
    """Return a number, or a tensor of one number or one per channel that broadcasts with ``x``.

    Args:
        unit: the unit's name in error messages.
        name: the name of the argument in error messages.
        value: a number, or a tensor with one number or one per channel.
        x: the input of the unit.
        dim: the channel dimension of ``x``.
    """
    # torch 2.6 does not compile a union of types.
    if isinstance(value, (int, float)) and not isinstance(value, bool):
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


def per_sample_and_channel(value: Tensor, x: Tensor, axis: int) -> Tensor:
    """Return ``value``, ``(N, C)``, in a shape that broadcasts with ``x``."""
    shape = [1] * x.dim()
    shape[0] = x.shape[0]
    shape[axis] = x.shape[axis]
    return value.reshape(shape)


def cast_like_input(
    unit: str,
    name: str,
    value: Tensor,
    x: Tensor,
) -> Tensor:
    """Return ``value`` in the dtype in which ``x`` is computed.

    It is widened if needed. A wider dtype or another device than that of ``x`` is an error.
    """
    dtype = torch.promote_types(x.dtype, torch.float32)
    if value.dtype not in FLOATS or torch.promote_types(value.dtype, dtype) != dtype:
        raise ArgumentError(
            f"{unit}: {name} does not fit the dtype of the input",
            got=f"{name} {value.dtype}, input {x.dtype}",
            allowed=f"a floating dtype no wider than {dtype}",
            fix=f"module.to({x.dtype}) or x.to({value.dtype})",
        )
    # Torch combines a number on the CPU with tensors on any device.
    if value.device != x.device and not (value.dim() == 0 and value.device.type == "cpu"):
        raise ArgumentError(
            f"{unit}: {name} and the input are on different devices",
            got=f"{name} on {value.device}, input on {x.device}",
            fix=f"module.to({str(x.device)!r})",
        )
    return value.to(dtype)


def at_least(x: Tensor, low: float | Tensor) -> Tensor:
    """Return ``max(x, low)``. NaN stays NaN in both passes; below ``low`` the derivative is 0."""
    return torch.where(x < low, low, x)


def at_most(x: Tensor, high: float | Tensor) -> Tensor:
    """Return ``min(x, high)``. NaN stays NaN in both passes; above ``high`` the derivative is 0."""
    return torch.where(x > high, high, x)


def replace_infinities(x: Tensor) -> Tensor:
    """Replace infinities by the largest finite numbers, which pass no gradient. NaN stays NaN."""
    bound = torch.finfo(x.dtype).max
    return torch.where(x.isinf(), x.detach().clamp(-bound, bound), x)


def stop_infinities(factor: float | Tensor, x: Tensor) -> Tensor:
    """Return ``factor * x``, where a factor of exactly 0 also stops an infinite ``x``."""
    if isinstance(factor, (int, float)):
        return factor * (x if factor else replace_infinities(x))
    return factor * torch.where(factor == 0, replace_infinities(x), x)


def saturation_bound(x: Tensor) -> float:
    """Return the magnitude beyond which gates are treated as constants. See Note [Far out]."""
    return torch.finfo(x.dtype).max * 2.0**-40


def detach_saturated(x: Tensor, value: Tensor) -> Tensor:
    """Return ``value``, detached where ``x`` exceeds the saturation bound. See Note [Far out]."""
    return torch.where(x.abs() > saturation_bound(x), value.detach(), value)


def mean_without_overflow(x: Tensor, dims: list[int]) -> Tensor:
    """Return the mean over ``dims``, exactly, without overflow of the sum.

    The sum is taken of values scaled by 2^-32, which loses what is below 2^-94 in float32. So this
    is for means that are compared with larger numbers.
    """
    if dims:
        return (x * 2.0**-32).mean(dims) * 2.0**32
    return x


def max_magnitude(x: Tensor, dims: list[int], *, keepdim: bool = False) -> Tensor:
    """Return the largest magnitude over ``dims``, detached; 0 for an empty tensor."""
    size = x.detach().abs()
    if not dims:
        return size
    # `amax` of an empty tensor is an error.
    if size.numel():
        return size.amax(dims, keepdim)
    return size.sum(dims, keepdim)


def apply_gate(x: Tensor, gate: Tensor) -> Tensor:
    """Return ``x * gate``, where a closed gate (0) also stops an infinite ``x``."""
    return torch.where(x.isinf() & (gate == 0), 0.0, x) * gate


def self_gated(x: Tensor, gate: Callable[[Tensor], Tensor]) -> Tensor:
    """Return ``x * gate(x)``, right at infinities and without gradients that overflow."""
    return apply_gate(
        x, detach_saturated(x, gate(x.clamp(-saturation_bound(x), saturation_bound(x))))
    )


def sigmoid(x: Tensor) -> Tensor:
    """Return the logistic function, right to 2 ulp and without overflow.

    See Note [Which torch functions]. ``where`` chooses the sign instead of ``abs``, because the
    derivative at 0 must be 1/4 and ``abs`` has derivative 0 there.
    """
    positive = x >= 0
    e = torch.exp(torch.where(positive, -x, x))
    return torch.where(positive, 1.0, e) / (1.0 + e)


def soft_choice(score: Tensor, low: float | Tensor, high: float | Tensor) -> Tensor:
    """Return ``low * sigmoid(-score) + high * sigmoid(score)``.

    Both have positive weights, so no digits cancel in the tails.
    """
    positive = score >= 0
    e = torch.exp(torch.where(positive, -score, score))
    return torch.where(positive, high + low * e, high * e + low) / (1.0 + e)


def softplus(x: Tensor, beta: float | Tensor = 1.0) -> Tensor:
    """Return ``log(1 + exp(beta x)) / beta`` for positive ``beta``, without overflow.

    The derivative at 0 is 1/2.
    """
    scaled = beta * x
    positive = scaled >= 0
    e = torch.exp(torch.where(positive, -scaled, scaled))
    return torch.where(positive, x, 0.0) + torch.log1p(e) / beta
