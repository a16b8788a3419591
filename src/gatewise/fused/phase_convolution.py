"""A convolution of the positive and the negative part of its input, which keeps only the input.

Both parts are written side by side for the convolution, and again in the backward pass. Nothing of
twice the size of the input is kept in between.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from gatewise.fused.crelu_pass import both_halves, fold_halves
from gatewise.fused.dispatch import plain_gradients
from gatewise.fused.safe_calls import is_readable, is_watched


class Geometry(NamedTuple):
    """How a convolution of images moves over its input.

    Attributes:
        stride: the step from patch to patch.
        padding: zeros on both sides.
        dilation: the distance between elements of the kernel.
    """

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]


def convolve_halves(
    x: Tensor,
    weight: Tensor,
    weight_neg: Tensor,
    bias: Tensor | None,
    geometry: Geometry,
) -> Tensor | None:
    """Return ``weight`` times the positive parts of ``x`` plus ``weight_neg`` times the negative.

    Args:
        x: the input, ``(N, C, H, W)``.
        weight: the weight of the positive parts, ``(M, C, *kernel)``.
        weight_neg: the weight of the negative parts, of the same shape.
        bias: ``(M,)``, or ``None``.
        geometry: of the convolution.

    Returns:
        The output; ``None`` where torch's operations must run: if something observes them, and for
        other types than float32 on the CPU.
    """
    if is_watched() or torch.is_autocast_enabled("cpu") or x.dim() != 4:
        return None
    for each in (x, weight, weight_neg, x if bias is None else bias):
        if each.dtype is not torch.float32 or not is_readable(each):
            return None
    with torch.no_grad():
        both = both_halves(x, 1)
    if both is None:
        return None
    stacked = torch.cat((weight, -weight_neg), 1)
    if torch.is_grad_enabled():
        return _ConvolveHalves.apply(both, geometry, x, stacked, bias)  # pyright: ignore[reportReturnType] (untyped)
    return functional.conv2d(both, stacked, bias, *geometry)


class _ConvolveHalves(torch.autograd.Function):
    """The convolution. Second derivatives are those of torch's operations."""

    @staticmethod
    def forward(
        ctx: Any,
        both: Tensor,
        geometry: Geometry,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
    ) -> Tensor:
        ctx.geometry = geometry
        ctx.save_for_backward(x, weight, bias)
        return functional.conv2d(both, weight, bias, *geometry)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (above,) = gradients
        x, weight, bias = ctx.saved_tensors
        wanted = list(ctx.needs_input_grad[2:])
        both = None
        if not torch.is_grad_enabled() and is_readable(above) and is_readable(x):
            both = both_halves(x, 1)
        if both is None:

            def plain(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
                halves = torch.cat((x.relu(), x.neg().relu()), 1)
                return functional.conv2d(halves, weight, bias, *ctx.geometry)

            return None, None, *plain_gradients(plain, (x, weight, bias), above, wanted)
        to_halves, *others = torch.ops.aten.convolution_backward(
            above,
            both,
            weight,
            None if bias is None else [bias.numel()],
            *ctx.geometry,
            False,
            [0, 0],
            1,
            wanted,
        )
        to_x = fold_halves(x, to_halves, 1) if wanted[0] else None
        return None, None, to_x, *others
