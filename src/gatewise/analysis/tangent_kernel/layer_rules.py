"""The layers whose part of the tangent kernel has a closed form, from their inputs and the slopes at their outputs."""

import itertools
from collections.abc import Callable, Container, Iterator
from functools import cache, partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gatewise.analysis.tangent_kernel.compiled import (
    TAPS,
    compiled_multiplications,
    has_compiled_tiles,
    multiplications,
    weight_gradients,
)
from gatewise.analysis.tangent_kernel.gram import Linear, Pairs
from gatewise.analysis.tangent_kernel.hooks import Call

CONVOLUTIONS = {nn.Conv1d: 1, nn.Conv2d: 2, nn.Conv3d: 3}
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.LayerNorm, nn.GroupNorm)
NORMS += (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d, nn.RMSNorm)
KINDS = (nn.Linear, *CONVOLUTIONS, *NORMS, nn.Embedding)
Layer: TypeAlias = (
    Any  # a module of one of these kinds; their attributes are not those of a common class
)


def kind_of(module: nn.Module) -> type[nn.Module] | None:
    """The class of torch whose forward pass ``module`` runs, if that has a closed form."""
    return None if "forward" in vars(module) else _kind_of_class(type(module))


@cache
def _kind_of_class(own: type[nn.Module]) -> type[nn.Module] | None:
    kinds = (kind for kind in KINDS if issubclass(own, kind))
    return next(
        (
            kind
            for kind in kinds
            if all(_same(own, kind, name) for name in ("forward", "_conv_forward"))
        ),
        None,
    )


def _same(own: type, kind: type, name: str) -> bool:
    return getattr(own, name, None) is getattr(kind, name, None)


def axes_of(module: nn.Module) -> int | None:
    """How many dimensions a batched input of ``module`` has.

    None where several numbers are right.
    """
    kind = kind_of(module)
    return CONVOLUTIONS[kind] + 2 if kind in CONVOLUTIONS else None


def add_layer(
    pairs: Pairs, module: nn.Module, calls: list[Call], outputs: int, *, covered: Container[str]
) -> None:
    """Add what the ``covered`` parameters of ``module`` contribute, over all its calls."""
    kind = kind_of(module)
    if kind in NORMS:
        _add_norm(pairs, module, calls, outputs, covered)
    elif kind is nn.Embedding:
        _add_embedding(pairs, module, calls, outputs)
    else:
        form = _linear_form if kind is nn.Linear else _convolution_form
        pairs.add_linear(form(module, calls, outputs, covered))


def stacked(call: Call, outputs: int) -> Tensor:
    """The slopes of a call for all outputs of the model. Shape: ``(N, o, *rest)``."""
    if outputs == 1:
        return call.slopes[0].unsqueeze(1)
    zero = torch.zeros_like(next(iter(call.slopes.values())))
    return torch.stack([call.slopes.get(output, zero) for output in range(outputs)], 1)


def _joined(parts: list[Tensor], dim: int) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim)


def _linear_form(module: Layer, calls: list[Call], outputs: int, covered: Container[str]) -> Linear:
    if outputs == len(calls) == 1 and calls[0].entered.dim() == 2:  # the same as below, at once
        z, d = calls[0].entered[:, None, None], calls[0].slopes[0][:, None, None, :, None]
        return Linear(
            lambda some: iter((z[some],)), d, z.shape[-1], "weight" in covered, "bias" in covered
        )
    entered = [
        call.entered.reshape(call.entered.shape[0], 1, -1, call.entered.shape[-1]) for call in calls
    ]
    window = _joined(entered, 2)  # (N, 1, P, in)
    slopes = [stacked(call, outputs) for call in calls]
    slopes = [
        s.reshape(*s.shape[:2], -1, s.shape[-1]).mT.unsqueeze(1) for s in slopes
    ]  # (N, 1, o, out, P)
    return Linear(
        lambda some: iter((window[some],)),
        _joined(slopes, -1),
        window.shape[-1],
        "weight" in covered,
        "bias" in covered,
    )


def _convolution_form(
    module: Layer, calls: list[Call], outputs: int, covered: Container[str]
) -> Linear:
    groups = module.groups
    slopes = [
        stacked(call, outputs).flatten(3).unflatten(2, (groups, -1)).transpose(1, 2)
        for call in calls
    ]

    def windows(some: slice) -> Iterator[Tensor]:
        parts = [_windows(module, call.entered[some], call.left[2:]) for call in calls]
        return (_joined(list(part), 2) for part in zip(*parts, strict=True))

    reach = module.weight[0].numel()
    quicker = (
        partial(_gradients_by_tiles, module, calls[0])
        if _has_tiles(module, calls, outputs)
        else None
    )
    return Linear(
        windows, _joined(slopes, -1), reach, "weight" in covered, "bias" in covered, quicker
    )


def _has_tiles(module: Layer, calls: list[Call], outputs: int) -> bool:
    """Whether the weight gradients are had with fewer multiplications from tiles."""
    simple = module.weight.shape[2:] == (TAPS, TAPS) and module.stride == module.dilation == (1, 1)
    if not simple or len(calls) > 1:
        return False
    (height, width), channels, filters = (
        calls[0].left[2:],
        module.weight.shape[1],
        module.weight.shape[0],
    )
    filters = filters * outputs // module.groups
    compiled = has_compiled_tiles((calls[0].entered, *calls[0].slopes.values()))
    count = compiled_multiplications if compiled else multiplications
    return count(channels, filters, (height, width)) < height * width * TAPS**2 * channels * filters


def _gradients_by_tiles(
    module: Layer, call: Call, some: slice, slopes: Tensor, out: Tensor
) -> None:
    """Shape: ``(N, g, o, c, P) -> (N, o, k)``."""
    x, zeros = call.entered[some], (0, 0)
    if module.padding_mode == "zeros":
        zeros = (zeros_around(module, 0)[0], zeros_around(module, 1)[0])
    else:
        x = _padded(module, x)
    x = x.unflatten(1, (module.groups, -1))
    samples, groups, outputs, channels, _ = slopes.shape
    d = slopes.flatten(2, 3).unflatten(-1, call.left[2:])
    if outputs == 1:
        weight_gradients(x, d, zeros, out.view(samples, groups, TAPS**2, channels, -1))
        return
    found = weight_gradients(x, d, zeros).unflatten(3, (outputs, channels))  # (N, g, 9, o, c, q)
    out.view(samples, outputs, groups, TAPS**2, channels, -1).copy_(found.movedim(3, 1))


def _windows(module: Layer, x: Tensor, out: torch.Size) -> Iterator[Tensor]:
    """What the kernel sees at every position, a row of the kernel at a time: ``(N, g, P, q)`` each.

    Windows along the last axis are laid out once, ``q`` numbers of all taps and channels side by
    side. Every offset of the kernel along the other axes reads a slice of that, so that memory is
    that of a row and not of the kernel.
    """
    kernel, stride, dilation = module.weight.shape[2:], module.stride, module.dilation
    x = _padded(module, x).unflatten(1, (module.groups, -1))  # (N, g, c, *spatial)
    x = x.movedim(2, -1).contiguous()  # (N, g, *spatial, c)
    taps = (
        slice(at * dilation[-1], at * dilation[-1] + (out[-1] - 1) * stride[-1] + 1, stride[-1])
        for at in range(kernel[-1])
    )
    laid = torch.stack([x[..., tap, :] for tap in taps], -2).flatten(
        -2
    )  # (N, g, *spatial but the last, out, q)
    for offset in itertools.product(*map(range, kernel[:-1])):
        at = [
            slice(o * d, o * d + (size - 1) * s + 1, s)
            for o, d, s, size in zip(offset, dilation[:-1], stride[:-1], out[:-1], strict=True)
        ]
        yield laid[(slice(None), slice(None), *at)].flatten(2, -2)


def _padded(module: Layer, x: Tensor) -> Tensor:
    if module.padding_mode != "zeros":
        return F.pad(x, module._reversed_padding_repeated_twice, mode=module.padding_mode)
    sides = [
        side for axis in reversed(range(len(module.stride))) for side in zeros_around(module, axis)
    ]
    return F.pad(x, sides) if any(sides) else x


def zeros_around(module: Layer, axis: int) -> tuple[int, int]:
    """How many zeros go before and after a spatial axis; ``padding="same"`` may be uneven."""
    if module.padding == "same":
        both = module.dilation[axis] * (module.weight.shape[2 + axis] - 1)
        return both // 2, both - both // 2
    return (0, 0) if module.padding == "valid" else (module.padding[axis], module.padding[axis])


def _add_norm(
    pairs: Pairs, module: Layer, calls: list[Call], outputs: int, covered: Container[str]
) -> None:
    """The gradient of a scale is the slope times the normalised input, summed over positions.

    Of a shift, the slope.
    """
    inputs = [
        (NORMALISED[kind_of(module)](module, call.entered), stacked(call, outputs))
        for call in calls
    ]
    first, last = _own_axes(module)
    if "weight" in covered:
        scaled = [_sum_over_positions(slopes * x.unsqueeze(1), first, last) for x, slopes in inputs]
        pairs.add_features(sum(scaled[1:], scaled[0]))
    if "bias" in covered:
        shifted = [_sum_over_positions(slopes, first, last) for _, slopes in inputs]
        pairs.add_features(sum(shifted[1:], shifted[0]))


def _own_axes(module: Layer) -> tuple[int, int | None]:
    """Where the axes of the parameters are, in ``(N, o, *rest)``."""
    if isinstance(module, nn.LayerNorm | nn.RMSNorm):
        return -len(module.normalized_shape), None
    return 2, 3


def _sum_over_positions(values: Tensor, first: int, last: int | None) -> Tensor:
    own = range(values.dim())[first:last]
    others = [axis for axis in range(2, values.dim()) if axis not in own]
    return (values.sum(others) if others else values).flatten(2)


def _batch_normalised(module: Layer, x: Tensor) -> Tensor:
    return F.batch_norm(x, module.running_mean, module.running_var, training=False, eps=module.eps)


def _instance_normalised(module: Layer, x: Tensor) -> Tensor:
    own = module.training or not module.track_running_stats
    mean, variance = (None, None) if own else (module.running_mean, module.running_var)
    return F.instance_norm(x, mean, variance, use_input_stats=own, eps=module.eps)


NORMALISED: dict[type[nn.Module] | None, Callable[[Layer, Tensor], Tensor]] = {
    **dict.fromkeys((nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d), _batch_normalised),
    **dict.fromkeys(
        (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d), _instance_normalised
    ),
    nn.LayerNorm: lambda module, x: F.layer_norm(x, module.normalized_shape, eps=module.eps),
    nn.RMSNorm: lambda module, x: F.rms_norm(x, module.normalized_shape, eps=module.eps),
    nn.GroupNorm: lambda module, x: F.group_norm(x, module.num_groups, eps=module.eps),
}


def _add_embedding(pairs: Pairs, module: Layer, calls: list[Call], outputs: int) -> None:
    """The gradient of a row is the sum of the slopes where it was looked up.

    Only rows that were count.
    """
    looked_up = _joined(
        [call.entered.reshape(call.entered.shape[0], -1) for call in calls], 1
    )  # (N, P)
    slopes = [stacked(call, outputs) for call in calls]
    d = _joined(
        [s.reshape(*s.shape[:2], -1, s.shape[-1]) for s in slopes], 2
    ).mT  # (N, o, width, P)
    if module.padding_idx is not None:
        d = d * looked_up.ne(module.padding_idx)[:, None, None]
    rows, place = looked_up.unique(return_inverse=True)
    each = d.shape[0] * outputs * rows.numel() * d.element_size()
    for some in d.split(max(1, pairs.limit // (2 * each)), dim=2):
        gradients = some.new_zeros(*some.shape[:3], rows.numel())
        pairs.add_features(
            gradients.scatter_add_(-1, place[:, None, None].expand_as(some), some).flatten(2)
        )
