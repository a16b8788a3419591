"""Linear layers with large weights and few samples, by a product that reads the weight once.

Torch's product takes several times as long as reading the weight. In a network with one large
dense layer that is a fifth of the kernel's time. The product works in float32, on one thread, with
AVX-512. Elsewhere the layer runs unchanged.
"""

import ctypes
from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.tangent_kernel.compiled.products import (
    Forwards,
    is_readable,
    native_library,
    require_library,
)
from gatewise.native import COUNT, POINTER, struct_fields

MOST_ROWS = 24  # with more samples torch's product is faster
LEAST_WEIGHTS = 1 << 21  # a smaller weight stays in the processor's caches anyway
# `gw_few_rows_backward` needs a scratch buffer of so many numbers for each output.
SCRATCH_PER_OUTPUT = 12


class _FewRows(ctypes.Structure):
    """``FewRows`` of ``native/few_rows.c``."""

    _fields_ = struct_fields(
        (COUNT, "rows outputs inputs given_step step w_step"),
        (POINTER, "given w found"),
    )


class SkinnyMatmul(torch.autograd.Function):
    """``x weight' + bias``; the backward pass computes the derivative by ``x`` only.

    Shape: ``(n, i), (o, i), (o,) -> (n, o)``.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(weight)
        output = x.new_zeros(len(x), len(weight))
        call = _call(x, weight, output)
        require_library("few_rows").gw_few_rows_forward(ctypes.byref(call))
        return output if bias is None else output.add_(bias)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None, None]:
        (weight,) = ctx.saved_tensors
        slope = slopes[0].contiguous()
        by_input = slope.new_empty(len(slope), weight.shape[1])
        scratch = slope.new_empty(SCRATCH_PER_OUTPUT * len(weight))
        call = _call(slope, weight, by_input)
        library = require_library("few_rows")
        library.gw_few_rows_backward(ctypes.byref(call), ctypes.c_void_p(scratch.data_ptr()))
        return by_input, None, None


def _call(source: Tensor, weight: Tensor, target: Tensor) -> _FewRows:
    return _FewRows(
        len(source),
        *weight.shape,
        source.stride(0),
        target.stride(0),
        weight.stride(0),
        source.data_ptr(),
        weight.data_ptr(),
        target.data_ptr(),
    )


def skinny_forwards(modules: Iterable[nn.Module], samples: int) -> Forwards:
    """The linear layers among ``modules`` that are faster this way, with their new forwards."""
    if samples > MOST_ROWS or torch.get_num_threads() > 1:
        return {}
    forwards: Forwards = {}
    for module in modules:
        if type(module) is nn.Linear and _is_faster(module):
            forwards[module] = partial(_forward, module)
    return forwards if forwards and native_library("few_rows") else {}


def _is_faster(module: nn.Linear) -> bool:
    if module.weight.numel() < LEAST_WEIGHTS or not is_readable(module.weight):
        return False
    return module.bias is None or is_readable(module.bias)


def _forward(module: nn.Linear, x: Tensor) -> Tensor:
    if x.dim() != 2 or not is_readable(x):
        return nn.Linear.forward(module, x)
    return SkinnyMatmul.apply(x, module.weight, module.bias)  # pyright: ignore[reportReturnType] (untyped)
