"""Sums over all paths of products of two activities' derivatives, without enumerating the paths.

Note [Four sums]. As in ``collapsed.py``, one number per position is the sum over all paths so far,
for a pair of inputs, of the products of the gates of both. Here each gate also has derivatives, in
R directions. The result is the sum over directions of the products of both activities'
derivatives. By the product rule four sums are propagated: without a derivative, with a derivative
of the first activity or of the second (in each direction), and with both. The last needs no
direction of its own, because it is only summed further.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gatewise_papers.deep_gated.layers import Dense, convolve
from gatewise_papers.deep_gated.path_kernels.gate_jacobians import GateLayer


@dataclass(frozen=True, eq=False)
class GateMotion:
    """The gates of n inputs and their derivatives in R directions, positions in one axis.

    Attributes:
        gates: (n, C, P) for each layer.
        derivatives: (n, R, C, P) for each of the last layers; gates of the layers below are fixed.
    """

    gates: list[Tensor]
    derivatives: list[Tensor]

    @staticmethod
    def of(layers: Sequence[GateLayer], derivatives: Iterable[Tensor]) -> "GateMotion":
        """The gates of ``layers``, with derivatives (n, R, *units)."""
        gates = [layer.gates.reshape(*layer.gates.shape[:2], -1) for layer in layers]
        return GateMotion(gates, [d.reshape(*d.shape[:3], -1) for d in derivatives])

    def __len__(self) -> int:
        return len(self.gates[0])

    @property
    def directions(self) -> int:
        """The number of directions R."""
        return self.derivatives[0].shape[1]

    def rows(self, some: slice) -> "GateMotion":
        """Those of some inputs."""
        return GateMotion([g[some] for g in self.gates], [d[some] for d in self.derivatives])


def moving_paths(
    layers: Sequence[GateLayer],
    left: GateMotion,
    right: GateMotion,
    positions: Sequence[int],
) -> Tensor:
    """Sums over paths and directions of products of both activities' derivatives.

    The output is linear in the sums at the input nodes, so the paths from a node are the
    derivative by its sum.

    Args:
        layers: the layers that set gates.
        left: the gates of the first inputs.
        right: the gates of the second inputs.
        positions: the size of the input map; empty for vectors.

    Returns:
        One number for each pair and start of a path: (a, b, *positions).
    """
    start = torch.ones(
        (len(left), len(right), *positions),
        dtype=torch.float64,
        device=left.gates[0].device,
        requires_grad=bool(positions),
    )
    with torch.set_grad_enabled(bool(positions)):
        sums = _propagate(start, layers, left, right)
        if not positions:  # with one number for each pair, the output is its derivative
            return sums
        return torch.autograd.grad(sums.sum(), start)[0]


def _propagate(
    none: Tensor,
    layers: Sequence[GateLayer],
    left: GateMotion,
    right: GateMotion,
) -> Tensor:
    """The sum with both derivatives at the output: (a, b). See Note [Four sums]."""
    first = len(layers) - len(left.derivatives)
    for i, layer in enumerate(layers[:first]):
        none = _to_next_layer(none, layer, 2)
        none = none * _products("acp,bcp->abp", left.gates[i], right.gates[i], none)
    both = torch.zeros_like(none)
    one = other = both.unsqueeze(2)
    for i, layer in enumerate(layers[first:]):
        none = _to_next_layer(none, layer, 2)
        both = _to_next_layer(both, layer, 2)
        one = _to_next_layer(one, layer, 3)
        other = _to_next_layer(other, layer, 3)
        g, h = left.gates[first + i], right.gates[first + i]
        dg, dh = left.derivatives[i], right.derivatives[i]
        gates = _products("acp,bcp->abp", g, h, none)
        by_one = _products("arcp,bcp->abrp", dg, h, one)
        by_other = _products("acp,brcp->abrp", g, dh, one)
        by_both = _products("arcp,brcp->abp", dg, dh, none)
        both = both * gates + none * by_both + (one * by_other + other * by_one).sum(2)
        one = one * gates.unsqueeze(2) + none.unsqueeze(2) * by_one
        other = other * gates.unsqueeze(2) + none.unsqueeze(2) * by_other
        none = none * gates
    if both.dim() > 2:
        return both.flatten(2).sum(2)
    return both


def _products(rule: str, left: Tensor, right: Tensor, sums: Tensor) -> Tensor:
    """Products summed over channels by ``rule``, positions in as many axes as ``sums`` has."""
    products = torch.einsum(rule, left, right)
    return products.reshape(*products.shape[:-1], *sums.shape[products.dim() - 1 :])


def _to_next_layer(sums: Tensor, layer: GateLayer, lead: int) -> Tensor:
    """The sums at each position of the layer, from the positions that it reads.

    ``lead`` is the number of axes before the positions.
    """
    positions = sums.shape[lead:]
    if isinstance(layer.step, Dense):
        if positions:
            return sums.flatten(lead).sum(lead)
        return sums
    ones = sums.new_ones(1, 1, *layer.step.weight.shape[2:])
    out = convolve(sums.reshape(-1, 1, *positions), ones, layer.step, 1)
    return out.reshape(*sums.shape[:lead], *out.shape[2:])
