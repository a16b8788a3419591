"""What deep gated networks have in common, with dense layers or with convolutions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import skip_init

from gatewise.checks import check_choice, check_count, check_flag, check_number
from gatewise.errors import ArgumentError, unknown_name
from gatewise.layers import hard_gate, soft_gate
from gatewise.units import Device, DType, allocating, check_generator, check_input
from gatewise_papers.deep_gated.layers import Gate, RandomGate, Step, step_of_layer
from gatewise_papers.deep_gated.networks.copied_gates import copy_weights, gating_weights
from gatewise_papers.deep_gated.networks.initial_weights import INITIAL, draw, sigmas, weight_of

Layer = tuple[type[nn.Module], dict[str, Any]]  # a class and its options
Index = Tensor | None


@dataclass(frozen=True)
class GateKind:
    """The properties of a kind of gate.

    Attributes:
        set_by: ``"nothing"``, ``"example"``, ``"weights"`` (the network itself) or ``"gating"`` (a
            second network).
        soft: whether gates have values between 0 and 1.
        trains: what may be trained; the first is the default.
    """

    set_by: str
    soft: bool
    trains: tuple[str, ...]


GATES = {
    "linear": GateKind("nothing", False, ("weights",)),
    "random": GateKind("example", False, ("weights",)),
    "relu": GateKind("weights", False, ("both", "weights")),
    "galu": GateKind("gating", False, ("weights",)),
    "soft_relu": GateKind("weights", True, ("both", "weights")),
    "soft_galu": GateKind("gating", True, ("both", "weights", "gates")),
}


class DeepGated(nn.Module):
    """A strength network and its gates. Subclasses define the layers.

    Args:
        layers: class and options of each layer.
        units: the shape of the output of each gated layer, without the batch.
        gate: one of ``GATES``.
        beta: sharpness of a soft gate.
        eps: a soft gate reaches ``1 + eps``.
        mu: how likely a random gate is open.
        init: distribution of the initial weights.
        sigma: standard deviation of the initial weights; by default as in :func:`sigmas`.
        trains: ``"weights"``, ``"gates"`` or ``"both"``.
        examples: number of training examples, for random gates.
        gates_from: a network whose weights the gating network starts with.
        same_start: whether the gating network starts with the weights of the strength network.
        generator: draws weights and random gates.
        device: of the weights.
        dtype: of the weights.
    """

    def __init__(
        self,
        layers: Sequence[Layer],
        units: Sequence[tuple[int, ...]],
        *,
        gate: str,
        beta: float,
        eps: float,
        mu: float,
        init: str,
        sigma: float | None,
        trains: str | None,
        examples: int | None,
        gates_from: nn.Module | None,
        same_start: bool,
        generator: torch.Generator | None,
        device: Device,
        dtype: DType,
    ) -> None:
        super().__init__()
        self._set_options(gate, beta, eps, mu, init, trains)
        self._check_copies(gates_from, same_start)
        self.units = tuple(units)
        with allocating(self.network, device, dtype):
            self.weights = _stack(layers, device, dtype)
            self.gating = _stack(layers[:-1] if self.kind.set_by == "gating" else (), device, dtype)
        self.sigmas = sigmas(self.network, self.weights, sigma, self.mu)
        self.random = nn.ModuleList(self._random_gates(examples, generator, device))
        self._draw_weights(generator)
        if gates_from is not None:
            copy_weights(self.network, self.gating, gating_weights(self.network, gates_from))
        self.weights.requires_grad_(self.trains != "gates")
        self.gating.requires_grad_(self.trains != "weights")

    @property
    def network(self) -> str:
        """The name of this network in messages."""
        return type(self).__name__

    @property
    def depth(self) -> int:
        """The number of layers of weights of the strength network: d."""
        return len(self.weights)

    def _set_options(
        self,
        gate: str,
        beta: float,
        eps: float,
        mu: float,
        init: str,
        trains: str | None,
    ) -> None:
        if not isinstance(gate, str) or gate not in GATES:
            raise unknown_name("gate", gate, GATES)
        self.gate = gate
        self.kind = GATES[gate]
        self.beta = check_number(self.network, "beta", beta, above=0.0)
        self.eps = check_number(self.network, "eps", eps, above=-1.0)
        self.mu = 1.0
        if gate != "linear":
            self.mu = check_number(self.network, "mu", mu, above=0.0, most=1.0)
        self.init = check_choice(self.network, "init", init, tuple(INITIAL))
        self.trains = self._check_trains(trains)

    def _check_trains(self, trains: str | None) -> str:
        trains = self.kind.trains[0] if trains is None else trains
        check_choice(self.network, "trains", trains, ("weights", "gates", "both"))
        if trains not in self.kind.trains:
            why = "there is no gating network"
            if self.kind.set_by == "gating":
                why = "no gradient passes a hard gate"
            raise ArgumentError(
                f"{self.network}: the gates cannot be trained apart, because {why}",
                got=f"gate={self.gate!r}, trains={trains!r}",
                allowed=f"trains in {self.kind.trains}",
                fix="gate='soft_galu' has gates that can be trained",
            )
        return trains

    def _check_copies(self, gates_from: nn.Module | None, same_start: bool) -> None:
        self.same_start = check_flag(self.network, "same_start", same_start)
        self.copied = gates_from is not None
        if self.kind.set_by != "gating" and (self.copied or same_start):
            raise ArgumentError(
                f"{self.network}: there is no gating network that could start as another",
                got=f"gate={self.gate!r}",
                allowed="gate='galu' or 'soft_galu'",
            )
        if self.copied and same_start:
            raise ArgumentError(
                f"{self.network}: gates start either as another network's or as this network's",
                got="both gates_from and same_start",
                allowed="one of them",
            )

    def _random_gates(
        self,
        examples: int | None,
        generator: torch.Generator | None,
        device: Device,
    ) -> Iterator[RandomGate]:
        if (self.gate == "random") == (examples is None):
            raise ArgumentError(
                f"{self.network}: only random gates need the number of training examples",
                got=f"gate={self.gate!r}, examples={examples!r}",
                fix="pass examples=n with gate='random', and leave examples out otherwise",
            )
        if examples is not None:
            check_count(self.network, "examples", examples, least=1)
            for units in self.units:
                yield RandomGate(examples, units, mu=self.mu, generator=generator, device=device)

    def _draw_weights(self, generator: torch.Generator | None) -> None:
        check_generator(self.network, generator)
        draw(self.weights, self.init, self.sigmas, generator)
        if self.same_start:
            copy_weights(self.network, self.gating, [*map(weight_of, self.weights)])
        elif not self.copied:
            draw(self.gating, self.init, self.sigmas, generator)

    def reset_parameters(self, *, generator: torch.Generator | None = None) -> None:
        """Draw weights and random gates again. Gates that were copied from another network stay."""
        self._draw_weights(generator)
        for gate in self.random:
            if isinstance(gate, RandomGate):
                gate.reset_parameters(generator=generator)

    def strength_parameters(self) -> Iterator[nn.Parameter]:
        """Return the weights of the strength network, layer by layer, whether they train or not."""
        return self.weights.parameters()

    def gate_parameters(self) -> Iterator[nn.Parameter]:
        """Return the weights that set gates.

        They are those of the gating network, or all but the last where the network gates itself.
        """
        layers = self.weights[:-1] if self.kind.set_by == "weights" else self.gating
        return layers.parameters()

    def forward(
        self,
        x: Tensor,
        index: Index = None,
        *,
        gates: Sequence[Tensor] | None = None,
    ) -> Tensor:
        known = self._outside(x, index) if gates is None else self._check_gates(gates, x)
        return self._run(x, known)[1]

    def gates(self, x: Tensor, index: Index = None) -> list[Tensor]:
        """Return the gates of each hidden layer: (N, *units), in the dtype of ``x``."""
        outside = self._outside(x, index)
        if outside is not None:
            return outside
        responses = self._run(x, None)[0]
        return [torch.ones_like(q) if self.gate == "linear" else self._gate(q) for q in responses]

    def responses(self, x: Tensor, index: Index = None) -> list[Tensor]:
        """Return the response ``q`` of the strength network in each hidden layer: (N, *units)."""
        return self._run(x, self._outside(x, index))[0]

    def gate_responses(self, x: Tensor) -> list[Tensor]:
        """Return the responses that set the gates of each hidden layer: (N, *units).

        They are those of the gating network, or of the network itself.
        """
        if self.kind.set_by not in ("weights", "gating"):
            raise ArgumentError(
                f"{self.network}: no response sets these gates",
                got=f"gate={self.gate!r}",
                allowed="relu, galu, soft_relu, soft_galu",
            )
        if self.kind.set_by == "weights":
            return self._run(x, None)[0]
        return self._run_gating(x)

    def gate_slopes(self, x: Tensor) -> list[Tensor]:
        """Return the derivative of each gate by the response that sets it: (N, *units).

        It is 0 for a hard gate.
        """
        if not self.kind.soft:
            return [torch.zeros_like(gate) for gate in self.gates(x)]
        # The derivative of (1 + eps) sigmoid(beta q), in terms of its value.
        soft = [self._gate(q) for q in self.gate_responses(x)]
        return [self.beta * gate * (1 - gate / (1 + self.eps)) for gate in soft]

    def path_steps(self, x: Tensor, index: Index = None) -> tuple[Step, ...]:
        """Return the network at these inputs as linear maps and gates, for path analysis."""
        gates = self.gates(x, index)
        steps: list[Step] = []
        for i, layer in enumerate(self.weights):
            steps += [*self.steps_before(i), step_of_layer(layer)]
            if i < len(gates):
                steps.append(Gate(gates[i]))
        return tuple(steps)

    def steps_before(self, i: int) -> tuple[Step, ...]:
        """Return the steps between layer ``i - 1`` and layer ``i`` besides the gate."""
        return ()

    def enter(self, i: int, z: Tensor, chosen: Tensor | None = None) -> Tensor:
        """Return the input of layer ``i``, given the gated output ``z`` of the layer before.

        Args:
            i: the number of the layer.
            z: the gated output of the layer before.
            chosen: what the gating network chooses; see :meth:`choice`.
        """
        return z

    def choice(self, x: Tensor) -> Tensor | None:
        """Return the positions that the gating network chooses for a maximum, if there is one."""
        return None

    def batch_of(self, x: Tensor) -> tuple[int, ...]:
        """Return the dimensions of ``x`` that count inputs."""
        return tuple(x.shape[: -len(self.units[0])])

    def check_shape(self, x: Tensor) -> None:
        """Raise an error if ``x`` is not an input of this network."""
        raise NotImplementedError

    def _gate(self, q: Tensor) -> Tensor:
        if self.kind.soft:
            return soft_gate(q, self.beta, self.eps)
        return hard_gate(q)

    def _outside(self, x: Tensor, index: Index) -> list[Tensor] | None:
        """Return the gates that are known before the strength network runs.

        The result is ``None`` if the network has no gates or sets its own.
        """
        if self.gate == "random":
            gates = [gate(index).to(x.dtype) for gate in self.random]
            return self._check_gates(gates, x, shared=False)
        if index is not None:
            raise ArgumentError(
                f"{self.network}: only random gates depend on an example's index",
                got=f"index, with gate={self.gate!r}",
                fix="leave index out",
            )
        if self.kind.set_by != "gating":
            return None
        return [self._gate(q) for q in self._run_gating(x)]

    def _run_gating(self, x: Tensor) -> list[Tensor]:
        """Return the responses of the gating network, which is gated by its own gates."""
        z = self._check(x)
        responses: list[Tensor] = []
        for i, layer in enumerate(self.gating):
            q = layer(self.enter(i, z))
            responses.append(q)
            # The product of a response and its hard gate is a ReLU, which is faster.
            z = q * self._gate(q) if self.kind.soft else F.relu(q)
        return responses

    def _run(self, x: Tensor, gates: Sequence[Tensor] | None) -> tuple[list[Tensor], Tensor]:
        """Return the responses of the hidden layers and the output.

        The network uses its own gates if ``gates`` is ``None``.
        """
        z = self._check(x)
        chosen = self.choice(x)
        responses: list[Tensor] = []
        *hidden, last = self.weights
        for i, layer in enumerate(hidden):
            q = layer(self.enter(i, z, chosen))
            responses.append(q)
            z = self._self_gated(q) if gates is None else q * gates[i]
        return responses, last(self.enter(len(hidden), z, chosen))

    def _self_gated(self, q: Tensor) -> Tensor:
        """Return the response times the gate that it sets itself, if any."""
        if self.gate == "linear":
            return q
        if self.kind.soft:
            return q * self._gate(q)
        return F.relu(q)

    def _check(self, x: Tensor) -> Tensor:
        self.check_shape(check_input(self.network, x))
        weight = weight_of(self.weights[0])
        if x.dtype != weight.dtype or x.device != weight.device:
            raise ArgumentError(
                f"{self.network}: input and weights have different dtypes or devices",
                got=f"input {x.dtype} on {x.device}, weights {weight.dtype} on {weight.device}",
                fix=f"x.to({str(weight.device)!r}, {weight.dtype})",
            )
        return x

    def _check_gates(
        self,
        gates: Sequence[Tensor],
        x: Tensor,
        *,
        shared: bool = True,
    ) -> list[Tensor]:
        """Return ``gates``; raise an error unless one tensor fits each hidden layer.

        Args:
            gates: a row for each input, or one row for all if ``shared``.
            x: the inputs.
            shared: whether one row for all inputs is allowed.
        """
        many = isinstance(gates, Sequence | Tensor) and all(
            isinstance(gate, Tensor) for gate in gates
        )
        if not many or len(gates) != len(self.units):
            raise ArgumentError(
                f"{self.network}: there is one tensor of gates for each hidden layer",
                got=f"{len(gates)} tensors" if many else type(gates).__name__,
                allowed=f"a list of {len(self.units)} tensors",
            )
        batch = self.batch_of(self._check(x))
        for gate, units in zip(gates, self.units, strict=True):
            self._check_kind(gate, x)
            allowed = [(*batch, *units), (*(1 for _ in batch), *units)][: 1 + shared]
            if tuple(gate.shape) not in allowed:
                raise ArgumentError(
                    f"{self.network}: gates do not fit the inputs and the layer",
                    got=f"gates {tuple(gate.shape)} for inputs {tuple(x.shape)}",
                    allowed=allowed,
                )
        return list(gates)

    def _check_kind(self, gate: Tensor, x: Tensor) -> None:
        """Raise an error if a gate would change the dtype of the output or its device."""
        if torch.promote_types(gate.dtype, x.dtype) != x.dtype or gate.device != x.device:
            raise ArgumentError(
                f"{self.network}: gates and input have different dtypes or devices",
                got=f"gates {gate.dtype} on {gate.device}, input {x.dtype} on {x.device}",
                fix=f"gate.to({str(x.device)!r}, {x.dtype})",
            )

    def extra_repr(self) -> str:
        soft = f", beta={self.beta}, eps={self.eps}" if self.kind.soft else ""
        rest = f"depth={self.depth}, init={self.init!r}, trains={self.trains!r}"
        return f"gate={self.gate!r}{soft}, {rest}"


def _stack(layers: Sequence[Layer], device: Device, dtype: DType) -> nn.ModuleList:
    """Return layers with uninitialised weights, without drawing random numbers."""
    if device is None:
        device = torch.get_default_device()
    stack = nn.ModuleList()
    for kind, options in layers:
        stack.append(skip_init(kind, **options, device=device, dtype=dtype))
    return stack
