"""Sums over the paths of a network without walking them: one channel stands for all.

Note [One channel for all]. Take the sum, over all paths from an input node to the output, of the
product of the gates of two inputs. A layer that joins every channel to every channel adds the same
amount to each of its outputs, so one number per position says all there is to say about the layer,
and channels only enter through the gates: ``tau(p) = sum_c g(c, p) g'(c, p)``. In a dense network
there is one position, and the sum is the product of the layers' ``<g, g'>``. A convolution becomes
one channel with a kernel of ones. With ``groups``, channels form blocks that stay apart until a
layer joins them; an average pool joins none, so it keeps as many as the next layer tells apart.

Pooling weights belong to the strength of a path, not to its activity: here a pool adds up.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gatewise.errors import Limitation, NotApplicableError
from gatewise.layers import Convolve, Dense, Gate, GlobalAverage, Linear, Step, convolve

Gates = tuple[Tensor, Tensor]  # those of both inputs: (a, C, *pos) and (b, C, *pos)


@dataclass(frozen=True)
class State:
    """What has flowed so far, for each of ``a * b`` pairs of inputs."""

    mass: Tensor  # (a, b, blocks, *pos): what one channel of a block holds, before the gate
    channels: int  # how many the blocks stand for
    gates: Gates | None = None  # by which the channels are still to be multiplied

    @property
    def blocks(self) -> int:
        """How many blocks of equal channels there are."""
        return self.mass.shape[2]

    @property
    def positions(self) -> tuple[int, ...]:
        """The size of a map; empty once positions are gone."""
        return tuple(self.mass.shape[3:])


def start(a: int, b: int, blocks: int, x: Tensor) -> State:
    """Every input node of inputs like ``x`` holds 1.

    The mass is a leaf, so that a gradient tells the nodes apart.
    """
    ones = torch.ones(a, b, blocks, *x.shape[2:], dtype=torch.float64, device=x.device)
    return State(ones.requires_grad_(), blocks)


def flow(
    state: State, steps: Sequence[tuple[Step, Step]], after: Callable[[State], State]
) -> Iterator[State]:
    """The state behind each step, ``after`` being applied to it.

    ``steps``: those of both inputs, side by side.
    """
    for i, (mine, theirs) in enumerate(steps):
        if isinstance(mine, Gate) and isinstance(theirs, Gate):
            state = replace(state, gates=_times(state, mine.values, theirs.values))
        elif isinstance(mine, Linear):
            rest = [step for step, _ in steps[i + 1 :]]
            state = after(_through(state, mine, told_apart(rest, state.channels)))
        yield state


def told_apart(steps: Sequence[Step], channels: int) -> int:
    """How many blocks of channels the next steps treat differently."""
    for step in steps:
        if isinstance(step, Gate):
            return channels
        if isinstance(step, Dense):
            return 1
        if isinstance(step, Convolve):
            return step.groups
    return channels


def total(state: State) -> Tensor:
    """What arrives at the output: (a, b)."""
    if (
        state.blocks > 1
        or (state.gates is not None and state.channels > 1)
        or math.prod(state.positions) > 1
    ):
        raise NotApplicableError(
            Limitation.UNSUPPORTED_MODEL,
            "paths end at one output, and every output of the last layer must be reached alike",
            got=f"a network that ends with an output of shape {(state.channels, *state.positions)}",
            allowed="a linear layer at the end, without a gate; or one channel, averaged over all positions",
        )
    return (state.mass if state.gates is None else collect(state, 1)).flatten(2).sum(2)


def collect(state: State, groups: int) -> Tensor:
    """The gated channels, added up within each of ``groups``: (a, b, groups, *pos)."""
    parts = math.lcm(state.blocks, groups)
    mass = state.mass.repeat_interleave(parts // state.blocks, dim=2)
    held = (
        mass * (state.channels // parts)
        if state.gates is None
        else mass * overlap(*state.gates, parts)
    )
    return held.unflatten(2, (groups, parts // groups)).sum(3)


def overlap(mine: Tensor, theirs: Tensor, parts: int) -> Tensor:
    """The sum over the channels of each part of the products of both inputs' gates.

    (a, b, parts, *pos).
    """
    left, right = (
        each.reshape(len(each), parts, each.shape[1] // parts, -1) for each in (mine, theirs)
    )
    summed = torch.einsum("agcp,bgcp->abgp", left, right)
    return summed.reshape(*summed.shape[:3], *mine.shape[2:])


def _times(state: State, mine: Tensor, theirs: Tensor) -> Gates:
    shape = (state.channels, *state.positions)
    gates = tuple(
        each.detach().to(torch.float64).reshape(len(each), *shape) for each in (mine, theirs)
    )
    if state.gates is not None:
        gates = tuple(one * other for one, other in zip(gates, state.gates, strict=True))
    return gates[0], gates[1]


def _through(state: State, step: Linear, apart: int) -> State:
    if isinstance(step, Dense):
        held = collect(state, 1)
        return State(held.flatten(3).sum(3) if state.positions else held, len(step.weight))
    if isinstance(step, Convolve):
        held = collect(state, step.groups)
        ones = held.new_ones(step.groups, 1, *step.weight.shape[2:])
        out = convolve(held.flatten(0, 1), ones, step, step.groups)
        return State(out.unflatten(0, held.shape[:2]), len(step.weight))
    held = collect(state, apart)
    if isinstance(step, GlobalAverage):
        return State(held.flatten(3).sum(3), apart)
    return State(step.total(held.flatten(0, 1)).unflatten(0, held.shape[:2]), apart)
