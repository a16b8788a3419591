"""Arithmetic that units and layers share.

Note [NaN in the backward pass]. ``clamp`` gives a NaN input the gradient 0, so the NaN vanishes.
``where`` with a comparison that is false for NaN passes the gradient on.

Note [Far out]. Near the largest finite numbers (beyond 3e26 in float32) every gate is saturated and
its derivative is 0. The chain rule multiplies that 0 by products that overflow, which gives NaN.
Layers whose gates are constants there use :func:`detach_saturated`.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from gatewise.errors import ArgumentError
from gatewise.units.contract.factory import FLOATS, HALVES
from gatewise.units.contract.unit_module import check_input, resolve_dim

# From here on softplus is its input, to the last bit of float64.
LINEAR_FROM = 40.0


def to_compute_dtype(x: Tensor) -> Tensor:
    """Return ``x`` in the dtype of the computation: float32 for half types, else its own."""
    return x.float() if x.dtype in HALVES else x


def in_compute_dtype(
    expression: Callable[..., Tensor],
    x: Tensor,
    *numbers: float | str | Tensor | None,
) -> Tensor:
    """Return ``expression(x, *numbers)``, computed in float32 for half types, in ``x``'s dtype.

    Args:
        expression: a function of torch's operations.
        x: the input.
        *numbers: numbers, and tensors that broadcast with ``x``.
    """
    if x.dtype not in HALVES:
        return expression(x, *numbers)
    wide = [to_compute_dtype(each) if isinstance(each, Tensor) else each for each in numbers]
    return expression(x.float(), *wide).to(x.dtype)


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


def compute_per_channel(
    unit: str,
    expression: Callable[..., Tensor],
    x: Tensor,
    dim: int,
    numbers: Mapping[str, float | Tensor],
    *options: float,
) -> Tensor:
    """Return ``expression(x, *numbers, *options)`` in ``x``'s dtype, after checking its arguments.

    Args:
        unit: the unit's name in error messages.
        expression: a function of torch's operations.
        x: the input.
        dim: the channel dimension of ``x``.
        numbers: by name, one number each or one per channel.
        *options: further numbers.
    """
    check_input(unit, x)
    aligned = [per_channel(unit, name, value, x, dim) for name, value in numbers.items()]
    return in_compute_dtype(expression, x, *aligned, *options)


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


def apply_gate(x: Tensor, gate: Tensor) -> Tensor:
    """Return ``x * gate``, where a closed gate (0) also stops an infinite ``x``."""
    return torch.where(x.isinf() & (gate == 0), 0.0, x) * gate
