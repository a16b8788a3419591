"""A convolution, a batch norm and IIEU-B in few compiled passes, forward and backward.

Note [Passes]. Forward, the layer's input is read once for the lengths of its patches, and the
responses twice: for their means, from which batch norm and Term-B are made, and for the values.
Backward, one pass computes the gradient to the normalised responses and all sums, a second one adds
what comes through the means and the batch norm. The gradient through the lengths is added in place
to that of the convolution. Responses before the norm are kept, and nothing else of their size.

Note [Plain]. Where something observes torch's operations, for other types, modules with hooks, and
inputs so large that a length has no gradient, :func:`run_block` returns ``None`` and the caller
runs the modules. Second derivatives are taken of the same formulas in torch's operations.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.units.block.map_steps import (
    MapSteps,
    Result,
    Step,
    Window,
    is_laid_out,
    laid_out_as,
    map_library,
)
from gatewise.units.contract import (
    axes_of,
    filter_norm,
    gradients_of,
    is_readable,
    is_watched,
    patch_norm,
)

_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
)
STATELESS = ("layer", "group", "affine")  # kinds of Term-B without running statistics


@dataclass(frozen=True)
class _Block:
    """What one call is made from besides tensors that have a gradient.

    Attributes:
        steps: for the sizes of this call.
        conv: the convolution.
        norm: the batch norm, if any.
        unit: the unit.
        convolves: whether the convolution is part of the block; else the responses are given.
        takes_batch: whether the norm uses the statistics of the batch.
    """

    steps: MapSteps
    conv: nn.Conv2d
    norm: nn.BatchNorm2d | None
    unit: Any
    convolves: bool
    takes_batch: bool

    @property
    def options(self) -> tuple[Any, ...]:
        """Stride, padding, dilation and groups, as torch's convolution takes them."""
        window = self.steps.window
        ahead = (window.stride, window.padding, window.dilation, False, (0, 0))
        return (*ahead, self.conv.groups)


def run_block(
    conv: nn.Module,
    norm: nn.Module | None,
    unit: Any,
    source: Tensor,
    response: Tensor | None = None,
) -> Tensor | None:
    """Return ``unit(norm(conv(source)), source, conv=conv)`` in few passes.

    Args:
        conv: a convolution.
        norm: a batch norm, or ``None``.
        unit: IIEU-B.
        source: the input of the convolution.
        response: the responses, if they are there already. Then there is no norm.

    Returns:
        The output; ``None`` where the modules themselves must run. See Note [Plain].
    """
    if is_watched() or torch.is_autocast_enabled("cpu") or _has_global_hook():
        return None
    if not (isinstance(conv, nn.Conv2d) and _is_iieu_b(unit)):
        return None
    if norm is not None and not isinstance(norm, nn.BatchNorm2d):
        return None
    convolves = response is None
    called = (norm, unit.shift, *((conv, unit) if convolves else ()))
    if not all(_is_untouched(module) for module in called if module is not None):
        return None
    if not (_fits(conv, norm, unit) and _are_floats(conv, norm, unit, source, response)):
        return None
    window = _window(conv)
    handle = map_library() if window else None
    if window is None or handle is None or not _has_responses(window, source, conv, response):
        return None
    groups = 0 if unit.shift.term == "affine" else unit.shift.groups
    steps = MapSteps(handle, source.shape, conv.out_channels, window, groups, unit.eps)
    takes_batch = norm is not None and norm.training
    if takes_batch and steps.samples * steps.positions < 2:
        return None
    gamma, beta = (None, None) if norm is None else (norm.weight, norm.bias)
    tensors = (source, conv.weight, conv.bias if convolves else None, gamma, beta)
    tensors += (unit.threshold(), unit.shift.weight, unit.shift.bias, response)
    block = _Block(steps, conv, norm, unit, convolves, takes_batch)
    return _run(block, tensors)


def _run(block: _Block, tensors: Sequence[Tensor | None]) -> Tensor | None:
    needs = torch.is_grad_enabled() and any(
        each is not None and each.requires_grad for each in tensors
    )
    try:
        if needs:
            y: Any = _IIEUBlock.apply(block, *tensors)
        else:
            with torch.no_grad():
                y = _forward(block, tensors, keeps=False)[0]
    except _OutOfRange:
        return None
    return y


class _OutOfRange(Exception):  # noqa: N818  it is caught in this module
    """A patch is so long that its length passes no gradient."""


def _is_untouched(module: nn.Module) -> bool:
    """Return whether a call of a module runs nothing but the code of its class."""
    return "forward" not in vars(module) and not any(getattr(module, name) for name in _HOOKS)


def _has_global_hook() -> bool:
    """Return whether a hook runs at the call of every module."""
    return any(getattr(nn.modules.module, f"_global{name}") for name in _HOOKS)


def _is_iieu_b(unit: Any) -> bool:
    """Return whether a unit is IIEU-B itself, which alone has its function in its class."""
    return "weigh" in vars(type(unit))


def _fits(conv: nn.Conv2d, norm: nn.BatchNorm2d | None, unit: Any) -> bool:
    if type(conv) is not nn.Conv2d or unit.dim != 1:
        return False
    if conv.padding_mode != "zeros" or unit.shift.term not in STATELESS:
        return False
    if unit.channels != conv.out_channels or (conv.groups > 1 and unit.norm_scope != "all"):
        return False
    if norm is None:
        return True
    if type(norm) is not nn.BatchNorm2d or norm.num_features != conv.out_channels:
        return False
    return norm.training or (norm.running_mean is not None and norm.running_var is not None)


def _are_floats(
    conv: nn.Conv2d,
    norm: nn.BatchNorm2d | None,
    unit: Any,
    source: Tensor,
    response: Tensor | None,
) -> bool:
    """Return whether all tensors are in the memory of the CPU as float32."""
    tensors = [conv.bias, unit.eta, unit.shift.weight, unit.shift.bias]
    tensors.append(unit.filter_norm)
    if norm is not None:
        tensors += [norm.weight, norm.bias, norm.running_mean, norm.running_var]
    for tensor in tensors:
        if tensor is not None and not (
            tensor.dtype is torch.float32 and tensor.is_cpu and _is_plain(tensor)
        ):
            return False
    maps = [source, conv.weight] if response is None else [source, conv.weight, response]
    for each in maps:
        if each.dim() != 4 or not each.numel() or not is_laid_out(each):
            return False
        if each.dtype is not torch.float32 or not is_readable(each):
            return False
    return True


def _is_plain(tensor: Tensor) -> bool:
    """Return whether a small tensor is no subclass and has no gaps."""
    return type(tensor) in (Tensor, nn.Parameter) and tensor.is_contiguous()


def _window(conv: nn.Conv2d) -> Window | None:
    """Return how a convolution moves; ``None`` if its padding differs between both sides."""
    axes = axes_of(conv)
    if any(axis.before != axis.after for axis in axes):
        return None
    first, second = axes
    return Window(
        (first.kernel, second.kernel),
        (first.stride, second.stride),
        (first.before, second.before),
        (first.dilation, second.dilation),
    )


def _has_responses(
    window: Window,
    source: Tensor,
    conv: nn.Conv2d,
    response: Tensor | None,
) -> bool:
    if source.shape[1] != conv.in_channels:
        return False
    size = window.size(*source.shape[2:])
    if min(size) < 1:
        return False
    return response is None or response.shape == (source.shape[0], conv.out_channels, *size)


def _forward(
    block: _Block,
    tensors: Sequence[Tensor | None],
    *,
    keeps: bool,
) -> tuple[Tensor, Tensor]:
    """Return the output and the responses."""
    source, weight, bias, *_, response = tensors
    assert source is not None and weight is not None  # noqa: S101
    z = response
    if z is None:
        z = torch.ops.aten.convolution(source, weight, bias, *block.options)
        z = z if is_laid_out(z) else z.contiguous()
    steps = block.steps
    _prepare(block, tensors)
    steps.begin(z)
    out = torch.empty_like(z) if keeps or response is not None else z
    if not block.takes_batch:
        if not steps.forward(Step.WHOLE, source, z, out):
            raise _OutOfRange
        return out, z
    if not steps.forward(Step.START, source, z, out):
        raise _OutOfRange
    _set_share(block)
    steps.statistics()
    steps.forward(Step.VALUES, source, z, out)
    return out, z


def _prepare(block: _Block, tensors: Sequence[Tensor | None]) -> None:
    """Tell the steps where the numbers of norm and unit are."""
    _, weight, _, gamma, beta, eta, term_weight, term_bias, _ = tensors
    assert weight is not None  # noqa: S101
    call, norm = block.steps.call, block.norm
    call.filter_length = weight.numel() // weight.shape[0]
    call.has_norm = norm is not None
    call.takes_batch = block.takes_batch
    named = {"weight": weight, "stored": block.unit.filter_norm, "gamma": gamma, "beta": beta}
    named |= {"eta": eta, "term_weight": term_weight, "term_bias": term_bias}
    if norm is not None:
        named |= {"running_mean": norm.running_mean, "running_var": norm.running_var}
        call.norm_eps = norm.eps
    for name, tensor in named.items():
        setattr(call, name, None if tensor is None else tensor.data_ptr())


def _set_share(block: _Block) -> None:
    """Set by how much the running statistics move, as the norm's own forward does."""
    norm = block.norm
    if norm is None or norm.running_mean is None or not norm.track_running_stats:
        return
    share = norm.momentum
    if norm.num_batches_tracked is not None:
        norm.num_batches_tracked.add_(1)
        if share is None:
            share = 1.0 / float(norm.num_batches_tracked)
    block.steps.call.share = 0.0 if share is None else share


class _IIEUBlock(torch.autograd.Function):
    """The block. Second derivatives are taken of the plain form."""

    @staticmethod
    def forward(ctx: Any, block: _Block, *tensors: Tensor | None) -> Tensor:
        out, z = _forward(block, tensors, keeps=True)
        ctx.block = block
        ctx.save_for_backward(*tensors[:-1], z)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (above,) = gradients
        block: _Block = ctx.block
        *tensors, z = ctx.saved_tensors
        tensors.append(None if block.convolves else z)
        wanted = ctx.needs_input_grad[1:]
        readable = is_readable(above) and above.dtype is torch.float32
        if torch.is_grad_enabled() or is_watched() or not readable:
            found = None
        else:
            found = _backward(block, tensors, z, above, wanted)
        if found is None:
            found = gradients_of(partial(_plain, block), above, tensors, wanted)
        return None, *found


def _backward(
    block: _Block,
    tensors: Sequence[Tensor | None],
    z: Tensor,
    above: Tensor,
    wanted: Sequence[bool],
) -> Sequence[Tensor | None] | None:
    """Return the gradients to the tensors of the block, by compiled steps.

    It is ``None`` if a sum is not finite: far out, the plain form stops some of the gradients.
    """
    source, weight, bias, *_ = tensors
    assert source is not None and weight is not None  # noqa: S101
    steps = block.steps
    _prepare(block, tensors)
    found = steps.slopes(z, laid_out_as(above, z))
    if found is None:
        return None
    to_z, results, positions = found
    ahead = _layer_gradients(block, (source, weight, bias), to_z, wanted)
    if wanted[0]:
        ahead[0] = laid_out_as(ahead[0], source)
        steps.lengths_back(source, positions, ahead[0])
    if wanted[1] and block.unit.filter_norm is None:
        ahead[1] = laid_out_as(ahead[1], weight)
        steps.filters_back(weight, results, ahead[1])
    chosen = zip(list(Result)[:5], wanted[3:8], strict=True)
    per_channel = [results[which] if is_wanted else None for which, is_wanted in chosen]
    return *ahead, *per_channel, None if block.convolves else to_z


def _layer_gradients(
    block: _Block,
    tensors: tuple[Tensor, Tensor, Tensor | None],
    to_z: Tensor,
    wanted: Sequence[bool],
) -> list[Any]:
    """Return the gradients through the convolution to its input, weight and bias."""
    source, weight, bias = tensors
    if not block.convolves:
        to_source = torch.zeros_like(source) if wanted[0] else None
        return [to_source, torch.zeros_like(weight) if wanted[1] else None, None]
    sizes = None if bias is None else list(bias.shape)
    needed = [wanted[0], wanted[1], wanted[2] and bias is not None]
    return list(
        torch.ops.aten.convolution_backward(to_z, source, weight, sizes, *block.options, needed)
    )


def _plain(block: _Block, tensors: Sequence[Tensor | None]) -> Tensor:
    """Return the output by torch's operations, without changing any statistics."""
    source, weight, bias, gamma, beta, eta, term_weight, term_bias, response = tensors
    assert source is not None and weight is not None and eta is not None  # noqa: S101
    unit = block.unit
    y = response
    if y is None:
        y = torch.ops.aten.convolution(source, weight, bias, *block.options)
    if block.norm is not None:
        if block.takes_batch:
            y = nn.functional.batch_norm(y, None, None, gamma, beta, True, 0.0, block.norm.eps)
        else:
            inverse = block.steps.inverse_deviation.to(y.dtype)
            y = (y - by_channel(block.steps.centre)) * by_channel(inverse)
            y = y if gamma is None else y * by_channel(gamma)
            y = y if beta is None else y + by_channel(beta)
    parameters = {"weight": term_weight, "bias": term_bias}
    shift = torch.func.functional_call(unit.shift, parameters, (y.mean((2, 3)),))  # pyright: ignore[reportArgumentType]
    filters = unit.filter_norm
    if filters is None:
        filters = filter_norm(weight, unit.eps)
    patch = patch_norm(source, block.conv, scope=unit.norm_scope, eps=unit.eps)
    return unit.weigh(y, patch, filters, shift, eta)


def by_channel(values: Tensor) -> Tensor:
    """Return one number per channel in a shape that broadcasts with maps."""
    return values[:, None, None]
