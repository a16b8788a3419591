"""Additions as sites, which couplers can replace, and where each stands in the source."""

from collections import defaultdict
from collections.abc import Sequence

from gatewise.graph import Node, Reading, Scope, Site, SiteGraph, consumers, producers
from gatewise.surgery.binding.branches import is_sum, operands_of
from gatewise.surgery.calls import CallSite

ADDITION = "addition"  # a kind of site


def find_additions(reading: Reading) -> dict[str, Node]:
    """Every sum of two computed tensors of one shape with known channels, by its site's name."""
    additions: dict[str, Node] = {}
    places: dict[Scope, int] = defaultdict(int)
    for node in _all(reading):
        path, call = node.scope
        name = f"{path or '(model)'}{f'@{call}' if call else ''}:add#{places[node.scope]}"
        places[node.scope] += 1
        if is_sum(node) and reading.dims.get(node) is not None:
            additions[name] = node
    return additions


def addition_sites(graph: SiteGraph) -> tuple[Site, ...]:
    """The additions of a model as sites, those of the eval graph first."""
    additions: dict[str, tuple[Node, Reading, tuple[str, ...]]] = {}
    for mode, reading in graph.readings.items():
        for name, node in find_additions(reading).items():
            first = additions.get(name, (node, reading, ()))
            additions[name] = (first[0], first[1], (*first[2], mode))
    last = max(1, len(additions) - 1)
    return tuple(
        _site(name, node, reading, modes, place / last)
        for place, (name, (node, reading, modes)) in enumerate(additions.items())
    )


def _site(name: str, node: Node, reading: Reading, modes: tuple[str, ...], depth: float) -> Site:
    path, call = node.scope
    dim = reading.dims[node]
    shape = node.shape or ()
    return Site(
        name=name,
        path=path,
        call=call,
        kind=ADDITION,
        op="add",
        role="other",
        owner=path,
        place=0,
        order=node.index,
        dim=dim,
        channels=shape[dim],
        shape=shape,
        producers=tuple(_labels(producers(node))),
        consumers=tuple(_labels(consumers(node))),
        depth=depth,
        shared=False,
        modes=modes,
    )


def _labels(nodes: Sequence[Node]) -> list[str]:
    return [node.op if node.op in ("input", "output") else node.scope[0] for node in nodes]


def match_additions(reading: Reading, sums: Sequence[CallSite]) -> dict[str, CallSite]:
    """The recorded call of each addition, without owners whose number of additions disagrees."""
    seen: dict[Scope, list[CallSite]] = defaultdict(list)
    for call in sums:
        seen[call.owner, call.call].append(call)
    read: dict[Scope, list[Node]] = defaultdict(list)
    for node in _all(reading):
        read[node.scope].append(node)
    names = {node: name for name, node in find_additions(reading).items()}
    matched: dict[str, CallSite] = {}
    for scope, nodes in read.items():
        if len(nodes) == len(seen[scope]):
            for node, call in zip(nodes, seen[scope], strict=True):
                if node in names:
                    matched[names[node]] = call
    return matched


def _all(reading: Reading) -> list[Node]:
    return [node for node in reading.graph if node.op == "add" and len(operands_of(node)) == 2]
