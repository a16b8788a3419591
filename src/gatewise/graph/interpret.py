"""Run a graph: the same operators on the same parameters, with other functions in place of chosen nodes.

What a model computes with units at its sites can so be known without changing the model; and every tensor in between
can be read, whether the call that makes it is a module, a function or in place.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from gatewise.errors import ArgumentError, Limitation, NotApplicableError
from gatewise.graph.sites import Found
from gatewise.graph.trace import Graph, Node, tensors_in

Replace = Mapping[
    Node, tuple[tuple[Node, ...], Callable[..., Tensor]]
]  # node: what goes in instead, and the function


def run_graph(
    graph: Graph,
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    replace: Replace | None = None,
    keep: Iterable[Node] = (),
    tell: Callable[[Node, Tensor], None] | None = None,
) -> tuple[tuple[Tensor, ...], dict[Node, Tensor]]:
    """The tensors that ``graph`` outputs on these arguments, and the values of the nodes in ``keep``.

    With ``tell`` these are handed to it as they are made and not kept: no more of them are in memory than the model
    itself needs. A later call may write into them.
    """
    kept, replace = frozenset(keep), replace or {}
    wanted = {
        source for sources, _ in replace.values() for source in sources
    }  # read later than the graph itself says
    values: dict[Node, Any] = _inputs(graph, args, kwargs)
    found: dict[Node, Tensor] = {}
    for node in graph:
        if node.op == "output":
            results = tensors_in(node.arguments["values"])
            return tuple(values[each] for each in results), found
        if node not in values:
            values[node] = _value(node, values, model, replace)
        if node in kept and tell is not None:
            tell(node, values[node])
        elif node in kept:
            found[node] = values[node].clone()  # a later call may write into it
        for each in node.inputs:
            if each.users[-1] is node and each not in wanted:
                values.pop(each, None)
    raise ArgumentError("the graph has no output")


def replacing(sites: Iterable[tuple[Found, Callable[[Tensor], Tensor]]]) -> Replace:
    """What to hand to :func:`run_graph` so that each site computes its function."""
    return {found.output: ((found.input,), function) for found, function in sites}


def _inputs(graph: Graph, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[Node, Any]:
    nodes = [node for node in graph if node.op == "input"]
    flat = [each for each in tree_leaves(list(args)) if isinstance(each, Tensor)]
    named = [node for node in nodes if node.name in kwargs]
    rest = [node for node in nodes if node not in named and node.shape is not None]
    if len(rest) != len(flat):
        raise ArgumentError(
            "the graph was read with other arguments", got=f"{len(flat)} tensors for {len(rest)}"
        )
    found: dict[Node, Any] = {node: _copy(kwargs[node.name]) for node in named}
    return found | {node: value.clone() for node, value in zip(rest, flat, strict=True)}


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


def _value(node: Node, values: Mapping[Node, Any], model: nn.Module, replace: Replace) -> Any:
    if node in replace:
        sources, function = replace[node]
        return function(*(values[source] for source in sources))
    if node.op == "parameter":
        return model.get_parameter(node.name)
    if node.op == "buffer":
        return model.get_buffer(node.name)
    if node.op == "constant":
        return node.value
    if node.op == "getitem":
        return values[node.inputs[0]][node.arguments["index"]]
    if node.overload is None:
        raise NotApplicableError(
            Limitation.UNSUPPORTED_OPERATOR,
            "the graph holds an operation that cannot be run by itself",
            got=node.op,
        )
    return node.overload(**{name: filled(value, values) for name, value in node.arguments.items()})


def filled(value: Any, values: Mapping[Node, Any]) -> Any:
    """An argument with the values of its nodes."""
    if isinstance(value, Node):
        return values[value]
    if isinstance(value, list | tuple):
        return type(value)(filled(each, values) for each in value)
    return value
