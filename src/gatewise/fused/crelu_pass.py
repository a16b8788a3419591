"""CReLU in one compiled pass forward and one backward: no half is written twice."""

import ctypes
import math
from functools import cache
from typing import Any

import torch
from torch import Tensor

from gatewise.fused.dispatch import RECORDS, record_form
from gatewise.fused.kernels import compiled
from gatewise.fused.safe_calls import dense, is_readable, is_watched, passes_caches
from gatewise.native import COUNT, POINTER, handle_or_warning, source_of, struct_fields


class _HalvesCall(ctypes.Structure):
    _fields_ = struct_fields((POINTER, "x above out"), (COUNT, "rows length threads streams"))


def both_halves(x: Tensor, axis: int) -> Tensor | None:
    """Return the positive and the negative part of ``x``, concatenated along ``axis``.

    Args:
        x: the input.
        axis: the dimension along which both parts are concatenated.

    Returns:
        The output, in the memory layout of ``x``; ``None`` where torch's operations must run: if
        something observes them, and for other types than float32 on the CPU.
    """
    if is_watched() or x.dtype is not torch.float32 or not is_readable(x) or not x.numel():
        return None
    if _library() is None:
        return None
    if RECORDS:
        record_form("fused")
    if torch.is_grad_enabled() and x.requires_grad:
        return _BothHalves.apply(x, axis)  # pyright: ignore[reportReturnType] (untyped)
    return _values(x, axis)


class _BothHalves(torch.autograd.Function):
    """Both halves. Second derivatives are those of torch's operations."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: int) -> Tensor:
        ctx.save_for_backward(x)
        ctx.axis = axis
        return _values(x, axis)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (above,) = gradients
        (x,) = ctx.saved_tensors
        readable = is_readable(above) and above.dtype is torch.float32
        if torch.is_grad_enabled() or is_watched() or not readable:
            first, second = above.chunk(2, ctx.axis)
            return torch.where(x <= 0, 0.0, first) - torch.where(-x <= 0, 0.0, second), None
        return fold_halves(x, above, ctx.axis), None


def fold_halves(x: Tensor, above: Tensor, axis: int) -> Tensor:
    """Return the gradient to ``x``, where :func:`both_halves` has run.

    Args:
        x: the input, in float32 on the CPU.
        above: the gradient to both parts, of the same kind.
        axis: the dimension along which both parts are concatenated.
    """
    x = dense(x)
    laid_out = _doubled(x, axis)
    if above.stride() != laid_out.stride():
        above = laid_out.copy_(above)
    out = torch.empty_like(x)
    _run(x, axis, out, above)
    return out


def _values(x: Tensor, axis: int) -> Tensor:
    x = dense(x)
    out = _doubled(x, axis)
    _run(x, axis, out)
    return out


def _order(x: Tensor) -> list[int]:
    """Return the dimensions of a dense tensor, slowest first."""
    return sorted(range(x.dim()), key=lambda dim: (-x.stride(dim), x.shape[dim] == 1, dim))


def _doubled(x: Tensor, axis: int) -> Tensor:
    """Return an empty tensor with twice the size along ``axis``, in the memory order of ``x``."""
    order = _order(x)
    sizes = [x.shape[dim] * (2 if dim == axis else 1) for dim in order]
    back = [order.index(dim) for dim in range(x.dim())]
    return torch.empty(sizes, dtype=x.dtype).permute(back)


def _run(x: Tensor, axis: int, out: Tensor, above: Tensor | None = None) -> None:
    handle = _library()
    assert handle is not None  # noqa: S101  the caller has looked
    order = _order(x)
    call = _HalvesCall()
    call.x, call.out = x.data_ptr(), out.data_ptr()
    call.above = None if above is None else above.data_ptr()
    call.length = math.prod(x.shape[dim] for dim in order[order.index(axis) :])
    call.rows = x.numel() // call.length
    call.threads = torch.get_num_threads()
    call.streams = passes_caches(out)
    handle.gw_crelu(ctypes.byref(call))


@cache
def _library() -> ctypes.CDLL | None:
    return handle_or_warning(compiled("crelu", source_of("crelu")))
