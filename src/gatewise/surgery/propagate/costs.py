"""The cost of a model, now and after edits, counted on its graph."""

from collections.abc import Iterable, Mapping, Set

from torch import nn

from gatewise.errors import ArgumentError
from gatewise.graph import (
    Example,
    Graph,
    Node,
    find_sites,
    node_operations,
    parameter_count,
    whole_size,
)
from gatewise.surgery.propagate.edits import Edit
from gatewise.surgery.propagate.maps import ChannelMap
from gatewise.surgery.propagate.sweep import Maps

BUDGETS = ("parameters", "flops")


def growth(edits: Iterable[Edit], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, float]:
    """Return the factor by which each edited parameter grows.

    Args:
        edits: The edits, any number for each parameter.
        shapes: The old shape of each parameter.
    """
    factors: dict[str, float] = {}
    for edit in edits:
        factor = len(edit.index) / shapes[edit.name][edit.dim]
        factors[edit.name] = factors.get(edit.name, 1.0) * factor
    return factors


def operations(
    graph: Graph,
    maps: Mapping[Node, Maps] | None = None,
    factors: Mapping[str, float] | None = None,
    *,
    twice: Set[str] = frozenset(),
) -> int:
    """Count the operations of one pass over ``graph``, after a change if one is given.

    Args:
        graph: The graph of the model as it is.
        maps: The channel map of each tensor that changes.
        factors: The growth of each parameter that changes, from :func:`growth`.
        twice: Paths of layers that hold a weight for each sign of their input. Both weights are
            applied, so they count twice.
    """
    maps = maps or {}
    factors = factors or {}

    def size(node: Node) -> int:
        change = maps.get(node)
        whole = whole_size(node)
        if not isinstance(change, ChannelMap) or not node.shape:
            return whole
        return whole // node.shape[change.dim] * len(change)

    total = 0.0
    for node in graph:
        passes = 2 if node.scope[0] in twice else 1
        total += passes * node_operations(node, size, factors)
    return round(total)


def cost(model: nn.Module, by: str, example: Example | None) -> int:
    """Return the parameters of ``model``, or the operations of one run on ``example``.

    Args:
        model: The model to count.
        by: ``"parameters"`` or ``"flops"``.
        example: The input of the run. Only needed to count operations.
    """
    if by == "parameters":
        return parameter_count(model)
    if example is None:
        raise ArgumentError(
            "match: counting operations needs an example input",
            got="no example",
            fix="pass one, as in gw.surgery.match(factory, target, example, by='flops')",
        )
    return operations(find_sites(model, example, modes=("eval",)).readings["eval"].graph)
