"""Which node of a layer is joined to which node of the next, and by which weight."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gatewise.layers import Average, Convolve, Dense, GlobalAverage, Linear, convolve

FIXED = -1  # the number of a weight that is not one: a pool's


@dataclass(frozen=True)
class Edges:
    """The joints of one linear step, ordered by where they come from, then by where they go."""

    source: Tensor  # (E,) nodes, numbered as the flattened layer is
    target: Tensor  # (E,)
    weight: Tensor  # (E,) which entry of the flattened weight, or FIXED
    strength: Tensor  # (E,) its value, in float64
    shape: tuple[int, ...]  # of the next layer, without the batch


def edges(step: Linear, shape: Sequence[int], outputs: Sequence[int] | None = None) -> Edges:
    """The joints of ``step`` on inputs of ``shape``.

    Of a dense one only those to ``outputs``, if told.
    """
    if isinstance(step, Dense):
        return _dense(
            step,
            math.prod(shape),
            list(range(len(step.weight))) if outputs is None else list(outputs),
        )
    if isinstance(step, Convolve):
        return _convolution(step, tuple(shape))
    window = step if isinstance(step, Average) else whole(shape[1:])
    return _pool(window, tuple(shape), gone=isinstance(step, GlobalAverage))


def whole(positions: Sequence[int]) -> Average:
    """The pool over all positions."""
    axes = len(positions)
    return Average(tuple(positions), (1,) * axes, ((0, 0),) * axes)


def taps(step: Convolve | Average, positions: Sequence[int]) -> tuple[Tensor, tuple[int, ...]]:
    """For each tap of the kernel and output position, the input position it sees, or -1 in the padding: (K, P')."""
    kernel = step.kernel if isinstance(step, Average) else tuple(step.weight.shape[2:])
    count = math.prod(kernel)
    numbers = torch.arange(1, math.prod(positions) + 1, dtype=torch.float64).reshape(
        1, 1, *positions
    )
    one_each = torch.eye(count, dtype=torch.float64).reshape(count, 1, *kernel)
    seen = convolve(numbers, one_each, step, 1)[0]
    return seen.flatten(1).long() - 1, tuple(seen.shape[1:])


def _dense(step: Dense, features: int, outputs: list[int]) -> Edges:
    source = torch.arange(features).repeat_interleave(len(outputs))
    target = torch.arange(len(outputs)).repeat(features)
    weight = torch.tensor(outputs)[target] * features + source
    return Edges(source, target, weight, _values(step.weight, weight), (len(outputs),))


def _convolution(step: Convolve, shape: tuple[int, ...]) -> Edges:
    seen, out = taps(step, shape[1:])
    channels, share = step.weight.shape[:2]
    tap, to = (seen >= 0).nonzero(as_tuple=True)
    at = seen[tap, to]
    each = torch.arange(channels * share)  # an output channel, and which of the inputs of its group
    c_out, nth = each // share, each % share
    c_in = c_out // (channels // step.groups) * share + nth
    source = c_in[:, None] * math.prod(shape[1:]) + at
    target = c_out[:, None] * math.prod(out) + to
    weight = each[:, None] * len(seen) + tap
    return _sorted(source, target, weight, _values(step.weight, weight), (channels, *out))


def _pool(step: Average, shape: tuple[int, ...], *, gone: bool) -> Edges:
    seen, out = taps(step, shape[1:])
    tap, to = (seen >= 0).nonzero(as_tuple=True)
    channel = torch.arange(shape[0])[:, None]
    source = channel * math.prod(shape[1:]) + seen[tap, to]
    target = channel * math.prod(out) + to
    strength = torch.full(source.shape, 1 / len(seen), dtype=torch.float64)
    return _sorted(
        source, target, torch.full_like(source, FIXED), strength, (shape[0], *(() if gone else out))
    )


def _values(weight: Tensor, which: Tensor) -> Tensor:
    return weight.detach().to("cpu", torch.float64).flatten()[which]


def _sorted(
    source: Tensor, target: Tensor, weight: Tensor, strength: Tensor, shape: tuple[int, ...]
) -> Edges:
    order = (source * (int(target.max()) + 1) + target).flatten().argsort(stable=True)
    source, target, weight, strength = (
        each.flatten()[order] for each in (source, target, weight, strength)
    )
    return Edges(source, target, weight, strength, shape)
