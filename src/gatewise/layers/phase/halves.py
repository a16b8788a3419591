"""A convolution of the positive and the negative part of its input, which keeps only the input.

Both parts are written side by side for the convolution, and again in the backward pass. Nothing of
twice the size of the input is kept in between.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from gatewise.units import gradients_of, is_readable, is_watched


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
        The output; ``None`` where something observes torch's operations, and for other types than
        float32 on the CPU.
    """
    if is_watched() or torch.is_autocast_enabled("cpu") or x.dim() != 4:
        return None
    for each in (x, weight, weight_neg, x if bias is None else bias):
        if each.dtype is not torch.float32 or not is_readable(each):
            return None
    stacked = torch.cat((weight, -weight_neg), 1)
    if torch.is_grad_enabled():
        return _ConvolveHalves.apply(geometry, x, stacked, bias)  # pyright: ignore[reportReturnType] (untyped)
    return functional.conv2d(_both_halves(x), stacked, bias, *geometry)


def _both_halves(x: Tensor) -> Tensor:
    return torch.cat((x.relu(), x.neg().relu_()), 1)


def _plain(geometry: Geometry, inputs: Sequence[Any]) -> Tensor:
    """Return the convolution by operations that can be differentiated twice."""
    x, weight, bias = inputs
    return functional.conv2d(torch.cat((x.relu(), x.neg().relu()), 1), weight, bias, *geometry)


class _ConvolveHalves(torch.autograd.Function):
    """The convolution. Second derivatives are those of torch's operations."""

    @staticmethod
    def forward(
        ctx: Any,
        geometry: Geometry,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
    ) -> Tensor:
        ctx.geometry = geometry
        ctx.save_for_backward(x, weight, bias)
        return functional.conv2d(_both_halves(x), weight, bias, *geometry)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (above,) = gradients
        x, weight, bias = ctx.saved_tensors
        wanted = list(ctx.needs_input_grad[1:])
        if torch.is_grad_enabled() or is_watched():
            return None, *gradients_of(
                partial(_plain, ctx.geometry), above, (x, weight, bias), wanted
            )
        both = _both_halves(x)
        sizes = None if bias is None else [bias.numel()]
        options = (*ctx.geometry, False, [0, 0], 1, wanted)
        to_halves, *others = torch.ops.aten.convolution_backward(
            above, both, weight, sizes, *options
        )
        if not wanted[0]:
            return None, None, *others
        passed = torch.ops.aten.threshold_backward(to_halves, both, 0.0)
        positive, negative = passed.chunk(2, 1)
        return None, positive - negative, *others
