"""The compiled kernels of ``native/elementwise.c``, called on tensors."""

import ctypes
from functools import cache, lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from gatewise.fused.safe_calls import dense
from gatewise.native import compiled_library
from gatewise.units import KernelConstants

# In the order of the tables in the C source.
KERNELS = (
    "two_lines",
    "softplus",
    "gelu",
    "mish",
    "elu",
)
_INT = ctypes.c_int64
_POINTER = ctypes.c_void_p


@cache
def compiled() -> ctypes.CDLL | None:
    """Return the library with the types of its arguments declared; ``None`` if there is none."""
    handle = compiled_library("elementwise")
    if handle is not None:
        handle.gw_elementwise_forward.argtypes = (_INT, *(_POINTER,) * 4, *(_INT,) * 4)
        handle.gw_elementwise_backward.argtypes = (_INT, *(_POINTER,) * 6, *(_INT,) * 4)
        handle.gw_elementwise_forward.restype = handle.gw_elementwise_backward.restype = None
    return handle


class Kernel(NamedTuple):
    """One of ``KERNELS`` by its number, with the constants of a unit."""

    number: int
    constants: KernelConstants

    def values(self, x: Tensor, k: float | Tensor) -> Tensor:
        """Return the unit at ``x``, with the memory layout of ``x``."""
        x = dense(x)
        out = torch.empty_like(x)
        numbers = _numbers(k, self.constants)
        row = _row(k)
        _library().gw_elementwise_forward(
            self.number,
            x.data_ptr(),
            out.data_ptr(),
            _pointer(row),
            numbers,
            *_sizes(x, k),
            torch.get_num_threads(),
        )
        return out

    def slopes(
        self, x: Tensor, k: float | Tensor, gradient: Tensor, *, to_k: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Return ``gradient`` times the derivatives of the unit, to ``x`` and to ``k``.

        Args:
            x: the input of the unit.
            k: the unit's number, or one for each channel.
            gradient: of the output.
            to_k: whether the gradient to ``k`` is wanted. It is summed in float64.
        """
        x = dense(x)
        if gradient.stride() != x.stride():
            gradient = torch.empty_like(x).copy_(gradient)
        out = torch.empty_like(x)
        row = _row(k)
        sums = torch.zeros(row.numel(), dtype=torch.float64) if to_k and row is not None else None
        _library().gw_elementwise_backward(
            self.number,
            x.data_ptr(),
            gradient.data_ptr(),
            out.data_ptr(),
            _pointer(sums),
            _pointer(row),
            _numbers(k, self.constants),
            *_sizes(x, k),
            torch.get_num_threads(),
        )
        if sums is None or row is None:
            return out, None
        return out, sums.to(row.dtype).reshape(row.shape)


def _library() -> ctypes.CDLL:
    handle = compiled()
    assert handle is not None  # noqa: S101  callers have checked it
    return handle


def _numbers(k: float | Tensor, constants: KernelConstants) -> ctypes.Array:
    """Return ``k`` and the constants as C floats; 1 for a ``k`` that is a tensor."""
    return _kept_numbers(1.0 if isinstance(k, Tensor) else k, *constants)


@lru_cache(maxsize=256)
def _kept_numbers(*numbers: float) -> ctypes.Array:
    return (ctypes.c_float * 4)(*numbers)


def _row(k: float | Tensor) -> Tensor | None:
    return k.contiguous() if isinstance(k, Tensor) else None


def _pointer(row: Tensor | None) -> int | None:
    return None if row is None else row.data_ptr()


def _sizes(x: Tensor, k: float | Tensor) -> tuple[int, int, int]:
    """Return the number of elements, of values in ``k``, and the step from one to the next."""
    count = x.numel()
    if not isinstance(k, Tensor) or k.numel() == 1:
        return count, 1, max(count, 1)
    axis = next(i for i, size in enumerate(k.shape) if size != 1)
    return count, k.numel(), x.stride(axis)
