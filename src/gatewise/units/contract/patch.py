"""Lengths of a layer's filters, and of the patch of input behind each of its responses.

Note [Box filter]. The squared length of a patch is the sum, over the positions of the kernel, of
the squared length of one input position. So squares are summed over channels once, and then added
up along one axis after the other. This is exact for any kernel, stride, padding and dilation, and
costs a few per cent of the convolution.

Note [No direction]. A patch or filter of length 0 has no direction, so its similarity is undefined.
The authors' code divides by 1e-8 there, which gives responses of a million where a batch norm adds
its shift to the response of an empty patch. Here such lengths are 0, and
:func:`~gatewise.functional.iieu_b` takes the similarity to be 0. The same holds for lengths up to
``eps``, and for those whose gradient would overflow (above 1e15 in float32). Nothing is divided by
them, forward or backward.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.lazy import LazyModuleMixin

from gatewise.errors import ArgumentError
from gatewise.units.contract.arithmetic import cast_like_input, to_compute_dtype
from gatewise.units.contract.unit_module import check_input

# A layer that makes the response that a unit gates.
Producer = nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.Linear
SCOPES = ("all", "group")


class Axis(NamedTuple):
    """How a convolution moves along one dimension."""

    kernel: int
    stride: int
    dilation: int
    before: int  # padding at the start
    after: int  # padding at the end

    @property
    def extent(self) -> int:
        """The number of positions of the padded input that one patch spans."""
        return (self.kernel - 1) * self.dilation + 1


def check_producer(unit: str, conv: nn.Module) -> Producer:
    """Return ``conv`` if it is a layer whose filters and patches have a length."""
    if not isinstance(conv, Producer):
        raise ArgumentError(
            f"{unit}: conv must be a convolution or a linear layer",
            got=type(conv).__name__,
            allowed="Conv1d, Conv2d, Conv3d or Linear",
        )
    if isinstance(conv, LazyModuleMixin):
        raise ArgumentError(
            f"{unit}: the layer has no weight yet",
            got=type(conv).__name__,
            fix="run the lazy layer once first",
        )
    return conv


def filter_norm(weight: Tensor, eps: float = 1e-8) -> Tensor:
    """Return the length of each filter, ``(C,)``, plus ``eps``; 0 for a filter without direction.

    See Note [No direction].
    """
    return _length(_squares(weight).flatten(1).sum(1), eps)


def vector_norm(x: Tensor, axis: int, eps: float = 1e-8) -> Tensor:
    """Return the length of ``x`` along ``axis``, which is kept, plus ``eps``, or 0.

    See Note [No direction].
    """
    return _length(_squares(x).sum(axis, keepdim=True), eps)


def patch_norm(
    source: Tensor,
    conv: Producer,
    *,
    scope: str = "all",
    eps: float = 1e-8,
) -> Tensor:
    """Return the length of the patch of ``source`` behind each response of ``conv``.

    The length is 0 for a patch without direction. ``eps`` times the root of the number of kernel
    positions is added to each length, as in the authors' code. See Note [Box filter].

    Args:
        source: the input of ``conv``.
        conv: a convolution or linear layer.
        scope: ``"all"`` measures over all input channels, ``"group"`` over those of the filter's
            group.
        eps: added to each length.

    Shape: ``(N, C_in, *) -> (N, 1, *)``, or ``(N, C_out, *)`` for ``scope="group"`` and a grouped
    convolution; for a linear layer ``(*, C_in) -> (*, 1)``.
    """
    if isinstance(conv, nn.Linear):
        return vector_norm(source, -1, eps)
    # A grouped filter sees only the channels of its group.
    energy = _squares(source)
    if scope == "all" or conv.groups == 1:
        energy = energy.sum(1, keepdim=True)
    elif conv.groups < conv.in_channels:
        energy = energy.unflatten(1, (conv.groups, -1)).sum(2)
    axes = axes_of(conv)
    length = _length(
        _box(_padded(energy, axes, conv.padding_mode), axes),
        eps,
        math.prod(conv.kernel_size),
    )
    if scope == "group" and 1 < conv.groups < conv.out_channels:
        length = length.repeat_interleave(conv.out_channels // conv.groups, 1)
    return length


def axes_of(conv: Any) -> list[Axis]:
    """Return how a convolution moves along each of its dimensions.

    Args:
        conv: a layer with the attributes ``kernel_size``, ``stride``, ``dilation`` and ``padding``
            of torch's convolutions. With the padding ``"same"``, an odd total is padded once more
            at the end, as torch does.
    """
    axes = []
    for i, kernel in enumerate(conv.kernel_size):
        missing = (kernel - 1) * conv.dilation[i]
        if conv.padding == "same":
            before = missing // 2
            after = missing - before
        else:
            before = after = 0 if conv.padding == "valid" else conv.padding[i]
        axes.append(Axis(kernel, conv.stride[i], conv.dilation[i], before, after))
    return axes


def check_source(unit: str, source: Tensor, conv: Producer) -> Tensor:
    """Return ``source`` if ``conv`` can take it."""
    cast_like_input(unit, "the layer's weight", conv.weight, check_input(unit, source))
    if isinstance(conv, nn.Linear):
        if source.dim() < 1 or source.shape[-1] != conv.in_features:
            raise _wrong_shape(unit, source, f"(*, {conv.in_features})")
        return source
    names = {
        1: "L",
        2: "H, W",
        3: "D, H, W",
    }
    axes = len(conv.kernel_size)
    if source.dim() != 2 + axes or source.shape[1] != conv.in_channels:
        raise _wrong_shape(unit, source, f"(N, {conv.in_channels}, {names[axes]})")
    for size, axis in zip(source.shape[2:], axes_of(conv), strict=True):
        # As torch: reflection needs a further element, wrapping around needs as many.
        largest_padding = {"reflect": size - 1, "circular": size}.get(conv.padding_mode)
        if largest_padding is not None and max(axis.before, axis.after) > largest_padding:
            raise _wrong_shape(
                unit,
                source,
                f"sizes that allow {conv.padding_mode} padding of {axis.after}",
            )
        if size + axis.before + axis.after < axis.extent:
            raise _wrong_shape(
                unit,
                source,
                f"sizes of at least {axis.extent}, padding included: the kernel's extent",
            )
    return source


def _wrong_shape(unit: str, source: Tensor, allowed: str) -> ArgumentError:
    return ArgumentError(
        f"{unit}: the layer cannot take this input",
        got=f"shape {tuple(source.shape)}",
        allowed=allowed,
    )


def _padded(energy: Tensor, axes: list[Axis], mode: str) -> Tensor:
    pads: list[int] = []
    for axis in reversed(axes):
        pads += [axis.before, axis.after]
    if not any(pads):
        return energy
    return F.pad(energy, pads, mode="constant" if mode == "zeros" else mode)


def _box(energy: Tensor, axes: list[Axis]) -> Tensor:
    for dim, axis in enumerate(axes, start=2):
        # The start of the last patch.
        last = (energy.shape[dim] - axis.extent) // axis.stride * axis.stride
        index = [slice(None)] * energy.dim()
        total = None
        for position in range(axis.kernel):
            start = position * axis.dilation
            index[dim] = slice(start, start + last + 1, axis.stride)
            part = energy[tuple(index)]
            total = part if total is None else total + part
        energy = energy if total is None else total
    return energy


def _squares(x: Tensor) -> Tensor:
    """Return ``x`` squared, in the precision of the computation.

    It is computed as a product. The derivative 2x of a square can overflow, and 0 times it would
    then be NaN where the length is not used.
    """
    w = to_compute_dtype(x)
    return w * w


def _length(total: Tensor, eps: float, positions: int = 1) -> Tensor:
    """Return the root of ``total`` plus ``eps`` per root of ``positions``, or 0. NaN stays NaN.

    See Note [No direction].
    """
    # Written with a negation, so that NaN counts as known and stays NaN.
    known = ~((total <= eps * eps) | (total > torch.finfo(total.dtype).max * 2.0**-28))
    root = torch.sqrt(torch.where(known, total, 1.0)) + eps * math.sqrt(positions)
    return torch.where(known, root, 0.0)
