"""How each gate of a deep gated network depends on each weight that sets gates."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.errors import ArgumentError, Limitation, NotApplicableError
from gatewise.graph import copied
from gatewise_papers.deep_gated.layers import (
    Convolve,
    Dense,
    Flatten,
    Gate,
    GlobalAverage,
    Step,
    path_steps,
)

# Layers of weights, each with the steps without weights before it.
WeightLayers = list[tuple[tuple[Step, ...], Dense | Convolve]]
NEEDED_METHODS = ("gate_parameters", "gate_responses", "gate_slopes", "gates", "path_steps")


@dataclass(frozen=True, eq=False)
class GateLayer:
    """A layer of the part that sets the gates of a network, for n inputs, in float64.

    Attributes:
        before: steps that the gated output of the layer below passes first: none, or a head.
        step: the layer with the weights that set gates.
        inputs: (n, *), after ``before``.
        gates: (n, *units).
        slopes: the derivative of each gate by its response, (n, *units).
        output_slopes: the derivative of the layer's output by its response, (n, *units).
    """

    before: tuple[Step, ...]
    step: Dense | Convolve
    inputs: Tensor
    gates: Tensor
    slopes: Tensor
    output_slopes: Tensor

    @property
    def directions(self) -> int:
        """In how many directions the responses can move: see :func:`gate_derivatives`."""
        if isinstance(self.step, Dense):
            return len(self.step.weight)
        return self.step.weight.numel()


def gate_layers(name: str, model: nn.Module, x: Tensor) -> list[GateLayer]:
    """Read the layers of a deep gated network whose gates are set by responses.

    Args:
        name: the name of the caller, for messages.
        model: the network.
        x: a batch of inputs (n, *).
    """
    if not all(hasattr(model, method) for method in NEEDED_METHODS):
        raise ArgumentError(
            f"{name}: the model does not say what sets its gates",
            got=type(model).__name__,
            allowed="DeepGatedNetwork, DeepGatedConvNetwork",
        )
    if getattr(model, "head", None) == "max":
        raise NotApplicableError(
            Limitation.UNSUPPORTED_OPERATOR,
            f"{name}: a maximum over positions moves with the gates, which is not covered",
            got="head='max'",
            allowed="head='average' or 'flatten'",
        )
    model64: Any = copied(model).double()
    weights = [weight.detach() for weight in model64.gate_parameters()]
    if not weights:
        raise ArgumentError(
            f"{name}: gates that are set by responses are needed",
            got=str(model).splitlines()[1].strip(),
            allowed="gate='soft_galu' or 'soft_relu'",
        )
    layers = []
    with torch.no_grad():
        z = x.detach().double()
        weight_layers = _weight_layers(name, path_steps(model64, z))
        of_gates = zip(
            weight_layers[:-1],
            weights,
            model64.gate_responses(z),
            model64.gates(z),
            model64.gate_slopes(z),
            strict=True,
        )
        for (before, step), weight, response, gate, slope in of_gates:
            layers.append(
                GateLayer(
                    before,
                    replace(step, weight=weight),
                    inputs=_apply(before, z),
                    gates=gate,
                    slopes=slope,
                    output_slopes=gate + response * slope,
                )
            )
            z = response * gate
    return layers


def _weight_layers(name: str, steps: Sequence[Step]) -> WeightLayers:
    layers: WeightLayers = []
    before: list[Step] = []
    for step in steps:
        if isinstance(step, Dense) or (isinstance(step, Convolve) and step.groups == 1):
            layers.append((tuple(before), step))
            before = []
        elif isinstance(step, Flatten | GlobalAverage):
            before.append(step)
        elif not isinstance(step, Gate):
            raise NotApplicableError(
                Limitation.UNSUPPORTED_OPERATOR,
                f"{name}: a layer that does not join all channels is not covered",
                got=type(step).__name__,
                allowed="dense layers, convolutions of one group",
            )
    return layers


def gate_derivatives(layers: Sequence[GateLayer], k: int, some: slice) -> Iterator[Tensor]:
    """Yield the derivatives of the gates of layers k, k + 1, ... by the responses of layer ``k``.

    A convolution has one direction for each weight: the derivative is by that weight. A dense
    layer has one for each unit: the derivative is by the unit's response. The derivative by the
    weight from input b to that unit is ``inputs[:, b]`` times as large.

    Args:
        layers: all layers that set gates.
        k: the layer whose responses move.
        some: in which of its directions.

    Yields:
        (n, R, *units) for each layer.
    """
    moved = _response_derivatives(layers[k], some)
    below = None
    for layer in layers[k:]:
        if below is not None:
            outputs = (below.output_slopes.unsqueeze(1) * moved).flatten(0, 1)
            moved = layer.step.apply(_apply(layer.before, outputs)).unflatten(0, moved.shape[:2])
        yield layer.slopes.unsqueeze(1) * moved
        below = layer


def _response_derivatives(layer: GateLayer, some: slice) -> Tensor:
    weight = layer.step.weight
    directions = torch.eye(layer.directions, dtype=weight.dtype, device=weight.device)[some]
    if isinstance(layer.step, Dense):
        return directions.expand(len(layer.inputs), *directions.shape)
    one_weight_each = replace(layer.step, weight=directions.reshape(-1, *weight.shape[1:]))
    return one_weight_each.apply(layer.inputs).unflatten(1, (len(directions), len(weight)))


def _apply(steps: Sequence[Step], z: Tensor) -> Tensor:
    for step in steps:
        z = step.apply(z)
    return z
