"""The compiled kernels of ``native/elementwise.c``, called on tensors."""

import ctypes
from functools import cache, lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from gatewise.fused.safe_calls import dense
from gatewise.native import library
from gatewise.units import KernelConstants

KERNELS = (
    "two_lines",
    "softplus",
    "gelu",
    "mish",
    "elu",
)  # in the order of the tables in the C source
_INT, _PLACE = ctypes.c_int64, ctypes.c_void_p


@cache
def compiled() -> ctypes.CDLL | None:
    """The library, with the types of its arguments; ``None`` where there is none."""
    handle = library("elementwise").handle
    if handle is not None:
        handle.gw_elementwise_forward.argtypes = (_INT, *(_PLACE,) * 4, *(_INT,) * 4)
        handle.gw_elementwise_backward.argtypes = (_INT, *(_PLACE,) * 6, *(_INT,) * 4)
        handle.gw_elementwise_forward.restype = handle.gw_elementwise_backward.restype = None
    return handle


class Kernel(NamedTuple):
    """One of ``KERNELS`` by its number, with the constants of a unit."""

    number: int
    constants: KernelConstants

    def values(self, x: Tensor, k: float | Tensor) -> Tensor:
        """The unit at ``x``, laid out as ``x``."""
        x = dense(x)
        out = torch.empty_like(x)
        numbers, row = _numbers(k, self.constants), _row(k)
        _library().gw_elementwise_forward(
            self.number,
            x.data_ptr(),
            out.data_ptr(),
            _place(row),
            numbers,
            *_sizes(x, k),
            torch.get_num_threads(),
        )
        return out

    def slopes(
        self, x: Tensor, k: float | Tensor, above: Tensor, *, to_k: bool
    ) -> tuple[Tensor, Tensor | None]:
        """``above`` times the derivatives at ``x``.

        If ``to_k``, also the gradient to ``k``, summed in float64.
        """
        x = dense(x)
        if above.stride() != x.stride():
            above = torch.empty_like(x).copy_(above)
        out = torch.empty_like(x)
        numbers, row = _numbers(k, self.constants), _row(k)
        sums = torch.zeros(row.numel(), dtype=torch.float64) if to_k and row is not None else None
        places = (
            x.data_ptr(),
            above.data_ptr(),
            out.data_ptr(),
            _place(sums),
            _place(row),
            numbers,
        )
        _library().gw_elementwise_backward(
            self.number, *places, *_sizes(x, k), torch.get_num_threads()
        )
        return out, None if sums is None or row is None else sums.to(row.dtype).reshape(row.shape)


def _library() -> ctypes.CDLL:
    handle = compiled()
    assert handle is not None  # noqa: S101  who calls has asked
    return handle


def _numbers(k: float | Tensor, constants: KernelConstants) -> ctypes.Array:
    return _kept_numbers(1.0 if isinstance(k, Tensor) else k, *constants)


@lru_cache(maxsize=256)
def _kept_numbers(*numbers: float) -> ctypes.Array:
    return (ctypes.c_float * 4)(*numbers)


def _row(k: float | Tensor) -> Tensor | None:
    return k.contiguous() if isinstance(k, Tensor) else None


def _place(row: Tensor | None) -> int | None:
    return None if row is None else row.data_ptr()


def _sizes(x: Tensor, k: float | Tensor) -> tuple[int, int, int]:
    """Elements; channels that differ in ``k``; elements from one channel to the next."""
    count = x.numel()
    if not isinstance(k, Tensor) or k.numel() == 1:
        return count, 1, max(count, 1)
    axis = next(i for i, size in enumerate(k.shape) if size != 1)
    return count, k.numel(), x.stride(axis)
