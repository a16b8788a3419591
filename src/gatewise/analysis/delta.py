"""How much the activities of paths move together when the gates are trained: definition 3.1."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gatewise.analysis._gate_jacobians import GateNetwork, gate_jacobians, gate_network
from gatewise.units._arithmetic import check_input

CHUNK = 2**24  # numbers at a time: 128 MiB in float64


def delta(model: nn.Module, x: Tensor, x2: Tensor | None = None) -> Tensor:
    r"""The kernel of gate adaptation between the inputs ``x`` (n, d_in) and ``x2`` (m, d_in), in float64: (n, m).

    .. math:: \delta(s, s') = \sum_{p \text{ from } i} \sum_m
        \frac{\partial A(x_s, p)}{\partial \theta^g_m} \frac{\partial A(x_{s'}, p)}{\partial \theta^g_m}

    An activity is a product of gates, one a layer, so its derivative is a sum over layers, and the sum over paths is
    one over pairs of layers: of the products of ``<G_s, G_s'>`` over the layers that are not in the pair, times what
    the gates of the pair have in common. No path is walked; it takes n w^2 numbers for width ``w``, and time
    d^2 n (w^3 + n w^2).

    With the weights on the paths drawn as in the paper, the tangent kernel of the gates is on average
    ``sigma^(2d) (x'x * delta)``. Hard gates have derivative 0, and so has delta.

    Args:
        model: a dense network whose gates are set by responses: ``DeepGatedNetwork`` with ``gate="soft_galu"``, for
            which the paper defines it, or ``"soft_relu"``.

    Lakshminarayanan and Singh, 2020, "Deep Gated Networks", arXiv:2002.03996.
    """
    mine = gate_network("delta", model, check_input("delta", x))
    theirs = mine if x2 is None else gate_network("delta", model, check_input("delta", x2))
    shared = [a @ b.T for a, b in zip(mine.gates, theirs.gates, strict=True)]
    result = torch.zeros_like(shared[0])
    for k in range(len(mine.weights)):
        result += (mine.inputs[k] @ theirs.inputs[k].T) * _by_layer(mine, theirs, shared, k)
    return result


def _by_layer(mine: GateNetwork, theirs: GateNetwork, shared: list[Tensor], k: int) -> Tensor:
    """The part of the weights of layer ``k``, before it is multiplied by their inputs: (n, m)."""
    left = list(gate_jacobians(mine, k))
    right = left if mine is theirs else list(gate_jacobians(theirs, k))
    layers = range(k, len(shared))
    size = len(theirs.gates[0]) * left[0].shape[2] * len(layers)
    rows = max(1, CHUNK // size)
    parts = []
    for i in range(0, len(mine.gates[0]), rows):
        some = slice(i, i + rows)
        parts.append(_block([each[some] for each in left], right, mine, theirs, shared, some))
    return torch.cat(parts)


def _block(
    left: list[Tensor], right: list[Tensor], mine: GateNetwork, theirs: GateNetwork, shared: list[Tensor], rows: slice
) -> Tensor:
    first = len(shared) - len(left)
    # what a unit of layer k does to the gates of a layer, seen by the other input's gates: (rows, m, w_k)
    seen = [torch.einsum("sia,ti->sta", each, theirs.gates[first + i]) for i, each in enumerate(left)]
    back = [torch.einsum("tia,si->sta", each, mine.gates[first + i][rows]) for i, each in enumerate(right)]
    total = torch.zeros_like(shared[0][rows])
    for i in range(len(left)):
        for j in range(len(left)):
            both = left[i].flatten(1) @ right[i].flatten(1).T if i == j else (seen[i] * back[j]).sum(2)
            total += both * _others(shared, rows, {first + i, first + j})
    return total


def _others(shared: Sequence[Tensor], rows: slice, without: set[int]) -> Tensor:
    rest = [each[rows] for layer, each in enumerate(shared) if layer not in without]
    return math.prod(rest, start=torch.ones_like(shared[0][rows]))
