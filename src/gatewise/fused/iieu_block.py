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

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

from gatewise.fused.dispatch import record_form
from gatewise.fused.map_steps import (
    Factors,
    MapSteps,
    Window,
    add_scaled_rows,
    is_laid_out,
    laid_out_as,
    map_library,
    squares_of_rows,
)
from gatewise.fused.safe_calls import is_readable, is_watched
from gatewise.units import IIEUB, axes_of, filter_norm, iieu_b, patch_norm

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
        handle: the compiled library.
        steps: for the sizes of this call.
        conv: the convolution.
        norm: the batch norm, if any.
        unit: the unit.
        patch: inverse lengths of the patches.
        convolves: whether the convolution is part of the block; else the responses are given.
    """

    handle: ctypes.CDLL
    steps: MapSteps
    conv: nn.Conv2d
    norm: nn.BatchNorm2d | None
    unit: IIEUB
    patch: Tensor
    convolves: bool

    @property
    def options(self) -> tuple[Any, ...]:
        """Stride, padding, dilation and groups, as torch's convolution takes them."""
        window = self.steps.window
        ahead = (window.stride, window.padding, window.dilation, False, (0, 0))
        return (*ahead, self.conv.groups)

    @property
    def takes_batch(self) -> bool:
        """Whether the norm uses the statistics of the batch."""
        return self.norm is not None and self.norm.training


def run_block(
    conv: nn.Module,
    norm: nn.Module | None,
    unit: nn.Module,
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
    if is_watched() or torch.is_autocast_enabled("cpu") or _has_any_global_hook():
        return None
    if not (isinstance(conv, nn.Conv2d) and isinstance(unit, IIEUB)):
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
    steps = MapSteps(handle, source.shape, conv.out_channels, window, unit.eps)
    if norm is not None and norm.training and steps.samples * steps.positions < 2:
        return None
    patch, in_range = steps.lengths(source.detach())
    if not in_range:
        return None
    record_form("fused")
    gamma, beta = (None, None) if norm is None else (norm.weight, norm.bias)
    tensors = (source, conv.weight, conv.bias if convolves else None, gamma, beta)
    tensors += (unit.threshold(), unit.shift.weight, unit.shift.bias, response)
    block = _Block(handle, steps, conv, norm, unit, patch, convolves)
    if torch.is_grad_enabled() and any(each is not None and each.requires_grad for each in tensors):
        return _IIEUBlock.apply(block, *tensors)  # pyright: ignore[reportReturnType] (untyped)
    with torch.no_grad():
        return _forward(block, tensors, keeps=False)[0]


def _is_untouched(module: nn.Module) -> bool:
    """Return whether a call of a module runs nothing but the code of its class."""
    return "forward" not in vars(module) and not any(getattr(module, name) for name in _HOOKS)


def _fits(conv: nn.Conv2d, norm: nn.BatchNorm2d | None, unit: IIEUB) -> bool:
    if type(conv) is not nn.Conv2d or type(unit) is not IIEUB or unit.dim != 1:
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
    unit: IIEUB,
    source: Tensor,
    response: Tensor | None,
) -> bool:
    """Return whether all tensors are in the memory of the CPU as float32."""
    tensors: list[Tensor] = [source, conv.weight, *unit.parameters(), *unit.buffers()]
    tensors += [] if conv.bias is None else [conv.bias]
    tensors += [] if response is None else [response]
    if norm is not None:
        tensors += norm.parameters()
        tensors += [each for each in (norm.running_mean, norm.running_var) if each is not None]
    for tensor in tensors:
        if tensor.dtype is not torch.float32 or not is_readable(tensor):
            return False
    maps = [source, conv.weight] if response is None else [source, conv.weight, response]
    return all(each.dim() == 4 and each.numel() and is_laid_out(each) for each in maps)


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


@dataclass
class _Kept:
    """What the backward pass needs besides the saved tensors.

    Attributes:
        factors: of the values.
        inverse_std: of the norm, one per channel in float64; ``None`` without a norm.
        leaning: the sums of ``z - centre`` per sample and channel.
        roots: the lengths of the filters, float64; ``None`` if they are stored.
        means: of the normalised responses, the leaf of the graph of Term-B.
        shift: Term-B with its graph.
    """

    factors: Factors
    inverse_std: Tensor | None
    leaning: Tensor
    roots: Tensor | None
    means: Tensor
    shift: Tensor


def _forward(
    block: _Block,
    tensors: Sequence[Tensor | None],
    *,
    keeps: bool,
) -> tuple[Tensor, Tensor, _Kept]:
    """Return the output, the responses, and what the backward pass needs."""
    source, weight, bias, gamma, beta, eta, _, _, response = tensors
    assert source is not None and weight is not None and eta is not None  # noqa: S101
    if response is None:
        z = torch.ops.aten.convolution(source, weight, bias, *block.options)
        z = z if is_laid_out(z) else z.contiguous()
    else:
        z = response
    steps = block.steps
    sums, centre, inverse_std, scale, offset = _normalised(block, z, gamma, beta)
    means = (centre + sums / steps.positions) * scale + offset
    filters, roots = _filters(block, weight)
    means = means.float()
    if keeps:
        with torch.enable_grad():
            means.requires_grad_()
            shift = block.unit.shift(means)
    else:
        shift = block.unit.shift(means)
    factors = Factors(
        scale.float().contiguous(),
        offset.float().contiguous(),
        centre.float().contiguous(),
        filters,
        shift.detach().contiguous(),
        eta.detach().contiguous(),
    )
    out = torch.empty_like(z) if keeps or response is not None else z
    steps.values(z, block.patch, factors, out)
    return out, z, _Kept(factors, inverse_std, sums, roots, means, shift)


def _normalised(
    block: _Block,
    z: Tensor,
    gamma: Tensor | None,
    beta: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor, Tensor]:
    """Return the norm as a scale and an offset per channel, all in float64.

    Returns:
        The sums of ``z - centre`` per sample and channel, the centre, the inverse standard
        deviation, scale and offset.
    """
    steps, norm = block.steps, block.norm
    zeros = torch.zeros(steps.channels)
    if norm is None:
        sums = steps.means(z, zeros, squares=False)[:, 0]
        return sums, zeros.double(), None, torch.ones_like(zeros).double(), zeros.double()
    if norm.training:
        # Sums of squares lose no digits near some response of the channel.
        near = z[0, :, 0, 0].contiguous()
        first, second = steps.means(z, near, squares=True).unbind(1)
        count = steps.samples * steps.positions
        away = first.sum(0) / count
        variance = (second.sum(0) / count - away.square()).clamp_(min=0.0)
        centre = near.double() + away
        _update_statistics(norm, centre, variance, count)
    else:
        assert norm.running_mean is not None and norm.running_var is not None  # noqa: S101
        near, variance = norm.running_mean, norm.running_var.double()
        first = steps.means(z, near, squares=False)[:, 0]
        centre = near.double()
    # As float32, because that is what responses are compared with.
    rounded = centre.float().double()
    sums = first + steps.positions * (near.double() - rounded)
    inverse_std = torch.rsqrt(variance + norm.eps)
    scale = inverse_std if gamma is None else inverse_std * gamma.detach().double()
    offset = -centre * scale
    return sums, rounded, inverse_std, scale, offset if beta is None else offset + beta.detach()


def _update_statistics(norm: nn.BatchNorm2d, mean: Tensor, variance: Tensor, count: int) -> None:
    """Update the running statistics of a norm as its own forward does."""
    if norm.running_mean is None or norm.running_var is None or not norm.track_running_stats:
        return
    share = norm.momentum
    if norm.num_batches_tracked is not None:
        norm.num_batches_tracked.add_(1)
        if share is None:
            share = 1.0 / float(norm.num_batches_tracked)
    share = 0.0 if share is None else share
    with torch.no_grad():
        norm.running_mean.lerp_(mean.float(), share)
        norm.running_var.lerp_((variance * (count / (count - 1))).float(), share)


def _filters(block: _Block, weight: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return the inverse lengths of the filters, 0 without direction, and the lengths."""
    stored = block.unit.filter_norm
    if stored is not None:
        return torch.where(stored == 0, 0.0, 1.0 / stored).contiguous(), None
    total = squares_of_rows(block.handle, weight)
    eps = block.unit.eps
    known = (total > eps * eps) & (total <= torch.finfo(torch.float32).max * 2.0**-28)
    known |= total.isnan()
    roots = total.sqrt()
    return torch.where(known, 1.0 / (roots + eps), 0.0).float(), roots


class _IIEUBlock(torch.autograd.Function):
    """The block. Second derivatives are taken of the plain form."""

    @staticmethod
    def forward(ctx: Any, block: _Block, *tensors: Tensor | None) -> Tensor:
        out, z, kept = _forward(block, tensors, keeps=True)
        ctx.block = block
        ctx.kept = kept
        ctx.save_for_backward(*tensors[:-1], z)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (above,) = gradients
        block: _Block = ctx.block
        *tensors, z = ctx.saved_tensors
        if block.convolves:
            inputs = [*tensors, None]
        else:
            inputs = [*tensors, z]
        wanted = ctx.needs_input_grad[1:]
        readable = is_readable(above) and above.dtype is torch.float32
        if torch.is_grad_enabled() or is_watched() or not readable:
            return None, *_plain_gradients(block, ctx.kept, inputs, above, wanted)
        return None, *_backward(block, ctx.kept, inputs, z, above, wanted)


def _backward(
    block: _Block,
    kept: _Kept,
    tensors: Sequence[Tensor | None],
    z: Tensor,
    above: Tensor,
    wanted: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    """Return the gradients to the tensors of the block, by compiled steps."""
    source, weight, bias, gamma, beta, eta, *term, _ = tensors
    assert source is not None and weight is not None and eta is not None  # noqa: S101
    steps, factors = block.steps, kept.factors
    above = laid_out_as(above, z)
    to_z, sums, positions = steps.slopes(z, above, block.patch, factors)
    low, high, inner, total, moment = sums.unbind(1)
    threshold = factors.eta.double()
    through_mean, *to_term = _term_gradients(kept, term, threshold * low + high)
    # Of the normalised response: what comes through the mean is the same at all positions.
    constant = through_mean / steps.positions
    total = (total + through_mean).sum(0)
    moment = (moment + constant * kept.leaning).sum(0)
    scale = factors.scale.double()
    slope = torch.zeros_like(scale)
    if block.takes_batch and kept.inverse_std is not None:
        count = steps.samples * steps.positions
        slope = -scale * kept.inverse_std.square() * moment / count
        constant = constant - total / count
    shifted = (scale * constant).float().contiguous()
    steps.finish(z, to_z, factors, (shifted, slope.float()))
    to_gamma = moment * kept.inverse_std if kept.inverse_std is not None else None
    to_eta = ((1.0 - threshold) * low).sum(0)
    ahead = _layer_gradients(block, (source, weight, bias), to_z, wanted)
    if wanted[0]:
        ahead[0] = laid_out_as(ahead[0], source)
        steps.lengths_back(source, block.patch, positions, ahead[0])
    if wanted[1]:
        ahead[1] = _with_filter_lengths(block, kept, weight, inner.sum(0), ahead[1])
    return (
        *ahead,
        _as_float(to_gamma) if wanted[3] else None,
        _as_float(total) if wanted[4] else None,
        _as_float(to_eta) if wanted[5] else None,
        *(_as_float(each) for each in to_term),
        None if block.convolves else to_z,
    )


def _as_float(gradient: Tensor | None) -> Tensor | None:
    return None if gradient is None else gradient.float()


def _term_gradients(
    kept: _Kept,
    term: Sequence[Tensor | None],
    above: Tensor,
) -> list[Tensor]:
    """Return the gradients to the means in float64, and to weight and bias of Term-B."""
    leaves = [kept.means, *(each for each in term if each is not None and each.requires_grad)]
    with torch.enable_grad():
        found = iter(
            torch.autograd.grad(
                kept.shift, leaves, above.float(), retain_graph=True, allow_unused=True
            )
        )
    to_means = next(found)
    result: list[Any] = [torch.zeros_like(above) if to_means is None else to_means.double()]
    for each in term:
        result.append(next(found) if each is not None and each.requires_grad else None)
    return result


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


def _with_filter_lengths(
    block: _Block,
    kept: _Kept,
    weight: Tensor,
    inner: Tensor,
    gradient: Tensor,
) -> Tensor:
    """Return the gradient to the weight with what comes through the lengths of the filters."""
    if kept.roots is None:
        return gradient
    inverse = kept.factors.filters.double()
    factors = torch.where(inverse == 0, 0.0, -inner * inverse / kept.roots)
    gradient = laid_out_as(gradient, weight)
    add_scaled_rows(block.handle, weight, factors.float(), gradient)
    return gradient


def _plain(block: _Block, kept: _Kept, tensors: Sequence[Tensor | None]) -> Tensor:
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
            assert kept.inverse_std is not None  # noqa: S101
            inverse = kept.inverse_std.to(y.dtype)
            y = (y - by_channel(kept.factors.centre)) * by_channel(inverse)
            y = y if gamma is None else y * by_channel(gamma)
            y = y if beta is None else y + by_channel(beta)
    parameters = {"weight": term_weight, "bias": term_bias}
    shift = torch.func.functional_call(unit.shift, parameters, (y.mean((2, 3)),))  # pyright: ignore[reportArgumentType]
    filters = unit.filter_norm
    if filters is None:
        filters = filter_norm(weight, unit.eps)
    patch = patch_norm(source, block.conv, scope=unit.norm_scope, eps=unit.eps)
    return iieu_b(y, patch, filters, shift, eta)


def by_channel(values: Tensor) -> Tensor:
    """Return one number per channel in a shape that broadcasts with maps."""
    return values[:, None, None]


def _plain_gradients(
    block: _Block,
    kept: _Kept,
    tensors: Sequence[Tensor | None],
    above: Tensor,
    wanted: Sequence[bool],
) -> list[Tensor | None]:
    """Return the gradients of the plain form, which can be differentiated again."""
    again = torch.is_grad_enabled()
    given: list[Tensor | None] = []
    leaves: list[Tensor] = []
    with torch.enable_grad():
        for each, is_wanted in zip(tensors, wanted, strict=True):
            if each is not None and is_wanted:
                each = each.view_as(each) if again else each.detach().requires_grad_()
                leaves.append(each)
            given.append(each)
        y = _plain(block, kept, given)
        found = iter(
            torch.autograd.grad(y, leaves, above, create_graph=again, allow_unused=True)
        )
    return [next(found) if is_wanted else None for is_wanted in wanted]
