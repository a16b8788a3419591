"""What the activities of paths have in common when gates move, added up over all paths without walking them.

Note [Four masses]. As in ``_collapsed``, one number a position says what has flowed along all paths so far, for a pair
of inputs: the products of the gates of both. Here each gate has a derivative too, in R directions, and what is wanted
is the sum over directions of the product of both activities' derivatives. By the product rule four masses flow: that of
no derivative, those of one (of the one input's activity, or of the other's, in each direction), and that of both, which
needs no direction of its own, for nothing more happens to it than a sum.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gatewise.analysis.path_kernels.gate_jacobians import GateLayer
from gatewise.layers import Dense, convolve


@dataclass(frozen=True, eq=False)
class Moved:
    """The gates of a batch of inputs and how they move, positions in one axis.

    (n, C, P) and (n, R, C, P) a layer.
    """

    gates: list[Tensor]
    moves: list[Tensor]  # of the last layers: those below do not move

    @staticmethod
    def of(layers: Sequence[GateLayer], moves: Iterable[Tensor]) -> "Moved":
        """The gates of ``layers``, moving by ``moves`` (n, R, *units)."""
        gates = [layer.gates.reshape(*layer.gates.shape[:2], -1) for layer in layers]
        return Moved(gates, [each.reshape(*each.shape[:3], -1) for each in moves])

    def __len__(self) -> int:
        return len(self.gates[0])

    @property
    def directions(self) -> int:
        """How many there are: R."""
        return self.moves[0].shape[1]

    def rows(self, some: slice) -> "Moved":
        """Those of some inputs."""
        return Moved([each[some] for each in self.gates], [each[some] for each in self.moves])


def moving_paths(
    layers: Sequence[GateLayer], left: Moved, right: Moved, positions: Sequence[int]
) -> Tensor:
    """Sums over paths and directions of products of both activities' derivatives, by where a path starts: (a, b, *pos).

    The output is linear in what the input nodes hold, so the paths from a node are its derivative.
    """
    shape = (len(left), len(right), *positions)
    start = torch.ones(
        shape, dtype=torch.float64, device=left.gates[0].device, requires_grad=bool(positions)
    )
    with torch.set_grad_enabled(bool(positions)):
        found = _flow(start, layers, left, right)
        if not positions:  # then there is one number a pair, and what arrives is its derivative
            return found
        return torch.autograd.grad(found.sum(), start)[0]


def _flow(still: Tensor, layers: Sequence[GateLayer], left: Moved, right: Moved) -> Tensor:
    """What arrives at the output: (a, b). See Note [Four masses]."""
    first = len(layers) - len(left.moves)
    for i, layer in enumerate(layers[:first]):
        still = _spread(still, layer, 2)
        still = still * _common("acp,bcp->abp", left.gates[i], right.gates[i], still)
    both = torch.zeros_like(still)
    one, other = both.unsqueeze(2), both.unsqueeze(2)
    for i, layer in enumerate(layers[first:]):
        still, both = _spread(still, layer, 2), _spread(both, layer, 2)
        one, other = _spread(one, layer, 3), _spread(other, layer, 3)
        g, h, dg, dh = left.gates[first + i], right.gates[first + i], left.moves[i], right.moves[i]
        held = _common("acp,bcp->abp", g, h, still)
        mine, theirs = _common("arcp,bcp->abrp", dg, h, one), _common("acp,brcp->abrp", g, dh, one)
        both = (
            both * held
            + still * _common("arcp,brcp->abp", dg, dh, still)
            + (one * theirs + other * mine).sum(2)
        )
        one = one * held.unsqueeze(2) + still.unsqueeze(2) * mine
        other = other * held.unsqueeze(2) + still.unsqueeze(2) * theirs
        still = still * held
    return both.flatten(2).sum(2) if both.dim() > 2 else both


def _common(rule: str, left: Tensor, right: Tensor, mass: Tensor) -> Tensor:
    """Products added up over channels by ``rule``, positions in as many axes as ``mass`` has."""
    found = torch.einsum(rule, left, right)
    return found.reshape(*found.shape[:-1], *mass.shape[found.dim() - 1 :])


def _spread(mass: Tensor, layer: GateLayer, lead: int) -> Tensor:
    """What one unit of the layer holds, at each of its positions.

    The sum of the nodes that it sees.
    """
    positions = mass.shape[lead:]
    if isinstance(layer.step, Dense):
        return mass.flatten(lead).sum(lead) if positions else mass
    ones = mass.new_ones(1, 1, *layer.step.weight.shape[2:])
    seen = convolve(mass.reshape(-1, 1, *positions), ones, layer.step, 1)
    return seen.reshape(*mass.shape[:lead], *seen.shape[2:])
