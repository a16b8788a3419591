"""The compiled form of ``Pairs._add_plain``, where there is one and it is quicker.

Float32, one thread, AVX-512.
"""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TypeAlias

import torch
from torch import Tensor, nn

from gatewise.native import library

SIDE = 5  # samples of a tile
Forwards: TypeAlias = dict[
    nn.Module, Callable[[Tensor], Tensor]
]  # layers, and quicker ways to run them


class _Gram(ctypes.Structure):
    """``Gram`` of ``native/gram.c``."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("rows", "columns", "inputs", "slopes")),
        *((name, ctypes.c_void_p) for name in ("z1", "z2", "d1", "d2")),
        *((name, ctypes.c_int64) for name in ("z1_step", "z2_step", "d1_step", "d2_step", "step")),
        ("total", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("bias", "symmetric")),
    )


def add_products(
    total: Tensor, inputs: tuple[Tensor, Tensor], slopes: tuple[Tensor, Tensor], **options: bool
) -> bool:
    """Add ``(z1 z2' + bias) * (d1 d2')``; of a ``symmetric`` total the lower half.

    False, if there is no quicker way.

    Shape: ``(r, c), ((r, k), (c, k)), ((r, l), (c, l))``.
    """
    given = (*inputs, *slopes)
    if min(total.shape) < SIDE or torch.get_num_threads() > 1 or not all(map(is_readable, given)):
        return False
    if total.dtype != torch.float64 or total.stride(1) != 1 or (handle := quick("gram")) is None:
        return False
    sizes = (*total.shape, inputs[0].shape[1], slopes[0].shape[1])
    steps = (*(each.stride(0) for each in given), total.stride(0))
    places = [each.data_ptr() for each in given]
    handle.gw_gram(
        ctypes.byref(
            _Gram(*sizes, *places, *steps, total.data_ptr(), options["bias"], options["symmetric"])
        )
    )
    return True


def is_readable(rows: Tensor) -> bool:
    """Whether compiled code can read the rows as they lie."""
    return rows.dtype == torch.float32 and rows.device.type == "cpu" and rows.stride(-1) == 1


@cache
def quick(name: str) -> ctypes.CDLL | None:
    """The compiled ``name.c``, if there is one and this processor has the instructions that make it quick."""
    handle = library(name).handle
    return handle if handle is not None and handle[f"gw_{name}_is_quick"]() else None


def at_hand(name: str) -> ctypes.CDLL:
    """The same, for those who have asked whether it is there."""
    handle = quick(name)
    assert handle is not None  # noqa: S101  it was asked
    return handle


@contextmanager
def run_by(forwards: Forwards) -> Iterator[None]:
    """Let layers run these ways inside, and as before afterwards."""
    try:
        for module, forward in forwards.items():
            module.forward = forward
        yield
    finally:
        for module in forwards:
            vars(module).pop("forward", None)
