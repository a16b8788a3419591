"""A network for one batch as a list of steps: linear maps, and gates that multiply. The path view is read off it.

A gated network is linear once its gates are known: inputs flow to outputs along paths, each with a strength (its
weights) and an activity (its gates). A network of ours gives its own steps (``path_steps``); a plain ``nn.Sequential``
of linear layers, convolutions, average pools and units that multiply by a slope is read here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gatewise.errors import ArgumentError
from gatewise.layers.response_gate import hard_gate, soft_gate
from gatewise.units._arithmetic import sigmoid
from gatewise.units.abs import Abs
from gatewise.units.leaky_relu import LeakyReLU
from gatewise.units.relu import ReLU
from gatewise.units.silu import SiLU
from gatewise.units.soft_relu import SoftReLU

Edges = tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class Dense:
    """A linear map of features. ``weight``: (out, in)."""

    weight: Tensor

    def apply(self, z: Tensor) -> Tensor:
        """The layer's response: (N, in) -> (N, out)."""
        return F.linear(z, self.weight)


@dataclass(frozen=True, eq=False)
class Convolve:
    """A convolution. ``weight``: (out, in / groups, *kernel); ``edges``: what is padded before and after, per axis."""

    weight: Tensor
    stride: tuple[int, ...]
    edges: Edges
    circular: bool = False
    dilation: tuple[int, ...] = (1,)
    groups: int = 1

    def apply(self, z: Tensor) -> Tensor:
        """The layer's response: (N, C, *) -> (N, C', *)."""
        return convolve(z, self.weight, self, self.groups)


@dataclass(frozen=True, eq=False)
class Average:
    """Average pooling of each channel over windows, the padding's zeros counted. Its weights are all 1 / window."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    edges: Edges

    circular = False

    @property
    def dilation(self) -> tuple[int, ...]:
        """Windows have no holes."""
        return (1,) * len(self.kernel)

    def apply(self, z: Tensor) -> Tensor:
        """The pooled map: (N, C, *) -> (N, C, *)."""
        return self.total(z) / torch.Size(self.kernel).numel()

    def total(self, z: Tensor) -> Tensor:
        """The sum over each window: (N, C, *) -> (N, C, *)."""
        ones = z.new_ones(z.shape[1], 1, *self.kernel)
        return convolve(z, ones, self, z.shape[1])


@dataclass(frozen=True)
class GlobalAverage:
    """The mean of each channel over all positions."""

    def apply(self, z: Tensor) -> Tensor:
        """The pooled channels: (N, C, *) -> (N, C)."""
        return z.flatten(2).mean(2)


@dataclass(frozen=True)
class Flatten:
    """Channels and positions become features."""

    def apply(self, z: Tensor) -> Tensor:
        """One row per example: (N, C, *) -> (N, F)."""
        return z.flatten(1)


@dataclass(frozen=True, eq=False)
class Gate:
    """Each unit is multiplied by its gate. ``values``: (N, *), shaped as what comes in."""

    values: Tensor

    def apply(self, z: Tensor) -> Tensor:
        """The gated response: (N, *) -> (N, *)."""
        return z * self.values


Linear = Dense | Convolve | Average | GlobalAverage
Step = Linear | Flatten | Gate


def convolve(z: Tensor, weight: Tensor, step: Convolve | Average, groups: int) -> Tensor:
    """``z`` convolved with ``weight`` along the windows of ``step``."""
    flat = [edge for before_after in reversed(step.edges) for edge in before_after]
    padded = F.pad(z, flat, mode="circular") if step.circular else F.pad(z, flat)
    function = F.conv1d if len(step.edges) == 1 else F.conv2d
    return function(padded, weight, None, step.stride, 0, step.dilation, groups)


def path_steps(model: nn.Module, x: Tensor, *, index: Tensor | None = None) -> tuple[Step, ...]:
    """``model`` for the batch ``x`` (N, *) as steps, its gates those of ``x``. ``index`` as in the model's forward."""
    own: Any = getattr(model, "path_steps", None)
    if callable(own):
        steps: Any = own(x) if index is None else own(x, index)
        return tuple(steps)
    if index is not None:
        what = "path_steps: only random gates are found by an example's index"
        raise ArgumentError(what, got=f"index for a {type(model).__name__}", fix="leave index out")
    return tuple(_steps_of(model, x))


def _steps_of(model: nn.Module, z: Tensor) -> Iterator[Step]:
    for module in _leaves(model):
        step = _step_of(module, z)
        yield step
        z = step.apply(z)


def step_of_layer(layer: nn.Module) -> Dense | Convolve:
    """A linear layer or convolution of torch's as a step; an error for a bias, from which no path starts."""
    if not isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d):
        raise _unreadable(layer)
    if layer.bias is not None:
        what = "path_steps: a path starts at an input, and a bias is none"
        raise ArgumentError(what, got=str(layer), allowed="layers without a bias", fix="bias=False")
    if isinstance(layer, nn.Linear):
        return Dense(layer.weight)
    return _step_of_convolution(layer)


def _step_of_convolution(layer: nn.Conv1d | nn.Conv2d) -> Convolve:
    if layer.padding_mode not in ("zeros", "circular"):
        what = "path_steps: this padding copies inputs, which the path view does not cover"
        raise ArgumentError(what, got=layer.padding_mode, allowed="'zeros', 'circular'")
    if layer.padding == "same":  # as torch: the odd one goes behind
        totals = [d * (k - 1) for d, k in zip(layer.dilation, layer.kernel_size, strict=True)]
        edges = tuple((total // 2, total - total // 2) for total in totals)
    else:
        width = (0,) * len(layer.kernel_size) if isinstance(layer.padding, str) else layer.padding
        edges = tuple((p, p) for p in width)
    circular = layer.padding_mode == "circular"
    return Convolve(layer.weight, layer.stride, edges, circular, layer.dilation, layer.groups)


def _leaves(model: nn.Module) -> Iterator[nn.Module]:
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
    if isinstance(module, nn.AdaptiveAvgPool1d | nn.AdaptiveAvgPool2d) and set(_pair(module.output_size)) == {1}:
        return Average(tuple(z.shape[2:]), (1,) * (z.dim() - 2), ((0, 0),) * (z.dim() - 2))
    slopes = _slopes(module, z)
    return step_of_layer(module) if slopes is None else Gate(slopes)


def _step_of_pool(module: nn.AvgPool1d | nn.AvgPool2d) -> Average:
    axes = 1 if isinstance(module, nn.AvgPool1d) else 2
    plain = not module.ceil_mode and module.count_include_pad and getattr(module, "divisor_override", None) is None
    if not plain:
        what = "path_steps: an average pool whose windows have different weights is not read"
        raise ArgumentError(what, got=str(module), fix="ceil_mode=False, count_include_pad=True, no divisor_override")
    kernel, stride, padding = (_pair(each, axes) for each in (module.kernel_size, module.stride, module.padding))
    return Average(kernel, stride, tuple((p, p) for p in padding))


def _pair(size: Any, axes: int = 2) -> tuple[int, ...]:
    sizes = tuple(size) if isinstance(size, Sequence) else (size,)
    return sizes * axes if len(sizes) == 1 else sizes


def _slopes(module: nn.Module, q: Tensor) -> Tensor | None:
    """What ``module`` multiplies each response in ``q`` by; None if it is no unit of that kind."""
    if isinstance(module, nn.ReLU | ReLU):
        return hard_gate(q)
    if isinstance(module, nn.LeakyReLU):
        return torch.where(q > 0, 1.0, torch.full_like(q, module.negative_slope))
    if isinstance(module, LeakyReLU):
        return torch.where(q > 0, 1.0, torch.full_like(q, module.slope))
    if isinstance(module, Abs):
        return torch.sign(q.detach())
    if isinstance(module, SoftReLU):
        return soft_gate(q, module.beta, module.eps)
    if isinstance(module, nn.SiLU | SiLU):
        return sigmoid(q)
    return None


def _unreadable(module: nn.Module) -> ArgumentError:
    return ArgumentError(
        "path_steps: the path view of this module is not known",
        got=type(module).__name__,
        allowed="nn.Sequential of Linear, Conv1d, Conv2d, average pools, Flatten, ReLU, LeakyReLU, SiLU, gw.nn.Abs, "
        "gw.nn.SoftReLU; or a module with a method path_steps(x)",
    )
