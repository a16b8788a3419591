"""How much the activities of paths move together when the gates are trained: definition 3.1."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gatewise.units import check_input
from gatewise_papers.deep_gated.layers import Dense
from gatewise_papers.deep_gated.path_kernels.gate_jacobians import (
    GateLayer,
    gate_derivatives,
    gate_layers,
)
from gatewise_papers.deep_gated.path_kernels.moving_paths import GateMotion, moving_paths
from gatewise_papers.deep_gated.path_kernels.shared_paths import CHUNK, chunk_slices


def delta(model: nn.Module, x: Tensor, x2: Tensor | None = None) -> Tensor:
    r"""The kernel of gate adaptation between the inputs ``x`` (n, \*) and ``x2`` (m, \*).

    .. math:: \delta(s, s') = \sum_{p \text{ from } i} \sum_m
        \frac{\partial A(x_s, p)}{\partial \theta^g_m}
        \frac{\partial A(x_{s'}, p)}{\partial \theta^g_m}

    In a dense network it is the same from every input node i: (n, m). With convolutions it depends
    on where a path starts, as lambda of :func:`path_kernel` does: (n, m, \*input shape). It is
    computed in float64.

    An activity is a product of gates, one for each layer, so its derivative is a sum over layers.
    Sums over paths of products of two derivatives are computed layer by layer, as for lambda. No
    path is enumerated. Dense layers are perturbed unit by unit, convolutions weight by weight. The
    time is that of one pass for each input and direction, and of one propagation for each pair of
    inputs and direction. A propagation has one number for each position, whatever the number of
    channels.

    With the weights on the paths drawn as in the paper, the mean tangent kernel of the gates is
    ``sigma^(2d) (x'x * delta)``. With convolutions where no two paths share all their weights
    (``head="flatten"``), it is the sum over input nodes of ``x_i x'_i delta_i`` times the layers'
    ``sigma^2``. Hard gates have derivative 0, and so has delta.

    Args:
        model: a network whose gates are set by responses: ``DeepGatedNetwork`` or
            ``DeepGatedConvNetwork`` with ``gate="soft_galu"``, for which the paper defines it, or
            ``"soft_relu"``.
        x: the first inputs.
        x2: the second inputs; ``x`` itself if None.

    Lakshminarayanan and Singh, 2020, "Deep Gated Networks", arXiv:2002.03996, which defines it for
    dense networks.
    """
    layers = gate_layers("delta", model, check_input("delta", x))
    layers2 = layers if x2 is None else gate_layers("delta", model, check_input("delta", x2))
    first = layers[0].inputs  # of images that are flattened first: the features
    columns = len(layers2[0].inputs)
    shape = (len(first), columns, *first.shape[2:])
    result = torch.zeros(shape, dtype=torch.float64, device=first.device)
    units = sum(math.prod(layer.gates.shape[1:]) for layer in layers)
    at_a_time = max(1, CHUNK // ((len(first) + columns) * units))
    for k, layer in enumerate(layers):
        for some in chunk_slices(layer.directions, at_a_time):
            result += _part_of_directions(layers, layers2, k, some)
    if first.dim() == 2:
        return result
    return result.unsqueeze(2).repeat_interleave(first.shape[1], dim=2)


def _part_of_directions(
    layers: Sequence[GateLayer],
    layers2: Sequence[GateLayer],
    k: int,
    some: slice,
) -> Tensor:
    """The part of ``some`` directions of layer ``k``: (n, m, *pos)."""
    left = right = GateMotion.of(layers, gate_derivatives(layers, k, some))
    if layers is not layers2:
        right = GateMotion.of(layers2, gate_derivatives(layers2, k, some))
    scale = None
    if isinstance(layers[k].step, Dense):
        # A unit represents its weights. The derivative by a weight has the weight's input as a
        # factor, and all units have the same inputs.
        scale = layers[k].inputs @ layers2[k].inputs.T
    positions = sum(math.prod(layer.gates.shape[2:]) for layer in layers)
    at_a_time = max(1, CHUNK // (len(right) * left.directions * positions))
    parts = []
    for i in chunk_slices(len(left), at_a_time):
        part = moving_paths(layers, left.rows(i), right, layers[0].inputs.shape[2:])
        if scale is not None:
            part = part * scale[i].reshape(*part.shape[:2], *[1] * (part.dim() - 2))
        parts.append(part)
    return torch.cat(parts)
