"""How much the activities of paths move together when the gates are trained: definition 3.1."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gatewise.analysis.path_kernels.gate_jacobians import (
    GateLayer,
    gate_layers,
    moved_gates,
    units_of,
)
from gatewise.analysis.path_kernels.moving_paths import Moved, moving_paths
from gatewise.analysis.path_kernels.shared_paths import slices
from gatewise.layers import Dense
from gatewise.units import check_input

CHUNK = 2**24  # numbers at a time: 128 MiB in float64


def delta(model: nn.Module, x: Tensor, x2: Tensor | None = None) -> Tensor:
    r"""The kernel of gate adaptation between the inputs ``x`` (n, \*) and ``x2`` (m, \*), in float64.

    .. math:: \delta(s, s') = \sum_{p \text{ from } i} \sum_m
        \frac{\partial A(x_s, p)}{\partial \theta^g_m} \frac{\partial A(x_{s'}, p)}{\partial \theta^g_m}

    In a dense network it is the same from every input node i: (n, m). With convolutions it depends on where a path
    starts, as lambda of :func:`path_kernel` does: (n, m, \*input shape).

    An activity is a product of gates, one a layer, so its derivative is a sum over layers, and what the derivatives of
    two inputs have in common flows along the paths as lambda does, layer by layer. No path is walked. Dense layers are
    moved unit by unit, convolutions weight by weight: the time is that of one pass for each input and direction, and of
    one flow for each pair of inputs and direction. A flow has one number a position, whatever the number of channels.

    With the weights on the paths drawn as in the paper, the tangent kernel of the gates is on average
    ``sigma^(2d) (x'x * delta)``; with convolutions, where no two paths share all their weights (``head="flatten"``), it
    is the sum over input nodes of ``x_i x'_i delta_i`` times the layers' ``sigma^2``. Hard gates have derivative 0, and
    so has delta.

    Args:
        model: a network whose gates are set by responses: ``DeepGatedNetwork`` or ``DeepGatedConvNetwork`` with
            ``gate="soft_galu"``, for which the paper defines it, or ``"soft_relu"``.

    Lakshminarayanan and Singh, 2020, "Deep Gated Networks", arXiv:2002.03996, which defines it for dense networks.
    """
    mine = gate_layers("delta", model, check_input("delta", x))
    theirs = mine if x2 is None else gate_layers("delta", model, check_input("delta", x2))
    first, columns = (
        mine[0].inputs,
        len(theirs[0].inputs),
    )  # of images that are flattened first: features
    result = torch.zeros(
        len(first), columns, *first.shape[2:], dtype=torch.float64, device=first.device
    )
    at_a_time = max(1, CHUNK // ((len(first) + columns) * units_of(mine)))
    for k, layer in enumerate(mine):
        for some in slices(layer.directions, at_a_time):
            result += _by_directions(mine, theirs, k, some)
    return (
        result if first.dim() == 2 else result.unsqueeze(2).repeat_interleave(first.shape[1], dim=2)
    )


def _by_directions(
    mine: Sequence[GateLayer], theirs: Sequence[GateLayer], k: int, some: slice
) -> Tensor:
    """The part of ``some`` directions of layer ``k``: (n, m, *pos)."""
    left = Moved.of(mine, moved_gates(mine, k, some))
    right = left if mine is theirs else Moved.of(theirs, moved_gates(theirs, k, some))
    # a dense layer's units stand for their weights, whose inputs are the same for all of them
    scale = mine[k].inputs @ theirs[k].inputs.T if isinstance(mine[k].step, Dense) else None
    rows = max(1, CHUNK // (len(right) * left.directions * _positions(mine)))
    parts = []
    for i in slices(len(left), rows):
        part = moving_paths(mine, left.rows(i), right, mine[0].inputs.shape[2:])
        parts.append(
            part
            if scale is None
            else part * scale[i].reshape(*part.shape[:2], *[1] * (part.dim() - 2))
        )
    return torch.cat(parts)


def _positions(layers: Sequence[GateLayer]) -> int:
    """Numbers that a pair of inputs and a direction take in all layers."""
    return sum(math.prod(layer.gates.shape[2:]) for layer in layers)
