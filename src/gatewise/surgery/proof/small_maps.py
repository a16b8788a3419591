"""Faster convolutions of small feature maps, as matrix products.

For a map with few positions, torch multiplies the weights by a few columns, which does not fit the
order of the weights in memory. The transposed product takes a half to a quarter of the time,
forwards and backwards: about as long as reading the weights. The sums have the same terms in
another order.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

FEW = 32  # output positions in the whole batch, up to which the product is faster

Pair = tuple[int, int]


class SmallMaps(TorchFunctionMode):
    """A mode in which two-dimensional convolutions with few positions are matrix products."""

    leaves_units_alone = True  # units then run in the same form as without this mode

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = _convolved(*args, **(kwargs or {})) if func is torch.conv2d else None
        return func(*args, **(kwargs or {})) if result is None else result


def _convolved(
    input: Tensor,  # the argument names of torch.conv2d
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor | None:
    """Return ``(N, C, H, W), (K, C, h, w) -> (N, K, H', W')``, or ``None`` to leave it to torch."""
    if groups != 1 or isinstance(padding, str) or not input.dim() == weight.dim() == 4:
        return None
    if input.shape[1] != weight.shape[1] or input.dtype != weight.dtype:
        return None
    if not input.device.type == weight.device.type == "cpu" or torch.is_autocast_enabled("cpu"):
        return None
    strides = _pair(stride)
    paddings = _pair(padding)
    dilations = _pair(dilation)
    sides = []
    for dim in (0, 1):
        window = dilations[dim] * (weight.shape[2 + dim] - 1) + 1
        room = input.shape[2 + dim] + 2 * paddings[dim] - window
        sides.append(room // strides[dim] + 1)
    if not 0 < len(input) * sides[0] * sides[1] <= FEW or min(sides) < 1:
        return None
    kernel = tuple(weight.shape[2:])
    products = _Products.apply(input, weight, (kernel, dilations, paddings, strides))
    result = products.view(len(input), *sides, len(weight)).permute(0, 3, 1, 2).contiguous()
    return result if bias is None else result + bias.view(-1, 1, 1)


class _Products(torch.autograd.Function):
    """The product ``(N, C, H, W), (K, C, h, w) -> (N * positions, K)``.

    Like torch, it saves input and weight for the backward pass, not the patches.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, window: tuple[Pair, ...]) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.window = window
        return _patches(x, window) @ weight.flatten(1).T

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        (gradient,) = gradients
        x_gradient = weight_gradient = None
        if ctx.needs_input_grad[0]:
            rows = (gradient @ weight.flatten(1)).view(len(x), -1, weight[0].numel())
            x_gradient = F.fold(rows.transpose(1, 2), x.shape[2:], *ctx.window)
        if ctx.needs_input_grad[1]:
            weight_gradient = (gradient.T @ _patches(x, ctx.window)).view_as(weight)
        return x_gradient, weight_gradient, None


def _patches(x: Tensor, window: tuple[Pair, ...]) -> Tensor:
    """Return the patches of ``x``: ``(N, C, H, W) -> (N * positions, C * h * w)``."""
    return F.unfold(x, *window).transpose(1, 2).flatten(0, 1)


def _pair(value: int | Sequence[int]) -> Pair:
    if isinstance(value, int):
        return value, value
    return int(value[0]), int(value[-1])
