"""One row times a matrix, without the rows of the matrix whose input is small: compiled code.

See Note [Skipped rows] of ``sparse_linear.py``.
"""

import ctypes
from functools import cache
from typing import Any

import torch
from torch import Tensor

from gatewise.native import COUNT, NUMBER, POINTER, compiled_library, struct_fields
from gatewise.units import is_readable, is_watched

NAMES = {torch.float32: "float32", torch.bfloat16: "bfloat16"}


class _SparseRows(ctypes.Structure):
    """``SparseRows`` of ``native/sparse_rows.c``."""

    _fields_ = struct_fields(
        (COUNT, "inputs outputs"),
        (POINTER, "x w bias found"),
        (NUMBER, "threshold"),
    )


def can_skip_rows(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Return whether compiled code can multiply ``x`` by ``weight`` here.

    Args:
        x: the input of a linear layer.
        weight: of the layer, ``(outputs, inputs)``.
        bias: of the layer.
    """
    if x.numel() != weight.shape[1] or x.dtype not in NAMES or x.dtype is not weight.dtype:
        return False
    if weight.stride() != (1, weight.shape[0]) or x.stride(-1) != 1:
        return False
    learns = x.requires_grad or weight.requires_grad or (bias is not None and bias.requires_grad)
    if torch.is_grad_enabled() and learns:
        return False
    tensors = (x, weight) if bias is None else (x, weight, bias)
    if is_watched() or not all(map(is_readable, tensors)):
        return False
    if bias is not None and (bias.dtype is not x.dtype or not bias.is_contiguous()):
        return False
    return _function(x.dtype) is not None


def rows_product(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    threshold: float,
) -> Tensor:
    """Return ``weight x + bias`` without the inputs that are at most ``threshold`` in magnitude.

    :func:`can_skip_rows` must have been true of the arguments.

    Args:
        x: one row of inputs.
        weight: ``(outputs, inputs)``, stored by columns.
        bias: of the outputs.
        threshold: the magnitude.
    """
    function = _function(x.dtype)
    assert function is not None  # noqa: S101  the caller has checked it
    outputs, inputs = weight.shape
    found = x.new_empty((*x.shape[:-1], outputs))
    call = _SparseRows(
        inputs,
        outputs,
        x.data_ptr(),
        weight.data_ptr(),
        None if bias is None else bias.data_ptr(),
        found.data_ptr(),
        threshold,
    )
    if function(ctypes.byref(call)) < 0:
        raise MemoryError(f"no memory for the places of {inputs:,} inputs")
    return found


@cache
def _function(dtype: torch.dtype) -> Any:
    """Return the compiled function for a dtype; None without a compiler."""
    handle = compiled_library("sparse_rows")
    if handle is None:
        return None
    function = handle[f"gw_sparse_rows_{NAMES[dtype]}"]
    function.restype = ctypes.c_int64
    return function
