"""3 by 3 convolutions whose backward pass uses Winograd tiles, in about half of torch's time.

See Note [Tiles] in ``compiled/winograd.py``. The forward pass is torch's own, to the bit. Where
the tiles are not compiled, or are not faster, the layer runs unchanged.
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


class WinogradConv(torch.autograd.Function):
    """A convolution with stride 1 and ``zeros`` on both sides of each axis.

    The backward pass computes the derivative by ``x`` only.
    Shape: ``(n, q, h, w), (c, q, 3, 3), (c,) -> (n, c, H, W)``.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        zeros: tuple[int, int],
    ) -> Tensor:
        ctx.save_for_backward(weight)
        ctx.zeros = zeros
        ctx.size = x.shape
        return F.conv2d(x, weight, bias, padding=zeros)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None, None, None]:
        (weight,) = ctx.saved_tensors
        return input_slopes(slopes[0].contiguous(), weight, ctx.zeros, ctx.size), None, None, None


def winograd_forwards(modules: Iterable[nn.Module]) -> Forwards:
    """The convolutions among ``modules`` that may be faster this way, with their new forwards."""
    forwards: Forwards = {}
    for module in modules:
        if type(module) is nn.Conv2d and _is_simple(module):
            if has_compiled_tiles((module.weight,)):
                forwards[module] = partial(_forward, module)
    return forwards


def _is_simple(module: nn.Conv2d) -> bool:
    options = (module.stride, module.dilation, module.groups, module.padding_mode)
    return module.weight.shape[2:] == (TAPS, TAPS) and options == ((1, 1), (1, 1), 1, "zeros")


def _forward(module: nn.Conv2d, x: Tensor) -> Tensor:
    zeros = (zeros_around(module, 0)[0], zeros_around(module, 1)[0])
    if not _is_faster(module, x, zeros):
        return nn.Conv2d.forward(module, x)
    return WinogradConv.apply(x, module.weight, module.bias, zeros)  # pyright: ignore[reportReturnType] (untyped)


def _is_faster(module: nn.Conv2d, x: Tensor, zeros: tuple[int, int]) -> bool:
    """Whether there is a backward pass, and tiles take fewer multiplications in it."""
    if x.dim() != 4 or not x.requires_grad or not has_compiled_tiles((x,)):
        return False
    height = x.shape[2] + 2 * zeros[0] - TAPS + 1
    width = x.shape[3] + 2 * zeros[1] - TAPS + 1
    if min(height, width) <= 0:
        return False
    filters, channels = module.weight.shape[:2]
    direct = module.weight.numel() * height * width
    return compiled_multiplications(channels, filters, (height, width)) < direct
