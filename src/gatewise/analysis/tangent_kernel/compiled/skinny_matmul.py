"""Linear layers with large weights and few samples.

Forward and back by a product that reads the weight once.

Torch's product takes several times as long as reading the weight, and in a network with one large
dense layer that is a fifth of the kernel's time. Float32, one thread, AVX-512; elsewhere the layer
runs as it is.
"""

import ctypes
from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.tangent_kernel.compiled.products import Forwards, at_hand, is_readable, quick

MOST_ROWS = 24  # beyond, torch's product is quicker
LEAST_WEIGHTS = 1 << 21  # below, the weight stays in the processor's caches


class _FewRows(ctypes.Structure):
    """``FewRows`` of ``native/few_rows.c``."""

    _fields_ = (
        *(
            (name, ctypes.c_int64)
            for name in ("rows", "outputs", "inputs", "given_step", "step", "w_step")
        ),
        *((name, ctypes.c_void_p) for name in ("given", "w", "found")),
    )


class FewRows(torch.autograd.Function):
    """``x weight' + bias``; the backward pass goes to ``x`` alone.

    Shape: ``(n, i), (o, i), (o,) -> (n, o)``.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(weight)
        found = x.new_zeros(len(x), len(weight))
        at_hand("few_rows").gw_few_rows_forward(ctypes.byref(_call(x, weight, found)))
        return found if bias is None else found.add_(bias)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None, None]:
        (weight,) = ctx.saved_tensors
        slope = slopes[0].contiguous()
        found = slope.new_empty(len(slope), weight.shape[1])
        space = slope.new_empty(12 * len(weight))
        place = ctypes.c_void_p(space.data_ptr())
        at_hand("few_rows").gw_few_rows_backward(ctypes.byref(_call(slope, weight, found)), place)
        return found, None, None


def _call(given: Tensor, weight: Tensor, found: Tensor) -> _FewRows:
    steps = (given.stride(0), found.stride(0), weight.stride(0))
    return _FewRows(
        len(given), *weight.shape, *steps, given.data_ptr(), weight.data_ptr(), found.data_ptr()
    )


def by_few_rows(modules: Iterable[nn.Module], samples: int) -> Forwards:
    """The linear layers among ``modules`` that are quicker this way, and how they run."""
    if samples > MOST_ROWS or torch.get_num_threads() > 1:
        return {}
    chosen = [module for module in modules if type(module) is nn.Linear and _gains(module)]
    return (
        {module: partial(_forward, module) for module in chosen}
        if chosen and quick("few_rows")
        else {}
    )


def _gains(module: nn.Linear) -> bool:
    if module.weight.numel() < LEAST_WEIGHTS:
        return False
    return all(
        map(is_readable, filter(lambda each: each is not None, (module.weight, module.bias)))
    )


def _forward(module: nn.Linear, x: Tensor) -> Tensor:
    if x.dim() != 2 or not is_readable(x):
        return nn.Linear.forward(module, x)
    return FewRows.apply(x, module.weight, module.bias)  # pyright: ignore[reportReturnType] (untyped)
