"""Every call of a unit in a graph, with its operators."""

from dataclasses import dataclass

from torch import nn

from gatewise.analysis.gating import scope_name, unit_calls
from gatewise.graph import COMPOSITE, LEAVES, Node, Reading, Scope


@dataclass(frozen=True, eq=False)
class SiteCall:
    """One call of a module, or of a function in the forward of a module.

    Attributes:
        name: The name of the call.
        unit: The unit or operator.
        scope: Path and number of the call of the unit's module. ``None`` for a functional call.
        nodes: The operators of the call.
    """

    name: str
    unit: str
    scope: Scope | None
    nodes: tuple[Node, ...]


def site_calls(reading: Reading, model: nn.Module) -> list[SiteCall]:
    """Return the calls of all units, in order.

    Args:
        reading: The graph of the model and the sites in it.
        model: The model.
    """
    calls: list[SiteCall] = []
    inside: set[Node] = set()
    for call in unit_calls(reading.graph, model):
        inside |= call.members
        nodes = tuple(sorted(call.members, key=lambda node: node.index))
        calls.append(SiteCall(scope_name(call.scope), call.unit, call.scope, nodes))
    for name, site in reading.site_nodes.items():
        if site.output in inside:
            continue
        scope = (site.path, site.call) if site.kind != "functional" else None
        unit = type(model.get_submodule(site.path)).__name__ if site.op == COMPOSITE else site.op
        calls.append(SiteCall(name, unit, scope, _members(reading, scope) or (site.output,)))
    return sorted(calls, key=lambda call: call.nodes[-1].index)


def _members(reading: Reading, scope: Scope | None) -> tuple[Node, ...]:
    if scope is None:
        return ()
    nodes = (node for node in reading.graph if node.scope == scope)
    return tuple(node for node in nodes if node.op not in LEAVES and node.op != "output")
