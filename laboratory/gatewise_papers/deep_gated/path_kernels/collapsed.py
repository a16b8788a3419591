"""Sums over the paths of a network without enumerating them: one channel represents all.

Note [One channel for all]. Take the sum, over all paths from an input node to the output, of the
product of the gates of two inputs. A layer that connects every channel to every channel adds the
same amount to each of its outputs. So one number per position describes the layer, and channels
only enter through the gates: ``tau(p) = sum_c g(c, p) g'(c, p)``. In a dense network there is one
position, and the sum is the product of the layers' ``<g, g'>``. A convolution becomes one channel
with a kernel of ones. With ``groups``, channels form blocks that stay separate until a layer
connects them. An average pool connects none, so it keeps as many blocks as the next layer
distinguishes.

The weights of a pool belong to the strength of a path, not to its activity: here a pool sums.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gatewise.errors import Limitation, NotApplicableError
from gatewise_papers.deep_gated.layers import (
    Convolve,
    Dense,
    Gate,
    GlobalAverage,
    Linear,
    Step,
    convolve,
)

Gates = tuple[Tensor, Tensor]  # those of both inputs: (a, C, *pos) and (b, C, *pos)


@dataclass(frozen=True)
class PathSums:
    """Sums over the paths up to a layer, for each of ``a * b`` pairs of inputs.

    Attributes:
        sums: what one channel of a block has, before the gate: (a, b, blocks, *pos).
        channels: how many channels the blocks represent.
        gates: factors by which the channels are still to be multiplied.
    """

    sums: Tensor
    channels: int
    gates: Gates | None = None

    @property
    def blocks(self) -> int:
        """How many blocks of equal channels there are."""
        return self.sums.shape[2]

    @property
    def positions(self) -> tuple[int, ...]:
        """The size of a feature map; empty after a dense layer."""
        return tuple(self.sums.shape[3:])


def initial_sums(a: int, b: int, blocks: int, x: Tensor) -> PathSums:
    """A sum of 1 at every input node.

    The sums are a leaf of the autograd graph, so that a gradient separates the input nodes.

    Args:
        a: the number of first inputs.
        b: the number of second inputs.
        blocks: how many blocks of input channels the network distinguishes.
        x: a batch of inputs, for its positions and device.
    """
    ones = torch.ones(a, b, blocks, *x.shape[2:], dtype=torch.float64, device=x.device)
    return PathSums(ones.requires_grad_(), blocks)


def propagate(
    state: PathSums,
    steps: Sequence[tuple[Step, Step]],
    after_layer: Callable[[PathSums], PathSums],
) -> Iterator[PathSums]:
    """Yield the sums after each step.

    Args:
        state: the sums at the input.
        steps: the steps of both inputs, side by side.
        after_layer: applied to the sums after each linear step.
    """
    for i, (step, step2) in enumerate(steps):
        if isinstance(step, Gate) and isinstance(step2, Gate):
            state = replace(state, gates=_multiply_gates(state, step.values, step2.values))
        elif isinstance(step, Linear):
            rest = [following for following, _ in steps[i + 1 :]]
            state = after_layer(_through(state, step, distinct_blocks(rest, state.channels)))
        yield state


def distinct_blocks(steps: Sequence[Step], channels: int) -> int:
    """How many blocks of ``channels`` channels the next steps treat differently."""
    for step in steps:
        if isinstance(step, Gate):
            return channels
        if isinstance(step, Dense):
            return 1
        if isinstance(step, Convolve):
            return step.groups
    return channels


def output_sums(state: PathSums) -> Tensor:
    """The sums at the single output: (a, b)."""
    gated_channels = state.gates is not None and state.channels > 1
    if state.blocks > 1 or gated_channels or math.prod(state.positions) > 1:
        raise NotApplicableError(
            Limitation.UNSUPPORTED_MODEL,
            "paths end at one output, and every output of the last layer must be reached alike",
            got=f"a network that ends with an output of shape {(state.channels, *state.positions)}",
            allowed="a linear layer at the end, without a gate; "
            "or one channel, averaged over all positions",
        )
    sums = state.sums if state.gates is None else sum_channels(state, 1)
    return sums.flatten(2).sum(2)


def sum_channels(state: PathSums, groups: int) -> Tensor:
    """The gated channels, summed within each of ``groups`` groups: (a, b, groups, *pos)."""
    parts = math.lcm(state.blocks, groups)
    sums = state.sums.repeat_interleave(parts // state.blocks, dim=2)
    if state.gates is None:
        gated = sums * (state.channels // parts)
    else:
        gated = sums * gate_products(*state.gates, parts)
    return gated.unflatten(2, (groups, parts // groups)).sum(3)


def gate_products(gates: Tensor, gates2: Tensor, parts: int) -> Tensor:
    """Products of the gates of both inputs, summed over the channels of each part.

    Shape: ``(a, C, *pos), (b, C, *pos) -> (a, b, parts, *pos)``.
    """
    left = gates.reshape(len(gates), parts, gates.shape[1] // parts, -1)
    right = gates2.reshape(len(gates2), parts, gates2.shape[1] // parts, -1)
    products = torch.einsum("agcp,bgcp->abgp", left, right)
    return products.reshape(*products.shape[:3], *gates.shape[2:])


def _multiply_gates(state: PathSums, gates: Tensor, gates2: Tensor) -> Gates:
    shape = (state.channels, *state.positions)
    left = gates.detach().double().reshape(len(gates), *shape)
    right = gates2.detach().double().reshape(len(gates2), *shape)
    if state.gates is None:
        return left, right
    return left * state.gates[0], right * state.gates[1]


def _through(state: PathSums, step: Linear, blocks: int) -> PathSums:
    """The sums after a linear step, which keeps ``blocks`` blocks if it is a pool."""
    if isinstance(step, Dense):
        sums = sum_channels(state, 1)
        return PathSums(sums.flatten(3).sum(3) if state.positions else sums, len(step.weight))
    if isinstance(step, Convolve):
        sums = sum_channels(state, step.groups)
        ones = sums.new_ones(step.groups, 1, *step.weight.shape[2:])
        out = convolve(sums.flatten(0, 1), ones, step, step.groups)
        return PathSums(out.unflatten(0, sums.shape[:2]), len(step.weight))
    sums = sum_channels(state, blocks)
    if isinstance(step, GlobalAverage):
        return PathSums(sums.flatten(3).sum(3), blocks)
    return PathSums(step.total(sums.flatten(0, 1)).unflatten(0, sums.shape[:2]), blocks)
