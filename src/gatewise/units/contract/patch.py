"""Lengths of what a layer multiplies.

Of each of its filters, and of the patch of input behind each response.

Note [Box filter]. The squared length of a patch is the sum, over the taps of the kernel, of the
squared length of one position. So squares are summed over channels once, and then added up tap by
tap, one axis after the other: exact for any kernel, stride, padding and dilation, at a few per cent
of what the convolution itself costs.

Note [No direction]. A patch or filter of length 0 has no direction, and its similarity with
anything is undefined: the authors' code divides by 1e-8 there, which gives responses of a million
where a batch norm adds its shift to the response of an empty patch. Such lengths are returned as 0,
for which :func:`~gatewise.functional.iieu_b` takes the similarity to be 0. The same holds for
lengths up to ``eps``, and for those whose gradient would overflow: above 1e15 in float32. Nothing
is divided by them, forward or backward.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.lazy import LazyModuleMixin

from gatewise.errors import ArgumentError
from gatewise.units.contract.arithmetic import cast_like_input, check_input, to_compute_dtype

Producer = (
    nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.Linear
)  # what makes the response that a unit gates
SCOPES = ("all", "group")


class Axis(NamedTuple):
    """How a convolution walks along one dimension."""

    kernel: int
    stride: int
    dilation: int
    before: int
    after: int  # padding

    @property
    def reach(self) -> int:
        """How many positions of the padded input one patch spans."""
        return (self.kernel - 1) * self.dilation + 1


def check_producer(unit: str, conv: nn.Module) -> Producer:
    """``conv`` if it is a layer whose filters and patches have a length."""
    if not isinstance(conv, Producer):
        raise ArgumentError(
            f"{unit}: the layer that makes the response must be a convolution or a linear layer",
            got=type(conv).__name__,
            allowed="Conv1d, Conv2d, Conv3d or Linear",
        )
    if isinstance(conv, LazyModuleMixin):
        raise ArgumentError(
            f"{unit}: the layer has no weight yet",
            got=type(conv).__name__,
            fix="run the lazy layer once before",
        )
    return conv


def filter_norm(weight: Tensor, eps: float = 1e-8) -> Tensor:
    """The length of each filter, ``(C,)``, plus ``eps``; 0 where it has no direction.

    See Note [No direction].
    """
    return _length(_squares(weight).flatten(1).sum(1), eps)


def vector_norm(x: Tensor, axis: int, eps: float = 1e-8) -> Tensor:
    """The length of ``x`` along ``axis``, which is kept, plus ``eps``.

    0 where it has no direction.
    """
    return _length(_squares(x).sum(axis, keepdim=True), eps)


def patch_norm(source: Tensor, conv: Producer, *, scope: str = "all", eps: float = 1e-8) -> Tensor:
    """The length of the patch of ``source`` behind each response of ``conv``.

    0 where it has no direction.

    Shape: ``(N, C_in, *) -> (N, 1, *)``, or ``(N, C_out, *)`` for ``scope="group"`` and a grouped
    convolution; for a linear layer ``(*, C_in) -> (*, 1)``. Each length has ``eps`` times the root
    of the number of taps added, as in the authors' code. See Note [Box filter].
    """
    if isinstance(conv, nn.Linear):
        return vector_norm(source, -1, eps)
    energy = _squares(source)
    if scope == "all" or conv.groups == 1:
        energy = energy.sum(1, keepdim=True)
    elif conv.groups < conv.in_channels:
        energy = energy.unflatten(1, (conv.groups, -1)).sum(2)
    axes = axes_of(conv)
    length = _length(
        _box(_padded(energy, axes, conv.padding_mode), axes), eps, math.prod(conv.kernel_size)
    )
    if scope == "group" and 1 < conv.groups < conv.out_channels:
        length = length.repeat_interleave(conv.out_channels // conv.groups, 1)
    return length


def axes_of(conv: nn.Conv1d | nn.Conv2d | nn.Conv3d) -> list[Axis]:
    """How ``conv`` walks along each of its dimensions.

    ``"same"`` pads by what is missing, the odd one behind.
    """
    axes = []
    for i, (kernel, stride, dilation) in enumerate(
        zip(conv.kernel_size, conv.stride, conv.dilation, strict=True)
    ):
        missing = (kernel - 1) * dilation
        if isinstance(conv.padding, str):
            before = missing // 2 if conv.padding == "same" else 0
            after = missing - before if conv.padding == "same" else 0
        else:
            before = after = conv.padding[i]
        axes.append(Axis(kernel, stride, dilation, before, after))
    return axes


def check_source(unit: str, source: Tensor, conv: Producer) -> Tensor:
    """``source`` if ``conv`` can take it."""
    cast_like_input(unit, "the layer's weight", conv.weight, check_input(unit, source))
    if isinstance(conv, nn.Linear):
        if source.dim() < 1 or source.shape[-1] != conv.in_features:
            raise _wrong_shape(unit, source, f"(*, {conv.in_features})")
        return source
    names = (
        ("L",)
        if isinstance(conv, nn.Conv1d)
        else ("H", "W")
        if isinstance(conv, nn.Conv2d)
        else ("D", "H", "W")
    )
    if source.dim() != 2 + len(names) or source.shape[1] != conv.in_channels:
        raise _wrong_shape(unit, source, f"(N, {conv.in_channels}, {', '.join(names)})")
    for size, axis in zip(source.shape[2:], axes_of(conv), strict=True):
        largest_padding = {"reflect": size - 1, "circular": size}.get(conv.padding_mode)
        if largest_padding is not None and max(axis.before, axis.after) > largest_padding:
            raise _wrong_shape(
                unit, source, f"sizes that {conv.padding_mode} padding of {axis.after} can continue"
            )
        if size + axis.before + axis.after < axis.reach:
            raise _wrong_shape(
                unit, source, f"sizes of at least {axis.reach} with padding, as the kernel spans"
            )
    return source


def _wrong_shape(unit: str, source: Tensor, allowed: str) -> ArgumentError:
    return ArgumentError(
        f"{unit}: the layer cannot take this input",
        got=f"shape {tuple(source.shape)}",
        allowed=allowed,
    )


def _padded(energy: Tensor, axes: list[Axis], mode: str) -> Tensor:
    pads = [pad for axis in reversed(axes) for pad in (axis.before, axis.after)]
    if not any(pads):
        return energy
    return F.pad(energy, pads, mode="constant" if mode == "zeros" else mode)


def _box(energy: Tensor, axes: list[Axis]) -> Tensor:
    for dim, axis in enumerate(axes, start=2):
        last = (
            (energy.shape[dim] - axis.reach) // axis.stride * axis.stride
        )  # where the last patch begins
        taps = [
            _every(energy, dim, tap * axis.dilation, last, axis.stride)
            for tap in range(axis.kernel)
        ]
        energy = taps[0]
        for tap in taps[1:]:
            energy = energy + tap
    return energy


def _every(energy: Tensor, dim: int, start: int, last: int, stride: int) -> Tensor:
    index = [slice(None)] * energy.dim()
    index[dim] = slice(start, start + last + 1, stride)
    return energy[tuple(index)]


def _squares(x: Tensor) -> Tensor:
    """``x`` squared, in working precision.

    As a product: the derivative of a square, 2x, can overflow, and then 0 times
    it is NaN where the length is not used.
    """
    w = to_compute_dtype(x)
    return w * w


def _length(total: Tensor, eps: float, taps: int = 1) -> Tensor:
    """The root of ``total`` plus ``eps`` per root tap, or 0; see Note [No direction].

    NaN stays NaN.
    """
    known = ~((total <= eps * eps) | (total > torch.finfo(total.dtype).max * 2.0**-28))
    root = torch.sqrt(torch.where(known, total, 1.0)) + eps * math.sqrt(taps)
    return torch.where(known, root, 0.0)
