"""Where a model has gates.

Its activation sites, and the calls of catalogued units, each with the rule to read them.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from gatewise.analysis.gating.rules import Function, Rule, context_rule, hard_rule, soft_rule
from gatewise.graph import COMPOSITE, LEAVES, Found, Graph, Node, Reading, Scope
from gatewise.units import registered_units


@dataclass(frozen=True, eq=False)
class GateSite:
    """One call of one unit."""

    name: str
    unit: str  # of the catalogue, or the operator's
    response: Node  # what the gate multiplies
    output: Node
    dim: int  # of the channels
    rule: Rule
    module: nn.Module | None


@dataclass(frozen=True, eq=False)
class UnitCall:
    """One call of a module of the catalogue, whatever operators it is made of."""

    scope: Scope
    unit: str
    module: nn.Module
    members: frozenset[Node]
    enter: tuple[Node, ...]  # tensors from outside, parameters left out
    leave: Node | None  # the tensor that is read outside, if it is one

    @property
    def response(self) -> Node | None:
        """The latest tensor that enters.

        Of a unit that looks at its layer's input too, that input is earlier.
        """
        live = [
            node for node in self.enter if node.floating and node.op not in ("buffer", "constant")
        ]
        return max(live, key=lambda node: node.index) if live else None


def unit_calls(graph: Graph, model: nn.Module) -> list[UnitCall]:
    """The calls of catalogued units, in order."""
    modules = dict(model.named_modules())
    known = {unit.module: name for name, unit in registered_units().items()}
    by_scope: dict[Scope, list[Node]] = defaultdict(list)
    for node in graph:
        if node.op in LEAVES or node.op == "output":
            continue
        inside = (
            scope for scope in node.scopes or (("", 0),) if type(modules.get(scope[0])) in known
        )
        if (scope := next(inside, None)) is not None:
            by_scope[scope].append(node)
    return [_call(scope, nodes, modules[scope[0]], known) for scope, nodes in by_scope.items()]


def gate_sites(reading: Reading, model: nn.Module) -> tuple[list[GateSite], list[str]]:
    """All gates in the order of the calls, and a sentence for each unit whose gates are not known."""
    found, left_out = [], []
    calls = unit_calls(reading.graph, model)
    inside = {node for call in calls for node in call.members}
    for call in calls:
        site = _of_call(call, reading)
        name = scope_name(call.scope)
        found.append(site) if site is not None else left_out.append(
            f"{name}: {call.unit} has regions, not one gate"
        )
    for name, each in reading.found.items():
        if each.output not in inside:
            found.append(_of_found(name, each, reading, model))
    return sorted(found, key=lambda site: site.output.index), left_out


def _call(scope: Scope, nodes: list[Node], module: nn.Module, known: dict[Any, str]) -> UnitCall:
    members = frozenset(nodes)
    enter = {
        each
        for node in nodes
        for each in node.inputs
        if each not in members and each.op != "parameter"
    }
    leave = [node for node in nodes if any(user not in members for user in node.users)]
    return UnitCall(
        scope,
        known[type(module)],
        module,
        members,
        tuple(enter),
        leave[0] if len(leave) == 1 else None,
    )


def _of_call(call: UnitCall, reading: Reading) -> GateSite | None:
    response, output = call.response, call.leave
    if response is None or output is None or call.unit == "maxout":
        return None
    dim = _channel_dim(reading, output, response)
    context = registered_units()[call.unit].family == "context"
    if context:
        rule = context_rule(call.unit, call.module)
    else:
        rule = hard_rule(call.unit, {}, dim) or soft_rule(call.unit, call.module, dim)
    return (
        None
        if rule is None
        else GateSite(scope_name(call.scope), call.unit, response, output, dim, rule, call.module)
    )


def _of_found(name: str, found: Found, reading: Reading, model: nn.Module) -> GateSite:
    dim = _channel_dim(reading, found.output, found.input)
    module = model.get_submodule(found.path) if found.kind != "functional" else None
    if found.op == COMPOSITE and module is not None:
        kind = type(module).__name__
        return GateSite(
            name, kind, found.input, found.output, dim, soft_rule(kind, module, dim), module
        )
    rule = hard_rule(found.op, found.output.arguments, dim)
    rule = rule or soft_rule(found.op, _operator(found.output, model), dim)
    return GateSite(name, found.op, found.input, found.output, dim, rule, module)


def _operator(node: Node, model: nn.Module) -> Function:
    """The call of ``node`` as a function of its first tensor, not in place."""
    others = {name: value for name, value in node.arguments.items() if not isinstance(value, Node)}
    weights = {
        name: model.get_parameter(value.name)
        for name, value in node.arguments.items()
        if isinstance(value, Node) and value.op == "parameter"
    }
    function = getattr(torch.ops.aten, node.op)
    return lambda z: function(z, **others, **weights)


def _channel_dim(reading: Reading, output: Node, response: Node) -> int:
    """As the layers around say; the second where none does."""
    found = reading.dims.get(output, reading.dims.get(response))
    return min(1, response.rank - 1) if found is None else found


def scope_name(scope: Scope) -> str:
    """What a call of a module is called."""
    return f"{scope[0] or '(model)'}{f'@{scope[1]}' if scope[1] else ''}"
