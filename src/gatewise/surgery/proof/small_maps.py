"""Convolutions of maps with few positions, written as products that take as long as reading the weights does.

Torch multiplies the weights by the few columns of such a map, for which their order in memory is the wrong one: the
same product the other way round takes a half to a quarter of the time, forwards and backwards. Each sum has the same
terms, in an order of its own.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

FEW = 32  # positions of the output, of all the batch: from there on torch's own way is as quick

Pair = tuple[int, int]


class SmallMaps(TorchFunctionMode):
    """While it lasts, two-dimensional convolutions with few positions are computed as products."""

    leaves_units_alone = True  # so that compiled forms run under it, as they will later

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = _convolved(*args, **(kwargs or {})) if func is torch.conv2d else None
        return func(*args, **(kwargs or {})) if made is None else made


def _convolved(
    input: Tensor,  # the names are torch's
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor | None:
    """``(N, C, H, W), (K, C, h, w) -> (N, K, H', W')``; ``None`` where it is left to torch."""
    plain = (
        input.dim() == weight.dim() == 4
        and input.shape[1] == weight.shape[1]
        and input.dtype == weight.dtype
    )
    here = input.device.type == weight.device.type == "cpu" and not torch.is_autocast_enabled("cpu")
    if not (plain and here) or groups != 1 or isinstance(padding, str):
        return None
    steps, around, apart = _pair(stride), _pair(padding), _pair(dilation)
    sides = [
        (side + 2 * more - gap * (width - 1) - 1) // step + 1
        for side, width, step, more, gap in zip(
            input.shape[2:], weight.shape[2:], steps, around, apart, strict=True
        )
    ]
    if not 0 < len(input) * sides[0] * sides[1] <= FEW or min(sides) < 1:
        return None
    made = _Products.apply(input, weight, (tuple(weight.shape[2:]), apart, around, steps))
    made = made.view(len(input), *sides, len(weight)).permute(0, 3, 1, 2).contiguous()
    return made if bias is None else made + bias.view(-1, 1, 1)


class _Products(torch.autograd.Function):
    """``(N, C, H, W), (K, C, h, w) -> (N * positions, K)``.

    Keeps for the backward pass what torch keeps.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, window: tuple[Pair, ...]) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.window = window
        return _patches(x, window) @ weight.flatten(1).T

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (x, weight), (gradient,) = ctx.saved_tensors, gradients
        of_x = of_weight = None
        if ctx.needs_input_grad[0]:
            columns = (
                (gradient @ weight.flatten(1)).view(len(x), -1, weight[0].numel()).transpose(1, 2)
            )
            of_x = F.fold(columns, x.shape[2:], *ctx.window)
        if ctx.needs_input_grad[1]:
            of_weight = (gradient.T @ _patches(x, ctx.window)).view_as(weight)
        return of_x, of_weight, None


def _patches(x: Tensor, window: tuple[Pair, ...]) -> Tensor:
    """``(N, C, H, W) -> (N * positions, C * h * w)``."""
    return F.unfold(x, *window).transpose(1, 2).flatten(0, 1)


def _pair(value: int | Sequence[int]) -> Pair:
    values = [value] if isinstance(value, int) else [int(each) for each in value]
    return values[0], values[-1]
