"""The layers whose part of the tangent kernel has a closed form.

A closed form needs the inputs of a layer and the slopes (derivatives of the model's outputs) at
its outputs.
"""

import itertools
from collections.abc import Callable, Container, Iterator
from functools import cache
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gatewise.analysis.tangent_kernel.gram import KernelBlock, LinearForm
from gatewise.analysis.tangent_kernel.hooks import Call

# Convolutions, and their number of spatial dimensions.
SPATIAL_DIMS = {nn.Conv1d: 1, nn.Conv2d: 2, nn.Conv3d: 3}
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
INSTANCE_NORMS = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)
NORMS = (*BATCH_NORMS, *INSTANCE_NORMS, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)
CLOSED_FORMS = (nn.Linear, *SPATIAL_DIMS, *NORMS, nn.Embedding)
Layer: TypeAlias = Any  # a module of one of these classes, which have no common base


def closed_form_class(module: nn.Module) -> type[nn.Module] | None:
    """The class of torch whose forward pass ``module`` runs, if it has a closed form."""
    if "forward" in vars(module):
        return None
    return _closed_form_base(type(module))


@cache
def _closed_form_base(cls: type[nn.Module]) -> type[nn.Module] | None:
    for base in CLOSED_FORMS:
        if issubclass(cls, base) and _same_methods(cls, base):
            return base
    return None


def _same_methods(cls: type, base: type) -> bool:
    for name in ("forward", "_conv_forward"):
        if getattr(cls, name, None) is not getattr(base, name, None):
            return False
    return True


def input_dims(module: nn.Module) -> int | None:
    """How many dimensions a batched input of ``module`` has; None if several are allowed."""
    cls = closed_form_class(module)
    return SPATIAL_DIMS[cls] + 2 if cls in SPATIAL_DIMS else None


def add_layer(
    block: KernelBlock,
    module: nn.Module,
    calls: list[Call],
    outputs: int,
    *,
    covered: Container[str],
) -> None:
    """Add the part of a layer to a block of the kernel, over all calls of the layer.

    Args:
        block: where to add it.
        module: the layer.
        calls: its calls, with inputs and slopes.
        outputs: the number of outputs of the model.
        covered: which of ``"weight"`` and ``"bias"`` count.
    """
    cls = closed_form_class(module)
    if cls in NORMS:
        _add_norm(block, module, calls, outputs, covered)
    elif cls is nn.Embedding:
        _add_embedding(block, module, calls, outputs)
    elif cls is nn.Linear:
        block.add_linear(_linear_form(calls, outputs, covered))
    else:
        block.add_linear(_convolution_form(module, calls, outputs, covered))


def _stacked_slopes(call: Call, outputs: int) -> Tensor:
    """The slopes of a call for all outputs of the model. Shape: ``(N, o, *rest)``."""
    if outputs == 1:
        return call.slopes[0].unsqueeze(1)
    zero = torch.zeros_like(next(iter(call.slopes.values())))
    return torch.stack([call.slopes.get(output, zero) for output in range(outputs)], 1)


def _cat(parts: list[Tensor], dim: int) -> Tensor:
    """Like ``torch.cat``, but without a copy of a single part."""
    if len(parts) == 1:
        return parts[0]
    return torch.cat(parts, dim)


def _linear_form(calls: list[Call], outputs: int, covered: Container[str]) -> LinearForm:
    windows = []
    slopes = []
    for call in calls:
        z = call.input
        d = _stacked_slopes(call, outputs)
        windows.append(z.reshape(z.shape[0], 1, -1, z.shape[-1]))  # (N, 1, P, in)
        positions_last = d.reshape(*d.shape[:2], -1, d.shape[-1]).mT
        slopes.append(positions_last.unsqueeze(1))  # (N, 1, o, out, P)
    window = _cat(windows, 2)
    return LinearForm(
        lambda some: iter((window[some],)),
        _cat(slopes, -1),
        window.shape[-1],
        "weight" in covered,
        "bias" in covered,
    )


def _convolution_form(
    module: Layer,
    calls: list[Call],
    outputs: int,
    covered: Container[str],
) -> LinearForm:
    slopes = []
    for call in calls:
        d = _stacked_slopes(call, outputs).flatten(3)
        slopes.append(d.unflatten(2, (module.groups, -1)).transpose(1, 2))

    def windows(some: slice) -> Iterator[Tensor]:
        parts = [_windows(module, call.input[some], call.output_shape[2:]) for call in calls]
        for part in zip(*parts, strict=True):
            yield _cat(list(part), 2)

    return LinearForm(
        windows,
        _cat(slopes, -1),
        module.weight[0].numel(),
        "weight" in covered,
        "bias" in covered,
    )


def _windows(module: Layer, x: Tensor, out: torch.Size) -> Iterator[Tensor]:
    """Yield the kernel's windows at every position, one row of the kernel at a time.

    Windows along the last axis are copied out once, with the ``q`` numbers of all taps and
    channels side by side. Every offset of the kernel along the other axes reads a slice of that.
    So the memory needed is that of one row of the kernel. Shape: ``(N, g, P, q)`` each.
    """
    kernel = module.weight.shape[2:]
    stride = module.stride
    dilation = module.dilation
    x = _padded(module, x).unflatten(1, (module.groups, -1))  # (N, g, c, *spatial)
    x = x.movedim(2, -1).contiguous()  # (N, g, *spatial, c)
    taps = []
    for tap in range(kernel[-1]):
        taps.append(x[..., _strided(tap, dilation[-1], stride[-1], out[-1]), :])
    rows = torch.stack(taps, -2).flatten(-2)  # (N, g, *spatial without the last, out, q)
    for offsets in itertools.product(*map(range, kernel[:-1])):
        places = map(_strided, offsets, dilation, stride, out)
        yield rows[(slice(None), slice(None), *places)].flatten(2, -2)


def _strided(offset: int, dilation: int, stride: int, size: int) -> slice:
    """The inputs along one axis that a tap of the kernel reads, for ``size`` positions."""
    start = offset * dilation
    return slice(start, start + (size - 1) * stride + 1, stride)


def _padded(module: Layer, x: Tensor) -> Tensor:
    if module.padding_mode != "zeros":
        return F.pad(x, module._reversed_padding_repeated_twice, mode=module.padding_mode)
    sides: list[int] = []
    for axis in reversed(range(len(module.stride))):  # F.pad starts with the last axis
        sides += zeros_around(module, axis)
    if any(sides):
        return F.pad(x, sides)
    return x


def zeros_around(module: Layer, axis: int) -> tuple[int, int]:
    """How many zeros go before and after a spatial axis; ``padding="same"`` may be uneven."""
    if module.padding == "same":
        both = module.dilation[axis] * (module.weight.shape[2 + axis] - 1)
        return both // 2, both - both // 2
    if module.padding == "valid":
        return (0, 0)
    return (module.padding[axis], module.padding[axis])


def _add_norm(
    block: KernelBlock,
    module: Layer,
    calls: list[Call],
    outputs: int,
    covered: Container[str],
) -> None:
    """Add the scale and the shift of a norm layer.

    The gradient of the scale is the slope times the normalised input, summed over positions. The
    gradient of the shift is the slope, summed over positions.
    """
    normalise = NORMALISERS[closed_form_class(module)]
    axes = slice(2, 3)  # of the parameters, in (N, o, *rest)
    if isinstance(module, nn.LayerNorm | nn.RMSNorm):
        axes = slice(-len(module.normalized_shape), None)
    scale = []
    shift = []
    for call in calls:
        slopes = _stacked_slopes(call, outputs)
        if "weight" in covered:
            normalised = normalise(module, call.input).unsqueeze(1)
            scale.append(_sum_over_positions(slopes * normalised, axes))
        if "bias" in covered:
            shift.append(_sum_over_positions(slopes, axes))
    for gradients in (scale, shift):
        if gradients:
            block.add_features(sum(gradients[1:], gradients[0]))


def _sum_over_positions(values: Tensor, parameter_axes: slice) -> Tensor:
    kept = range(values.dim())[parameter_axes]
    summed = [axis for axis in range(2, values.dim()) if axis not in kept]
    return (values.sum(summed) if summed else values).flatten(2)


def _batch_normalised(module: Layer, x: Tensor) -> Tensor:
    return F.batch_norm(x, module.running_mean, module.running_var, training=False, eps=module.eps)


def _instance_normalised(module: Layer, x: Tensor) -> Tensor:
    if module.training or not module.track_running_stats:
        return F.instance_norm(x, eps=module.eps)
    return F.instance_norm(
        x,
        module.running_mean,
        module.running_var,
        use_input_stats=False,
        eps=module.eps,
    )


NORMALISERS: dict[type[nn.Module] | None, Callable[[Layer, Tensor], Tensor]] = {
    **dict.fromkeys(BATCH_NORMS, _batch_normalised),
    **dict.fromkeys(INSTANCE_NORMS, _instance_normalised),
    nn.LayerNorm: lambda module, x: F.layer_norm(x, module.normalized_shape, eps=module.eps),
    nn.RMSNorm: lambda module, x: F.rms_norm(x, module.normalized_shape, eps=module.eps),
    nn.GroupNorm: lambda module, x: F.group_norm(x, module.num_groups, eps=module.eps),
}


def _add_embedding(block: KernelBlock, module: Layer, calls: list[Call], outputs: int) -> None:
    """Add an embedding table.

    The gradient of a row of the table is the sum of the slopes where that row was read. Only rows
    that were read count.
    """
    indices = _cat([call.input.reshape(call.input.shape[0], -1) for call in calls], 1)  # (N, P)
    slopes = []
    for call in calls:
        d = _stacked_slopes(call, outputs)
        slopes.append(d.reshape(*d.shape[:2], -1, d.shape[-1]))
    d = _cat(slopes, 2).mT  # (N, o, width, P)
    if module.padding_idx is not None:
        d = d * indices.ne(module.padding_idx)[:, None, None]
    rows, place = indices.unique(return_inverse=True)
    column_bytes = d.shape[0] * outputs * rows.numel() * d.element_size()
    for some in d.split(max(1, block.limit // (2 * column_bytes)), dim=2):
        gradients = some.new_zeros(*some.shape[:3], rows.numel())
        gradients.scatter_add_(-1, place[:, None, None].expand_as(some), some)
        block.add_features(gradients.flatten(2))
