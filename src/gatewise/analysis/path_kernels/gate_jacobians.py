"""How each gate of a deep gated network depends on each weight that sets gates."""

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.errors import ArgumentError, Limitation, NotApplicableError
from gatewise.layers import Convolve, Dense, Flatten, Gate, GlobalAverage, Step, path_steps

Layered = list[
    tuple[tuple[Step, ...], Dense | Convolve]
]  # layers of weights, each with what stands before it


@dataclass(frozen=True, eq=False)
class GateLayer:
    """A layer of what sets the gates of a network, at a batch of n inputs, in float64."""

    before: tuple[
        Step, ...
    ]  # what the gated output of the layer below passes first: nothing, or a head
    step: Dense | Convolve  # with the weights that set gates
    inputs: Tensor  # (n, *), behind ``before``
    gates: Tensor  # (n, *units)
    slopes: Tensor  # of each gate by its response, (n, *units)
    passes: Tensor  # derivative of the layer's output by its response, (n, *units)

    @property
    def directions(self) -> int:
        """In how many ways the responses can be moved: see :func:`moved_gates`."""
        return len(self.step.weight) if isinstance(self.step, Dense) else self.step.weight.numel()


def gate_layers(name: str, model: nn.Module, x: Tensor) -> list[GateLayer]:
    """Read them off a deep gated network whose gates are set by responses.

    ``x``: a batch of inputs (n, *).
    """
    wanted = ("gate_parameters", "gate_responses", "gate_slopes", "gates", "path_steps")
    if not all(hasattr(model, each) for each in wanted):
        what = f"{name}: the model does not say what sets its gates"
        raise ArgumentError(
            what, got=type(model).__name__, allowed="DeepGatedNetwork, DeepGatedConvNetwork"
        )
    twin: Any = copy.deepcopy(model).double()
    weights = [weight.detach() for weight in twin.gate_parameters()]
    if not weights:
        what = f"{name}: gates that are set by responses are needed"
        raise ArgumentError(
            what, got=str(model).splitlines()[1].strip(), allowed="gate='soft_galu' or 'soft_relu'"
        )
    with torch.no_grad():
        x = x.detach().double()
        layers = _layered(name, path_steps(twin, x))
        return list(
            _gate_layers(
                x, layers, weights, twin.gate_responses(x), twin.gates(x), twin.gate_slopes(x)
            )
        )


def _layered(name: str, steps: Sequence[Step]) -> Layered:
    layers: Layered = []
    before: list[Step] = []
    for step in steps:
        if isinstance(step, Dense) or (isinstance(step, Convolve) and step.groups == 1):
            layers.append((tuple(before), step))
            before = []
        elif isinstance(step, Flatten | GlobalAverage):
            before.append(step)
        elif not isinstance(step, Gate):
            what = f"{name}: a layer that does not join all channels is not covered"
            raise NotApplicableError(
                Limitation.UNSUPPORTED_OPERATOR,
                what,
                got=type(step).__name__,
                allowed="dense layers, convolutions of one group",
            )
    return layers


def _gate_layers(
    z: Tensor,
    layers: Layered,
    weights: list[Tensor],
    responses: list[Tensor],
    gates: list[Tensor],
    slopes: list[Tensor],
) -> Iterator[GateLayer]:
    own = zip(weights, responses, gates, slopes, strict=True)
    for (before, step), (weight, q, gate, slope) in zip(layers[:-1], own, strict=True):
        inputs = _through(before, z)
        yield GateLayer(before, replace(step, weight=weight), inputs, gate, slope, gate + q * slope)
        z = q * gate


def moved_gates(layers: Sequence[GateLayer], k: int, some: slice) -> Iterator[Tensor]:
    """How the gates of layers k, k + 1, ... move as the responses of layer ``k`` do, (n, R, *units) each.

    They are moved in ``some`` of the layer's directions. A convolution has one for each weight: what is moved is the
    weight. A dense layer has one for each unit, by whose response the derivative is; by the weight from input b to that
    unit it is ``inputs[:, b]`` times as large.
    """
    moved = _moved_responses(layers[k], some)
    for below, layer in zip([None, *layers[k:]], layers[k:], strict=False):
        if below is not None:
            flat = (below.passes.unsqueeze(1) * moved).flatten(0, 1)
            moved = layer.step.apply(_through(layer.before, flat)).unflatten(0, moved.shape[:2])
        yield layer.slopes.unsqueeze(1) * moved


def _moved_responses(layer: GateLayer, some: slice) -> Tensor:
    weight = layer.step.weight
    one_each = torch.eye(layer.directions, dtype=weight.dtype, device=weight.device)[some]
    if isinstance(layer.step, Dense):
        return one_each.expand(len(layer.inputs), *one_each.shape)
    alone = replace(
        layer.step, weight=one_each.reshape(-1, *weight.shape[1:])
    )  # one weight at a time
    return alone.apply(layer.inputs).unflatten(1, (len(one_each), len(weight)))


def _through(steps: Sequence[Step], z: Tensor) -> Tensor:
    for step in steps:
        z = step.apply(z)
    return z


def units_of(layers: Sequence[GateLayer]) -> int:
    """How many gates an input has."""
    return sum(math.prod(layer.gates.shape[1:]) for layer in layers)
