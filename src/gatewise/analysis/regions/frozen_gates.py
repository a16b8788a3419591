"""Run a model's graph with its gates frozen, so that the rest is affine in the input.

Note [Frozen gates]. Each tensor of the graph has one of three dependences on the input. *Fixed*: it
does not depend on the input, or it is a gate, whose value is frozen. *Affine*: it is an affine
function of the input while gates are frozen. *Curved*: neither, such as an exponential or the
product of two affine tensors. Curved tensors are allowed on the way to a gate (attention scores
before their softmax). A curved tensor that multiplies an affine one is frozen as a gate. A curved
output is refused with the name of the operator.

Max-affine operators (ReLU, max-pooling, absolute value) need no freezing: torch's derivative is
that of the piece that the input is in. A smooth unit ``z T(z)`` is frozen as ``T``: the sigmoid of
SiLU, the normal distribution function of GELU; and any other with ``f(0) = 0`` as the secant
``f(z) / z``. Softplus is ``T z`` plus the entropy of ``T``. Sigmoid, softmax and comparisons are
gates themselves. A unit that is a module of several operators is run as one function.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.planes import Composite, Composites
from gatewise.errors import Limitation, NotApplicableError
from gatewise.graph import (
    LEAVES,
    PRODUCTS,
    Form,
    Graph,
    Interpreter,
    Kind,
    Node,
    call_operator,
    get_operator,
    leaf_value,
    operators_of,
)

FIXED = "fixed"
AFFINE = "affine"  # any other dependence is the name of the operator that made the tensor curved
Gate = Callable[[Node, Tensor], None]

SMOOTH = operators_of(Form.SMOOTH)
SOFT_GATES = operators_of(Kind.GATE, Kind.SOFTMAX)  # with values between 0 and 1
SOFT = SMOOTH | SOFT_GATES
DIVISIONS = PRODUCTS - {"mul", "multiply"}
NEAR_ZERO = 1e-30  # below it the secant f(z) / z is replaced by its limit, the slope at 0


def is_soft(graph: Graph, model: nn.Module) -> bool:
    """Whether the network has gates with values between off and on, and therefore no regions."""
    composites = Composites(graph, model)
    if any(not unit.is_max_affine for unit in composites.calls.values()):
        return True
    for node in graph:
        # A hard sigmoid has straight pieces, whose product with another tensor has not.
        straight = node.op == "hardsigmoid" and not any(user.op in PRODUCTS for user in node.users)
        if node.op in SOFT and node not in composites.inside and not straight:
            return True
    return False


class FrozenRun:
    """Runs of a graph with frozen gates. See Note [Frozen gates].

    Args:
        what: the name of the analysis, for messages.
        graph: the graph of the model in eval mode.
        model: the model.
        gate: receives the node and the value of every soft gate.
    """

    def __init__(self, what: str, graph: Graph, model: nn.Module, gate: Gate | None = None) -> None:
        self.what = what
        self.graph = graph
        self.model = model
        self.gate = gate
        self.composites = Composites(graph, model)

    def __call__(self, x: Tensor, output: Node) -> Tensor:
        """Return the value of ``output`` at ``x``, differentiable in ``x`` with gates constant."""
        dependences: dict[Node, str] = {}
        values: dict[Node, Any] = {}
        for node in self.graph:
            if node.op == "input":
                values[node] = x.clone()  # a call in place must not change the user's tensor
                dependences[node] = AFFINE
            elif node.op in LEAVES:
                leaf = leaf_value(node, self.model)
                values[node] = leaf.detach() if isinstance(leaf, nn.Parameter) else leaf
                dependences[node] = FIXED

        def call(node: Node, values: dict[Node, Any]) -> Any:
            value, dependences[node] = self._call(node, values, dependences)
            if node.inplace:
                dependences[node.inputs[0]] = dependences[node]
            return value

        interpreter = Interpreter(
            self.graph,
            self.model,
            call,
            skip=self.composites.inside,
            keep={output},
        )
        values = interpreter.run(values)
        self._check(dependences[output])
        return values[output]

    def _check(self, dependence: str) -> None:
        if dependence not in (FIXED, AFFINE):
            raise NotApplicableError(
                Limitation.UNSUPPORTED_OPERATOR,
                f"{self.what}: the output is not affine in the input, even with all gates frozen",
                got=f"the operator {dependence}",
                allowed="linear layers, normalisation in eval mode, pooling, max-affine units, "
                "and units with gates",
            )

    def _call(
        self,
        node: Node,
        values: Mapping[Node, Any],
        dependences: Mapping[Node, str],
    ) -> tuple[Any, str]:
        """Return the value of a call, and how it depends on the input."""
        unit = self.composites.calls.get(node)
        if unit is not None:
            return self._composite(node, unit, values, dependences)
        dependence = dependence_of(node, dependences)
        form = get_operator(node.op).form
        if form is Form.GATE or (node.op == "tanh" and is_factor(node)):
            return self._frozen(node, values), FIXED
        if form is Form.SMOOTH and dependence == AFFINE:
            return self._smooth(node, values), AFFINE
        curved = [source for source in node.inputs if dependences[source] not in (FIXED, AFFINE)]
        if curved and dependence == AFFINE:
            values = {**values, **{source: values[source].detach() for source in curved}}
        return call_operator(node, values), dependence

    def _composite(
        self,
        node: Node,
        unit: Composite,
        values: Mapping[Node, Any],
        dependences: Mapping[Node, str],
    ) -> tuple[Tensor, str]:
        z = values[unit.input]
        if dependences[unit.input] != AFFINE:
            return unit.module(z), dependences[unit.input]
        slope, offset = unit.held(z)
        if self.gate is not None:
            self.gate(node, slope)
        return slope * z + offset, AFFINE

    def _frozen(self, node: Node, values: Mapping[Node, Any]) -> Any:
        """Return the value of a gate without its derivative."""
        value = call_operator(node, values)
        if not isinstance(value, Tensor) or not value.is_floating_point():
            return value
        if self.gate is not None and (node.op in SOFT_GATES or node.op == "tanh"):
            self.gate(node, value.detach())
        return _written(node, values, value.detach())

    def _smooth(self, node: Node, values: Mapping[Node, Any]) -> Tensor:
        """Return a smooth unit as its frozen gate times its input."""
        z = values[node.inputs[0]]
        fixed_z = z.detach().clone()
        arguments = {
            name: value for name, value in node.arguments.items() if not isinstance(value, Node)
        }
        function = getattr(torch.ops.aten, node.op)  # not in place, even if the node is
        y = function(fixed_z, **arguments)
        slope = _slope(function, fixed_z, arguments)
        if node.op in ("softplus", "log_sigmoid"):
            result = slope * z + (y - slope * fixed_z)
        else:
            near = fixed_z.abs() < NEAR_ZERO
            slope = torch.where(near, slope, y / torch.where(near, 1, fixed_z))
            result = slope * z
        if self.gate is not None:
            self.gate(node, slope)
        return _written(node, values, result)


def dependence_of(node: Node, dependences: Mapping[Node, str]) -> str:
    """Return how a call depends on the input, before any gate is frozen."""
    live = [dependences[source] for source in node.inputs if dependences[source] != FIXED]
    curved = [dependence for dependence in live if dependence != AFFINE]
    form = get_operator(node.op).form
    if form is Form.MULTILINEAR and live.count(AFFINE) == 1 and not _is_square(node):
        divisor = node.tensor("other") if node.op in DIVISIONS else None
        if divisor is not None and dependences[divisor] == AFFINE:
            return node.op
        return AFFINE
    if not live:
        return FIXED
    if curved:
        return curved[0]
    if form in (Form.AFFINE, Form.PIECEWISE, Form.SMOOTH):
        return AFFINE
    return node.op


def is_factor(node: Node) -> bool:
    """Return whether a product reads ``node``, perhaps after a scale or a shift.

    Then the node is a gate and not a response.
    """
    for user in node.users:
        if user.op in PRODUCTS:
            for factor in user.inputs:
                if factor is not node and factor.op not in LEAVES:
                    return True
        if user.op in ("add", "sub", "mul", "div") and is_factor(user):
            return True
    return False


def _is_square(node: Node) -> bool:
    """Return whether one tensor stands in a product twice; ``inputs`` names it once."""
    tensors = [value for value in node.arguments.values() if isinstance(value, Node)]
    return len(tensors) != len(set(tensors))


def _slope(function: Callable[..., Tensor], z: Tensor, arguments: Mapping[str, Any]) -> Tensor:
    with torch.enable_grad():
        leaf = z.clone().requires_grad_()
        return torch.autograd.grad(function(leaf, **arguments).sum(), leaf)[0]


def _written(node: Node, values: Mapping[Node, Any], result: Tensor) -> Tensor:
    """Return ``result``, written into the tensor that a call in place changes.

    Views of that tensor then see it, too.
    """
    if node.inplace:
        return values[node.inputs[0]].copy_(result)
    return result
