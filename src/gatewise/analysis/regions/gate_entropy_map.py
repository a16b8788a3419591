"""The mean uncertainty (entropy) of the gates of a soft network, over a window of a plane."""

import math

import torch
from torch import Tensor, nn

from gatewise.analysis.planes import Slice
from gatewise.analysis.regions.frozen_gates import FrozenRun
from gatewise.graph import Graph, Node


class _MeanEntropy:
    """The mean entropy of all gates of a run, for each row of the batch."""

    def __init__(self, rows: int) -> None:
        self.total = torch.zeros(rows, dtype=torch.float64)
        self.count = 0

    def __call__(self, node: Node, gate: Tensor) -> None:
        """Add the gates of one node. An entropy of 1 is the largest possible."""
        gate = gate.double()
        if node.op in ("softmax", "_softmax"):
            dim = node.arguments["dim"]
            entropy = torch.special.entr(gate).sum(dim) / math.log(max(2, gate.shape[dim]))
        else:
            open_share = ((gate + 1) / 2 if node.op == "tanh" else gate).clamp(0, 1)
            entropy = torch.special.entr(open_share) + torch.special.entr(1 - open_share)
            entropy = entropy / math.log(2)
        entropy = entropy.reshape(len(self.total), -1)
        self.total += entropy.sum(1)
        self.count += entropy.shape[1]


def gate_entropy(
    graph: Graph,
    model: nn.Module,
    output: Node,
    slice: Slice,
    steps: int,
    dtype: torch.dtype,
) -> Tensor:
    """The mean entropy of the gates on a grid (steps, steps), relative to the largest possible.

    Rows of the grid have equal v. The graph is run on one row of the grid at a time.

    Args:
        graph: the model's graph, read with a batch of ``steps`` rows.
        model: the model.
        output: the node of the model's output.
        slice: the window of the plane.
        steps: points of the grid along each axis.
        dtype: the model's dtype.
    """
    rows = []
    for points in slice.grid(steps).split(steps):
        mean = _MeanEntropy(steps)
        with torch.no_grad():
            FrozenRun("partition", graph, model, mean)(slice.inputs(points).to(dtype), output)
        rows.append(mean.total / max(1, mean.count))
    return torch.stack(rows)
