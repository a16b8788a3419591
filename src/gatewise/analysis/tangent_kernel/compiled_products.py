"""The compiled form of the kernel of a dense layer: float32, one thread, AVX-512."""

import ctypes
from functools import cache

import torch
from torch import Tensor

from gatewise.native import COUNT, POINTER, compiled_library, struct_fields

SIDE = 5  # samples along each side of a tile of the compiled code


class _Gram(ctypes.Structure):
    """``Gram`` of ``native/gram.c``."""

    _fields_ = struct_fields(
        (COUNT, "rows columns inputs slopes"),
        (POINTER, "z1 z2 d1 d2"),
        (COUNT, "z1_step z2_step d1_step d2_step step"),
        (POINTER, "total"),
        (COUNT, "bias symmetric"),
    )


def add_products(
    total: Tensor,
    inputs: tuple[Tensor, Tensor],
    slopes: tuple[Tensor, Tensor],
    *,
    bias: bool,
    symmetric: bool,
) -> bool:
    """Add ``(z1 z2' + bias) * (d1 d2')`` to ``total`` by compiled code, if that is possible.

    Args:
        total: the sums, ``(r, c)`` float64.
        inputs: ``z1`` and ``z2``, ``(r, k)`` and ``(c, k)`` float32.
        slopes: ``d1`` and ``d2``, ``(r, l)`` and ``(c, l)`` float32.
        bias: whether to add 1 to the products of inputs.
        symmetric: whether only the lower half is needed.

    Returns:
        False if compiled code is not available or cannot read the tensors; nothing was added.
    """
    tensors = (*inputs, *slopes)
    if min(total.shape) < SIDE or torch.get_num_threads() > 1 or not all(map(is_readable, tensors)):
        return False
    if total.dtype != torch.float64 or total.stride(1) != 1:
        return False
    handle = native_library()
    if handle is None:
        return False
    call = _Gram(
        *total.shape,
        inputs[0].shape[1],
        slopes[0].shape[1],
        *(tensor.data_ptr() for tensor in tensors),
        *(tensor.stride(0) for tensor in tensors),
        total.stride(0),
        total.data_ptr(),
        bias,
        symmetric,
    )
    handle.gw_gram(ctypes.byref(call))
    return True


def is_readable(rows: Tensor) -> bool:
    """Whether compiled code can read the rows without a copy."""
    return rows.dtype == torch.float32 and rows.device.type == "cpu" and rows.stride(-1) == 1


@cache
def native_library() -> ctypes.CDLL | None:
    """The compiled ``gram.c``; None without a compiler, or without AVX-512 that makes it fast."""
    handle = compiled_library("gram")
    if handle is not None and handle.gw_gram_is_quick():
        return handle
    return None
