"""Convolutions with 3 by 3 kernels whose backward pass goes by tiles, in about half of torch's time: Note [Tiles].

The forward pass stays torch's own, to the bit. Where tiles are not compiled, or gain nothing, the layer runs as it is.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gatewise.analysis.tangent_kernel.compiled import (
    TAPS,
    Forwards,
    compiled_multiplications,
    has_compiled_tiles,
    input_slopes,
)
from gatewise.analysis.tangent_kernel.layer_rules import zeros_around


class BackByTiles(torch.autograd.Function):
    """A convolution with stride 1 and so many ``zeros`` along each axis.

    The backward pass goes to ``x`` alone.

    Shape: ``(n, q, h, w), (c, q, 3, 3), (c,) -> (n, c, H, W)``.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, zeros: tuple[int, int]
    ) -> Tensor:
        ctx.save_for_backward(weight)
        ctx.zeros, ctx.size = zeros, x.shape
        return F.conv2d(x, weight, bias, padding=zeros)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None, None, None]:
        (weight,) = ctx.saved_tensors
        return input_slopes(slopes[0].contiguous(), weight, ctx.zeros, ctx.size), None, None, None


def back_by_tiles(modules: Iterable[nn.Module]) -> Forwards:
    """The convolutions among ``modules`` that may be quicker this way, and how they run."""
    chosen = [module for module in modules if type(module) is nn.Conv2d and _is_simple(module)]
    return {
        module: partial(_forward, module)
        for module in chosen
        if has_compiled_tiles((module.weight,))
    }


def _is_simple(module: nn.Conv2d) -> bool:
    spread = (module.stride, module.dilation, module.groups, module.padding_mode)
    return module.weight.shape[2:] == (TAPS, TAPS) and spread == ((1, 1), (1, 1), 1, "zeros")


def _forward(module: nn.Conv2d, x: Tensor) -> Tensor:
    zeros = (zeros_around(module, 0)[0], zeros_around(module, 1)[0])
    if not _gains(module, x, zeros):
        return nn.Conv2d.forward(module, x)
    return BackByTiles.apply(x, module.weight, module.bias, zeros)  # pyright: ignore[reportReturnType] (untyped)


def _gains(module: nn.Conv2d, x: Tensor, zeros: tuple[int, int]) -> bool:
    """Whether there is a way back at all, and tiles take fewer multiplications on it."""
    if x.dim() != 4 or not x.requires_grad or not has_compiled_tiles((x,)):
        return False
    height, width = (
        size + 2 * around - TAPS + 1 for size, around in zip(x.shape[2:], zeros, strict=True)
    )
    (filters, channels), direct = module.weight.shape[:2], module.weight.numel() * height * width
    return (
        min(height, width) > 0
        and compiled_multiplications(channels, filters, (height, width)) < direct
    )
