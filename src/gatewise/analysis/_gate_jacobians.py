"""How each gate of a dense network depends on each weight that sets gates."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.errors import ArgumentError


@dataclass(frozen=True)
class GateNetwork:
    """What sets the gates of a dense network, at a batch of n inputs, in float64."""

    weights: list[Tensor]  # layer by layer, (w_l, w_{l-1})
    inputs: list[Tensor]  # of each layer, (n, w_{l-1})
    gates: list[Tensor]  # (n, w_l)
    slopes: list[Tensor]  # of each gate by its response, (n, w_l)
    passes: list[Tensor]  # derivative of each layer's output by its response, (n, w_l)


def gate_network(name: str, model: nn.Module, x: Tensor) -> GateNetwork:
    """Read it off a deep gated network whose gates are set by responses of dense layers."""
    if not all(hasattr(model, each) for each in ("gate_parameters", "gate_responses", "gate_slopes", "gates")):
        what = f"{name}: the model does not say what sets its gates"
        raise ArgumentError(what, got=type(model).__name__, allowed="DeepGatedNetwork")
    twin: Any = copy.deepcopy(model).double()
    weights = [weight.detach() for weight in twin.gate_parameters()]
    if not weights or any(weight.dim() != 2 for weight in weights):
        what = f"{name}: gates that are set by the responses of dense layers are needed"
        raise ArgumentError(what, got=str(model).splitlines()[1].strip(), allowed="gate='soft_galu' or 'soft_relu'")
    with torch.no_grad():
        x = x.detach().double()
        responses, gates, slopes = twin.gate_responses(x), twin.gates(x), twin.gate_slopes(x)
    outputs = [q * g for q, g in zip(responses, gates, strict=True)]
    passes = [g + q * s for q, g, s in zip(responses, gates, slopes, strict=True)]
    return GateNetwork(weights, [x, *outputs[:-1]], gates, slopes, passes)


def gate_jacobians(network: GateNetwork, k: int) -> Iterator[Tensor]:
    """The derivatives of the gates of layers k, k + 1, ... by the responses of layer ``k``: (n, w_l, w_k) each.

    By the weight from input b to unit a of layer k they are column a times ``inputs[k][:, b]``.
    """
    chain = torch.diag_embed(torch.ones_like(network.gates[k]))  # responses by responses
    for layer in range(k, len(network.weights)):
        if layer > k:
            chain = network.weights[layer] @ (network.passes[layer - 1].unsqueeze(2) * chain)
        yield network.slopes[layer].unsqueeze(2) * chain
