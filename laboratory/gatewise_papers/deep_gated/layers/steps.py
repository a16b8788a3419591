"""A network for one batch as a list of steps: linear maps, and gates that multiply.

A gated network is linear once its gates are known. Inputs flow to outputs along paths, each with a
strength (its weights) and an activity (its gates). A network of this library returns its own steps
(``path_steps``). A plain ``nn.Sequential`` of linear layers, convolutions, average pools and units
that multiply by a slope is read here.

Note [Unmodified modules only]. A module is read as its class only if it computes what that class
computes. A subclass with its own forward, or a hook, may compute anything. As a last check, the
output of the steps is compared with the model's output on every batch.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gatewise.errors import ArgumentError
from gatewise.layers import hard_gate, soft_gate
from gatewise.units import Abs, LeakyReLU, ReLU, SiLU, SoftReLU, axes_of, describe_shape

Edges = tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class Dense:
    """A linear map of features. ``weight``: (out, in)."""

    weight: Tensor  # (out, in)

    def apply(self, z: Tensor) -> Tensor:
        """Return the layer's response: (N, in) -> (N, out)."""
        return F.linear(z, self.weight)


@dataclass(frozen=True, eq=False)
class Convolve:
    """A convolution.

    ``weight`` is (out, in / groups, *kernel), ``edges`` the padding before and after, per axis.
    """

    weight: Tensor  # (out, in / groups, *kernel)
    stride: tuple[int, ...]
    edges: Edges
    circular: bool = False  # whether the padding wraps around; zeros otherwise
    dilation: tuple[int, ...] = (1,)
    groups: int = 1

    def apply(self, z: Tensor) -> Tensor:
        """Return the layer's response: (N, C, *) -> (N, C', *)."""
        return convolve(z, self.weight, self, self.groups)


@dataclass(frozen=True, eq=False)
class Average:
    """Average pooling of each channel over windows, with the padding's zeros counted.

    All its weights are 1 / window.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    edges: Edges

    circular = False

    @property
    def dilation(self) -> tuple[int, ...]:
        """1 in every dimension: windows have no gaps."""
        return (1,) * len(self.kernel)

    def apply(self, z: Tensor) -> Tensor:
        """Return the pooled map: (N, C, *) -> (N, C, *)."""
        return self.total(z) / torch.Size(self.kernel).numel()

    def total(self, z: Tensor) -> Tensor:
        """Return the sum over each window: (N, C, *) -> (N, C, *)."""
        ones = z.new_ones(z.shape[1], 1, *self.kernel)
        return convolve(z, ones, self, z.shape[1])


@dataclass(frozen=True)
class GlobalAverage:
    """The mean of each channel over all positions."""

    def apply(self, z: Tensor) -> Tensor:
        """Return the pooled channels: (N, C, *) -> (N, C)."""
        return z.flatten(2).mean(2)


@dataclass(frozen=True)
class Flatten:
    """Channels and positions become features."""

    def apply(self, z: Tensor) -> Tensor:
        """Return one row per example: (N, C, *) -> (N, F)."""
        return z.flatten(1)


@dataclass(frozen=True, eq=False)
class Gate:
    """A gate that multiplies each unit. ``values`` is (N, *), of the shape of the input."""

    values: Tensor  # (N, *)

    def apply(self, z: Tensor) -> Tensor:
        """Return the gated response: (N, *) -> (N, *)."""
        return z * self.values


Linear = Dense | Convolve | Average | GlobalAverage
Step = Linear | Flatten | Gate


def convolve(
    z: Tensor,
    weight: Tensor,
    step: Convolve | Average,
    groups: int,
) -> Tensor:
    """Return ``z`` convolved with ``weight`` along the windows of ``step``."""
    # F.pad takes the last axis first.
    flat = [edge for edges in reversed(step.edges) for edge in edges]
    padded = F.pad(z, flat, mode="circular") if step.circular else F.pad(z, flat)
    function = F.conv1d if len(step.edges) == 1 else F.conv2d
    return function(padded, weight, None, step.stride, 0, step.dilation, groups)


def path_steps(model: nn.Module, x: Tensor, *, index: Tensor | None = None) -> tuple[Step, ...]:
    """Return ``model`` for the batch ``x`` as steps, with the gates of ``x``.

    Args:
        model: a network of this library, or a plain ``nn.Sequential``.
        x: a batch of inputs, (N, *).
        index: the indices of training examples, as in the model's forward.

    Raises:
        ArgumentError: if the steps do not compute what the model computes. See Note [Unmodified
            modules only].
    """
    if x.dim() < 2 or x.numel() == 0:
        what = "path_steps: a batch of inputs is needed"
        raise ArgumentError(what, got=f"shape {tuple(x.shape)}", allowed="(N, *), not empty")
    steps = read_steps(model, x, index=index)
    with torch.no_grad():
        _check_same(model, steps, x.detach(), index)
    return steps


def read_steps(model: nn.Module, x: Tensor, *, index: Tensor | None = None) -> tuple[Step, ...]:
    """Return :func:`path_steps` without running the model to compare."""
    method: Any = getattr(model, "path_steps", None)
    if callable(method):
        _check_no_hooks(model)
        steps: Any = method(x) if index is None else method(x, index)
        return tuple(steps)
    if index is not None:
        what = "path_steps: only random gates need the index of an example"
        raise ArgumentError(what, got=f"index for a {type(model).__name__}", fix="leave index out")
    return tuple(_steps_of(model, x))


def _steps_of(model: nn.Module, z: Tensor) -> Iterator[Step]:
    for module in _leaves(model):
        step = _step_of(module, z)
        yield step
        z = _applied(step, z)


def _applied(step: Step, z: Tensor) -> Tensor:
    """Return the output of the step for ``z``, or raise an error if it does not fit."""
    got = f"{type(step).__name__} for {z.dtype} of shape {tuple(z.shape)}"
    if not _fits(step, z):
        what = "path_steps: a layer does not fit the batch that reaches it"
        raise ArgumentError(what, got=got, allowed=_WANTED[type(step)])
    try:
        return step.apply(z)
    except RuntimeError as error:
        what = "path_steps: a layer cannot take the batch that reaches it"
        raise ArgumentError(what, got=f"{got} ({str(error).splitlines()[0]})") from None


_WANTED = {
    Dense: "(N, F) with the F input features of the linear layer; nn.Flatten() makes them of maps",
    Convolve: "(N, C, L) or (N, C, H, W) with the C input channels of the convolution",
    Average: "(N, C, L) or (N, C, H, W)",
    GlobalAverage: "(N, C, *)",
    Gate: "gates of the same shape",
}


def _fits(step: Step, z: Tensor) -> bool:
    if isinstance(step, Dense):
        return z.dim() == 2 and z.shape[1] == step.weight.shape[1]
    if isinstance(step, Convolve):
        return z.dim() == 2 + len(step.edges) and z.shape[1] == step.weight.shape[1] * step.groups
    if isinstance(step, Average):
        return z.dim() == 2 + len(step.edges)
    if isinstance(step, GlobalAverage):
        return z.dim() > 2
    return not isinstance(step, Gate) or step.values.shape == z.shape


def _check_same(
    model: nn.Module,
    steps: Sequence[Step],
    x: Tensor,
    index: Tensor | None,
) -> None:
    """Raise an error if the steps do not compute what the model computes.

    See Note [Unmodified modules only].
    """
    z = x
    size = x.abs()
    last = 0
    for i, step in enumerate(steps):
        if isinstance(step, Dense | Convolve):
            last = i
    for i, step in enumerate(steps):
        if not isinstance(step, Step):
            raise ArgumentError("path_steps: the model returns steps of an unknown type", got=step)
        before = z
        z = _applied(step, z)
        if i >= last:
            size = _magnitude(step).apply(before.abs() if i == last else size)
    copy = x.clone()  # a module that works in place must not change the caller's tensor
    out = model(copy) if index is None else model(copy, index)
    if not isinstance(out, Tensor) or out.shape != z.shape:
        raise ArgumentError(
            "path_steps: the steps and the model do not compute the same",
            got=f"steps with shape {tuple(z.shape)}, model with {describe_shape(out)}",
            fix=_OWN_STEPS,
        )
    # Both sides round, and the layers in between pass the rounding on: half of the digits are
    # allowed for it. Where the summands of an output cancel, the rounding of the summands counts,
    # which are those of the last layer.
    allowed = math.sqrt(torch.finfo(out.dtype).eps) * size.flatten(1).amax(1)
    difference = (z - out).abs().flatten(1).amax(1)
    wrong = ~(difference <= allowed) & out.flatten(1).isfinite().all(1)
    if wrong.any():
        first = int(wrong.nonzero()[0])
        raise ArgumentError(
            "path_steps: the steps and the model do not compute the same",
            got=f"outputs that differ by {difference[first]:.3g} for input {first}",
            allowed=f"at most {allowed[first]:.3g}, for rounding",
            fix=_OWN_STEPS,
        )


_OWN_STEPS = "add a method path_steps(x) to the model that returns its steps"


def _magnitude(step: Step) -> Step:
    """Return the step with absolute values of weights and gates."""
    if isinstance(step, Dense | Convolve):
        return replace(step, weight=step.weight.abs())
    if isinstance(step, Gate):
        return Gate(step.values.abs())
    return step


def step_of_layer(layer: nn.Module) -> Dense | Convolve:
    """Return torch's linear layer or convolution as a step.

    Raises:
        ArgumentError: if the layer has a bias, from which no path starts.
    """
    if not isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d):
        raise _unreadable(layer)
    _check_plain(layer)
    if layer.bias is not None:
        what = "path_steps: a path starts at an input, so layers must not have a bias"
        raise ArgumentError(what, got=str(layer), allowed="layers without a bias", fix="bias=False")
    if isinstance(layer, nn.Linear):
        return Dense(layer.weight)
    return _step_of_convolution(layer)


def _step_of_convolution(layer: nn.Conv1d | nn.Conv2d) -> Convolve:
    if layer.padding_mode not in ("zeros", "circular"):
        what = "path_steps: the path view does not cover padding that copies inputs"
        raise ArgumentError(what, got=layer.padding_mode, allowed="'zeros', 'circular'")
    edges = tuple((axis.before, axis.after) for axis in axes_of(layer))
    circular = layer.padding_mode == "circular"
    return Convolve(layer.weight, layer.stride, edges, circular, layer.dilation, layer.groups)


def _check_plain(module: nn.Module) -> None:
    """Raise an error for a module that may compute something else than its class.

    See Note [Unmodified modules only].
    """
    known = next((kind for kind in _KNOWN if isinstance(module, kind)), None)
    if known is None:
        raise _unreadable(module)
    for name in ("forward", "__call__", "_conv_forward", "arguments"):
        inherited = getattr(type(module), name, None) is getattr(known, name, None)
        if name in vars(module) or not inherited:
            what = f"path_steps: a {known.__name__} with its own {name} cannot be read"
            raise ArgumentError(what, got=type(module).__name__, fix=_OWN_STEPS)
    _check_no_hooks(module)


def _check_no_hooks(module: nn.Module) -> None:
    hooks = len(module._forward_hooks) + len(module._forward_pre_hooks)
    if hooks:
        raise ArgumentError(
            "path_steps: a module with forward hooks may compute anything",
            got=f"{type(module).__name__} with {hooks} of them",
            fix="remove the hooks; a lazy layer has none once it has run",
        )


def _leaves(model: nn.Module) -> Iterator[nn.Module]:
    _check_plain(model)
    if not isinstance(model, nn.Sequential):
        if not isinstance(model, nn.Identity):
            yield model
        return
    for part in model:
        yield from _leaves(part)


def _step_of(module: nn.Module, z: Tensor) -> Step:
    if isinstance(module, nn.Flatten) and (module.start_dim, module.end_dim) == (1, -1):
        return Flatten()
    if isinstance(module, nn.AvgPool1d | nn.AvgPool2d):
        return _step_of_pool(module)
    if isinstance(module, nn.AdaptiveAvgPool1d | nn.AdaptiveAvgPool2d):
        if set(_pair(module.output_size)) == {1}:
            axes = z.dim() - 2
            return Average(tuple(z.shape[2:]), (1,) * axes, ((0, 0),) * axes)
    slopes = _slopes(module, z)
    return step_of_layer(module) if slopes is None else Gate(slopes)


def _step_of_pool(module: nn.AvgPool1d | nn.AvgPool2d) -> Average:
    axes = 1 if isinstance(module, nn.AvgPool1d) else 2
    has_divisor = getattr(module, "divisor_override", None) is not None
    if module.ceil_mode or not module.count_include_pad or has_divisor:
        what = "path_steps: all windows of an average pool must have the same weights"
        raise ArgumentError(
            what,
            got=str(module),
            fix="ceil_mode=False, count_include_pad=True, no divisor_override",
        )
    edges = tuple((p, p) for p in _pair(module.padding, axes))
    return Average(_pair(module.kernel_size, axes), _pair(module.stride, axes), edges)


def _pair(size: Any, axes: int = 2) -> tuple[int, ...]:
    sizes = tuple(size) if isinstance(size, Sequence) else (size,)
    return sizes * axes if len(sizes) == 1 else sizes


def _slopes(module: nn.Module, q: Tensor) -> Tensor | None:
    """Return what ``module`` multiplies each response in ``q`` by, or ``None`` if it does not."""
    if isinstance(module, nn.ReLU | ReLU):
        return hard_gate(q)
    # Torch's and our leaky ReLU call their slope by different names.
    if isinstance(module, nn.LeakyReLU):
        return torch.where(q > 0, 1.0, torch.full_like(q, module.negative_slope))
    if isinstance(module, LeakyReLU):
        return torch.where(q > 0, 1.0, torch.full_like(q, float(module.slope)))
    if isinstance(module, Abs):
        return torch.sign(q.detach())
    if isinstance(module, SoftReLU):
        return soft_gate(q, module.beta, module.eps)
    if isinstance(module, nn.SiLU | SiLU):
        return torch.sigmoid(q)
    return None


_KNOWN: tuple[type[nn.Module], ...] = (
    nn.Sequential,
    nn.Identity,
    nn.Flatten,
    nn.AvgPool1d,
    nn.AvgPool2d,
    nn.AdaptiveAvgPool1d,
    nn.AdaptiveAvgPool2d,
    nn.Linear,
    nn.Conv1d,
    nn.Conv2d,
    nn.ReLU,
    nn.LeakyReLU,
    nn.SiLU,
    ReLU,
    LeakyReLU,
    Abs,
    SoftReLU,
    SiLU,
)


def _unreadable(module: nn.Module) -> ArgumentError:
    return ArgumentError(
        "path_steps: the path view of this module is not known",
        got=type(module).__name__,
        allowed="nn.Sequential of Linear, Conv1d, Conv2d, average pools, Flatten, ReLU, LeakyReLU, "
        "SiLU, gw.nn.Abs, gw.nn.SoftReLU; or a module with a method path_steps(x)",
    )
