"""Where a model has gates: its activation sites and the calls of catalogued units."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.gating.rules import (
    NOT_DECLARED,
    Rule,
    context_rule,
    hard_rule,
    soft_rule,
    two_branch_rule,
)
from gatewise.graph import (
    COMPOSITE,
    GATES,
    GLUS,
    LEAVES,
    Graph,
    Kind,
    Node,
    Reading,
    Scope,
    SiteFunction,
    SiteNodes,
    get_operator,
    operator_of_module,
)
from gatewise.units import TwoBranchUnit, registered_units


@dataclass(frozen=True, eq=False)
class GateSite:
    """One call of one unit.

    Attributes:
        name: The name of the call.
        unit: The name of the unit in the catalogue, or of the operator.
        response: The tensor that the gate multiplies.
        output: The output of the unit.
        dim: The dimension of the channels.
        rule: How the gate is computed.
        module: The module of the unit. ``None`` for a functional call.
    """

    name: str
    unit: str
    response: Node
    output: Node
    dim: int
    rule: Rule
    module: nn.Module | None


@dataclass(frozen=True, eq=False)
class UnitCall:
    """One call of a module of the catalogue, whatever its operators are.

    Attributes:
        scope: Path of the module and number of the call.
        unit: The name of the unit.
        module: The module.
        members: The operators of the call.
        enter: Tensors from outside, without parameters.
        leave: The tensor that is read outside. ``None`` if there are several.
    """

    scope: Scope
    unit: str
    module: nn.Module
    members: frozenset[Node]
    enter: tuple[Node, ...]
    leave: Node | None

    @property
    def response(self) -> Node | None:
        """The latest tensor that enters.

        Some units also read the input of the layer before them, which is computed earlier.
        """
        nodes = [node for node in self.enter if node.floating]
        live = [node for node in nodes if node.op not in ("buffer", "constant")]
        return max(live, key=lambda node: node.index, default=None)


def unit_calls(graph: Graph, model: nn.Module) -> list[UnitCall]:
    """Return the calls of catalogued units, in order.

    Args:
        graph: The graph of the model.
        model: The model.
    """
    modules = dict(model.named_modules())
    names: dict[type[nn.Module], str] = {}
    for name, unit in registered_units().items():
        names[unit.module] = name
    by_scope: dict[Scope, list[Node]] = defaultdict(list)
    for node in graph:
        if node.op in LEAVES or node.op == "output":
            continue
        # The outermost module of the catalogue owns the operator.
        for scope in node.scopes or (("", 0),):
            if type(modules.get(scope[0])) in names:
                by_scope[scope].append(node)
                break
    calls = []
    for scope, nodes in by_scope.items():
        module = modules[scope[0]]
        calls.append(_unit_call(scope, names[type(module)], module, frozenset(nodes)))
    return calls


def gate_sites(reading: Reading, model: nn.Module) -> tuple[list[GateSite], list[str]]:
    """Return all gates in the order of the calls.

    Args:
        reading: The graph of the model and the sites in it.
        model: The model.

    Returns:
        The gates, and a sentence for each unit whose gates are not known.
    """
    sites: list[GateSite] = []
    outputs: list[GateSite] = []
    left_out: list[str] = []
    inside: set[Node] = set()
    for call in unit_calls(reading.graph, model):
        inside |= call.members
        site = _site_of_call(call, reading)
        if site is not None:
            sites.append(site)
        else:
            left_out.append(f"{scope_name(call.scope)}: {call.unit} has regions, not one gate")
    for name, found in reading.site_nodes.items():
        if found.output in inside:
            continue
        site = _site_of_operator(name, found, reading, model)
        is_output = site.unit in GATES and _is_returned(found.output)
        (outputs if is_output else sites).append(site)
    if not sites:  # the model is one unit, or a layer before one
        return sorted(outputs, key=lambda site: site.output.index), left_out
    for site in outputs:
        left_out.append(f"{site.name}: {site.unit} makes the output of the model: no hidden layer")
    return sorted(sites, key=lambda site: site.output.index), left_out


def _is_returned(node: Node) -> bool:
    """Return whether nothing reads a tensor but the model's caller."""
    return bool(node.users) and all(user.op == "output" for user in node.users)


def rule_of_module(module: nn.Module, dim: int) -> tuple[str, Rule] | None:
    """Return the unit and the rule of an activation module, known by its type alone.

    Args:
        module: any module.
        dim: the dimension of the channels.

    Returns:
        ``None`` for a module that is no activation of the catalogue or of torch.
    """
    for name, unit in registered_units().items():
        if unit.module is type(module):
            rule = None if name == "maxout" else _rule_of_unit(name, module, dim)
            return None if rule is None else (name, rule)
    operator = operator_of_module(type(module))
    if operator is None:
        return None
    if operator.kind is Kind.GLU:
        split = int(getattr(module, "dim", -1))
        gate_last = two_branch_rule(operator.name, split, "gate_last", torch.sigmoid, operator.on)
        return operator.name, gate_last
    options = {name: getattr(module, name) for name in operator.options if hasattr(module, name)}
    rule = hard_rule(operator.name, options, dim, module)
    return operator.name, rule or soft_rule(operator.name, module, dim, operator.on)


def scope_name(scope: Scope) -> str:
    """Return the name of a module's call: its path, and the number of a repeated call."""
    path, number = scope
    return f"{path or '(model)'}{f'@{number}' if number else ''}"


def _unit_call(
    scope: Scope,
    unit: str,
    module: nn.Module,
    members: frozenset[Node],
) -> UnitCall:
    enter: set[Node] = set()
    leave: list[Node] = []
    for node in members:
        outside = (source for source in node.inputs if source not in members)
        enter.update(source for source in outside if source.op != "parameter")
        if any(user not in members for user in node.users):
            leave.append(node)
    return UnitCall(
        scope,
        unit,
        module,
        members,
        tuple(enter),
        leave[0] if len(leave) == 1 else None,
    )


def _site_of_call(call: UnitCall, reading: Reading) -> GateSite | None:
    response = call.response
    output = call.leave
    # Maxout has no response that a gate would multiply, but regions.
    if response is None or output is None or call.unit == "maxout":
        return None
    dim = _channel_dim(reading, output, response)
    rule = _rule_of_unit(call.unit, call.module, dim)
    if rule is None:
        return None
    name = scope_name(call.scope)
    return GateSite(name, call.unit, response, output, dim, rule, call.module)


def _site_of_operator(
    name: str,
    found: SiteNodes,
    reading: Reading,
    model: nn.Module,
) -> GateSite:
    dim = _channel_dim(reading, found.output, found.input)
    module = model.get_submodule(found.path) if found.kind != "functional" else None
    if found.op == COMPOSITE and module is not None:
        unit = type(module).__name__
        rule = soft_rule(unit, module, dim, _composite_on(module))
    elif found.op in GLUS:
        unit = found.op
        split = int(found.output.arguments.get("dim", -1))
        rule = two_branch_rule(unit, split, "gate_last", torch.sigmoid, get_operator(unit).on)
    else:
        unit = found.op
        function = SiteFunction(found.input, found.output, model)
        known = function if function.known else None
        rule = hard_rule(unit, found.output.arguments, dim, known)
        on = get_operator(unit).on
        rule = rule or soft_rule(unit, OperatorCall(found.output, model).forward, dim, on)
    return GateSite(name, unit, found.input, found.output, dim, rule, module)


def _rule_of_unit(unit: str, module: nn.Module, dim: int) -> Rule | None:
    declared = registered_units()[unit]
    if isinstance(module, TwoBranchUnit):
        return _rule_of_two_branches(unit, module)
    if declared.family == "context":
        return context_rule(unit, module)
    return hard_rule(unit, {}, dim, module) or soft_rule(unit, module, dim, declared.on)


def _rule_of_two_branches(unit: str, module: TwoBranchUnit) -> Rule:
    function = registered_units()[unit].function

    def of_gate(gate: Tensor) -> Tensor:
        return function(gate, torch.ones_like(gate), **module.options)

    on = registered_units()[unit].on
    return two_branch_rule(unit, module.dim, module.layout, of_gate, on)


def _composite_on(module: nn.Module) -> str:
    """Return what a module of several operators declares on to be: one of torch may."""
    operator = operator_of_module(type(module))
    if operator is not None and operator.kind is Kind.COMPOSITE_FUNCTION:
        return operator.on
    return NOT_DECLARED


class OperatorCall(nn.Module):
    """A call of an operator in a graph as a function of its first tensor, never in place.

    Args:
        node: The call.
        model: Its parameters that the call reads, e.g. the slopes of a PReLU, are those of the
            function too.
    """

    def __init__(self, node: Node, model: nn.Module) -> None:
        super().__init__()
        # By name, because the overload in the graph may work in place.
        self.function = getattr(torch.ops.aten, node.op)
        self.options: dict[str, Any] = {}
        self.weights = nn.ParameterDict()
        for name, value in node.arguments.items():
            if not isinstance(value, Node):
                self.options[name] = value
            elif value.op == "parameter":
                self.weights[name] = model.get_parameter(value.name)

    def forward(self, x: Tensor) -> Tensor:
        """Return the result of the call for ``x``."""
        return self.function(x, **self.options, **dict(self.weights.items()))


def _channel_dim(reading: Reading, output: Node, response: Node) -> int:
    """Return the dimension that the layers around a unit use; the second if there are none."""
    dim = reading.dims.get(output, reading.dims.get(response))
    if dim is None:
        return min(1, response.rank - 1)
    return dim
