"""Which node of a layer is connected to which node of the next, and by which weight."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gatewise_papers.deep_gated.layers import (
    Average,
    Convolve,
    Dense,
    GlobalAverage,
    Linear,
    convolve,
)

NO_WEIGHT = -1  # the weight index of a connection in a pool


@dataclass(frozen=True)
class Connections:
    """The E connections of one linear step, ordered by source, then by target.

    Attributes:
        source: (E,) nodes, numbered as in the flattened layer.
        target: (E,) nodes of the next layer.
        weight: (E,) which entry of the flattened weight, or ``NO_WEIGHT``.
        strength: (E,) the value of that weight, in float64.
        shape: the shape of the next layer, without the batch.
    """

    source: Tensor
    target: Tensor
    weight: Tensor
    strength: Tensor
    shape: tuple[int, ...]


def connections(
    step: Linear,
    shape: Sequence[int],
    outputs: Sequence[int] | None = None,
) -> Connections:
    """The connections of ``step`` on inputs of ``shape``.

    Args:
        step: the linear step.
        shape: the shape of its input, without the batch.
        outputs: which outputs of a dense step to connect; all if None.
    """
    if isinstance(step, Dense):
        chosen = range(len(step.weight)) if outputs is None else outputs
        return _dense(step, math.prod(shape), list(chosen))
    if isinstance(step, Convolve):
        return _convolution(step, tuple(shape))
    window = step if isinstance(step, Average) else global_pool(shape[1:])
    return _pool(window, tuple(shape), drop_positions=isinstance(step, GlobalAverage))


def global_pool(positions: Sequence[int]) -> Average:
    """The average pool over all positions."""
    axes = len(positions)
    return Average(tuple(positions), (1,) * axes, ((0, 0),) * axes)


def tap_positions(
    step: Convolve | Average,
    positions: Sequence[int],
) -> tuple[Tensor, tuple[int, ...]]:
    """For each tap of the kernel and output position, the input position that the tap reads.

    Returns:
        The positions (K, P'), -1 in the padding, and the size of the output map.
    """
    kernel = step.kernel if isinstance(step, Average) else tuple(step.weight.shape[2:])
    count = math.prod(kernel)
    # A convolution of the position numbers with each unit kernel gives the positions. Numbers
    # start at 1, because padding gives 0.
    numbers = torch.arange(1, math.prod(positions) + 1, dtype=torch.float64)
    unit_kernels = torch.eye(count, dtype=torch.float64).reshape(count, 1, *kernel)
    read = convolve(numbers.reshape(1, 1, *positions), unit_kernels, step, 1)[0]
    return read.flatten(1).long() - 1, tuple(read.shape[1:])


def _dense(step: Dense, features: int, outputs: list[int]) -> Connections:
    source = torch.arange(features).repeat_interleave(len(outputs))
    target = torch.arange(len(outputs)).repeat(features)
    weight = torch.tensor(outputs)[target] * features + source
    return Connections(source, target, weight, _values(step.weight, weight), (len(outputs),))


def _convolution(step: Convolve, shape: tuple[int, ...]) -> Connections:
    read, out = tap_positions(step, shape[1:])
    channels, share = step.weight.shape[:2]
    tap, to = (read >= 0).nonzero(as_tuple=True)
    kernels = torch.arange(channels * share)
    c_out = kernels // share
    group = c_out // (channels // step.groups)
    c_in = group * share + kernels % share
    source = c_in[:, None] * math.prod(shape[1:]) + read[tap, to]
    target = c_out[:, None] * math.prod(out) + to
    weight = kernels[:, None] * len(read) + tap
    return _sorted(source, target, weight, _values(step.weight, weight), (channels, *out))


def _pool(step: Average, shape: tuple[int, ...], *, drop_positions: bool) -> Connections:
    read, out = tap_positions(step, shape[1:])
    tap, to = (read >= 0).nonzero(as_tuple=True)
    channel = torch.arange(shape[0])[:, None]
    source = channel * math.prod(shape[1:]) + read[tap, to]
    target = channel * math.prod(out) + to
    strength = torch.full(source.shape, 1 / len(read), dtype=torch.float64)
    weight = torch.full_like(source, NO_WEIGHT)
    next_shape = (shape[0],) if drop_positions else (shape[0], *out)
    return _sorted(source, target, weight, strength, next_shape)


def _values(weight: Tensor, which: Tensor) -> Tensor:
    return weight.detach().to("cpu", torch.float64).flatten()[which]


def _sorted(
    source: Tensor,
    target: Tensor,
    weight: Tensor,
    strength: Tensor,
    shape: tuple[int, ...],
) -> Connections:
    order = (source * (int(target.max()) + 1) + target).flatten().argsort(stable=True)
    columns = [tensor.flatten()[order] for tensor in (source, target, weight, strength)]
    return Connections(*columns, shape=shape)
