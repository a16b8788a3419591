"""Which channels of an activation are dead: the one definition for all parts.

Note [Dead]. A channel is dead if its output is the same for all inputs and positions, and the slope
of the activation function is zero there. Then nothing passes, neither forward nor backward. Both
are meant up to the rounding of float32. A channel whose gate is never on may still pass numbers,
as with leaky ReLU, ELU, GELU or tanh: it is always off and not dead. A channel that gets a constant
input may have a slope, so that it can learn: it is constant and not dead.

The slope is computed at the smallest and at the largest input of each channel.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from gatewise.graph.interpret import call_operator, leaf_value
from gatewise.graph.ops import LEAVES
from gatewise.graph.trace import Node

ROUNDING = torch.finfo(torch.float32).eps
Function = Callable[[Tensor], Tensor]


class ChannelRange:
    """The smallest and the largest value of each channel, over all values that were added.

    Args:
        dim: The dimension of the channels.
        rank: The number of dimensions.
    """

    def __init__(self, dim: int, rank: int) -> None:
        self.dim = dim % rank
        self.rank = rank
        self._ends: tuple[Tensor, Tensor] | None = None

    def add(self, values: Tensor, dim: int) -> None:
        """Add values with channels along ``dim``, which may have lost other dimensions."""
        if values.numel() == 0:
            return
        others = [axis for axis in range(values.dim()) if axis != dim % values.dim()]
        low = values.amin(others) if others else values.clone()
        high = values.amax(others) if others else values.clone()
        if self._ends is not None:
            low = torch.minimum(low, self._ends[0])
            high = torch.maximum(high, self._ends[1])
        self._ends = low, high

    def ends(self) -> list[Tensor]:
        """Return the smallest and the largest values, as tensors with channels along ``dim``."""
        assert self._ends is not None  # noqa: S101  values were added
        shape = [-1 if axis == self.dim else 1 for axis in range(self.rank)]
        return [end.reshape(shape) for end in self._ends]

    def zero(self) -> Tensor:
        """Return which channels are zero, up to the rounding of the largest value."""
        low, high = (end.flatten().double() for end in self.ends())
        sizes = torch.maximum(low.abs(), high.abs())
        return sizes <= ROUNDING * sizes.max()

    def constant(self) -> Tensor:
        """Return which channels have one value only, up to the rounding of the largest value."""
        low, high = (end.double().flatten() for end in self.ends())
        return high - low <= ROUNDING * torch.maximum(low.abs(), high.abs()).max()


def dead_channels(slope: Function | None, responses: ChannelRange, outputs: ChannelRange) -> Tensor:
    """Return which channels are dead, as truth values. See Note [Dead].

    Args:
        slope: The slope of the activation function at its input, for each channel of the output;
            ``None`` if it is never zero.
        responses: The inputs of the activation function.
        outputs: Its outputs.
    """
    dead = outputs.constant()
    if slope is None:
        return torch.zeros_like(dead)
    if bool(dead.any()):
        for end in responses.ends():
            size = slope(end).abs().double().movedim(outputs.dim, 0).flatten(1).amax(1)
            dead = dead & (size <= ROUNDING)
    return dead


def slope_of(function: Function, z: Tensor) -> Tensor:
    """Return the derivative of an elementwise function at each number of ``z``."""
    with torch.inference_mode(False), torch.enable_grad():
        # The caller runs without gradients, and the function may work in place.
        leaf = z.detach().clone().requires_grad_()
        output = function(leaf.clone())
        if not output.requires_grad:  # as of a sign
            return torch.zeros_like(leaf)
        return torch.autograd.grad(output.sum(), leaf)[0]


class SiteFunction:
    """An activation in a graph as a function of its input alone.

    Args:
        entry: The node that goes in.
        output: The node that comes out.
        model: Holds the parameters.
    """

    def __init__(self, entry: Node, output: Node, model: nn.Module) -> None:
        self.entry = entry
        self.output = output
        self.model = model
        found = {output}
        waiting = [output]
        while waiting:
            for source in waiting.pop().inputs:
                if source is not entry and source not in found:
                    found.add(source)
                    waiting.append(source)
        self.nodes = sorted(found, key=lambda node: node.index)

    @property
    def known(self) -> bool:
        """Whether the output depends on nothing but the input and the parameters."""
        return all(node.op != "input" for node in self.nodes)

    def __call__(self, z: Tensor) -> Tensor:
        """Return the output for ``z``."""
        values = {self.entry: z}
        for node in self.nodes:
            leaf = node.op in LEAVES
            values[node] = leaf_value(node, self.model) if leaf else call_operator(node, values)
        return values[self.output]
