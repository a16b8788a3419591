"""Every call of a unit in a graph, with the operators it is made of."""

from dataclasses import dataclass

from torch import nn

from gatewise.analysis.gating import scope_name, unit_calls
from gatewise.graph import COMPOSITE, LEAVES, Node, Reading, Scope


@dataclass(frozen=True, eq=False)
class SiteCall:
    """One call: of a module, or of a function somewhere in a module's forward."""

    name: str
    unit: str
    scope: Scope | None  # of the module that is the unit; None for a functional call
    nodes: tuple[Node, ...]


def site_calls(reading: Reading, model: nn.Module) -> list[SiteCall]:
    """In the order of the calls."""
    calls = unit_calls(reading.graph, model)
    found = [
        SiteCall(
            scope_name(call.scope),
            call.unit,
            call.scope,
            tuple(sorted(call.members, key=lambda node: node.index)),
        )
        for call in calls
    ]
    inside = {node for call in calls for node in call.members}
    for name, each in reading.found.items():
        if each.output in inside:
            continue
        scope = (each.path, each.call) if each.kind != "functional" else None
        unit = type(model.get_submodule(each.path)).__name__ if each.op == COMPOSITE else each.op
        found.append(SiteCall(name, unit, scope, _members(reading, scope) or (each.output,)))
    return sorted(found, key=lambda call: call.nodes[-1].index)


def _members(reading: Reading, scope: Scope | None) -> tuple[Node, ...]:
    calls = (node for node in reading.graph if node.op not in LEAVES and node.op != "output")
    return () if scope is None else tuple(node for node in calls if node.scope == scope)
