"""How undecided the gates of a soft network are, over a window of a plane."""

import math

import torch
from torch import Tensor, nn

from gatewise.analysis.planes import Composites, Slice
from gatewise.analysis.regions.frozen_gates import SMOOTH, HeldRun
from gatewise.graph import Graph, Node

SOFT = SMOOTH | {"sigmoid", "hardsigmoid", "softmax", "_softmax"}


def is_soft(graph: Graph, model: nn.Module) -> bool:
    """Whether the network has gates between off and on, so that it has no regions."""
    composites = Composites(graph, model)
    whole = any(not unit.is_max_affine for unit in composites.calls.values())
    return whole or any(node.op in SOFT and node not in composites.inside for node in graph)


class _Mean:
    """The mean entropy of all gates of a run, for each row of the batch."""

    def __init__(self, rows: int) -> None:
        self.total, self.count = torch.zeros(rows, dtype=torch.float64), 0

    def __call__(self, node: Node, gate: Tensor) -> None:
        gate = gate.double()
        if node.op in ("softmax", "_softmax"):
            dim = node.arguments["dim"]
            entropy = torch.special.entr(gate).sum(dim) / math.log(max(2, gate.shape[dim]))
        else:
            on = ((gate + 1) / 2 if node.op == "tanh" else gate).clamp(0, 1)
            entropy = (torch.special.entr(on) + torch.special.entr(1 - on)) / math.log(2)
        entropy = entropy.reshape(len(self.total), -1)
        self.total += entropy.sum(1)
        self.count += entropy.shape[1]


def gate_entropy(
    graph: Graph, model: nn.Module, output: Node, slice: Slice, steps: int, dtype: torch.dtype
) -> Tensor:
    """Mean entropy of the gates, in units of the largest possible, on a grid (steps, steps) with rows of equal v.

    The graph was read with ``steps`` rows, and is run on one row of the grid after the other.
    """
    found = []
    for row in slice.grid(steps).split(steps):
        mean = _Mean(steps)
        with torch.no_grad():
            HeldRun("partition", graph, model, mean)(slice.inputs(row).to(dtype), output)
        found.append(mean.total / max(1, mean.count))
    return torch.stack(found)
