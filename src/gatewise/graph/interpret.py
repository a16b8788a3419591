"""Run a graph node by node: the model's operators on the model's parameters.

The interpreter takes rules. A rule replaces the call of chosen nodes by another function, so that
a model can be evaluated with other activations without changing the model. A callback receives
every value, whether a module, a function or a call in place makes it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from gatewise.errors import ArgumentError, Limitation, NotApplicableError
from gatewise.graph.ops import LEAVES
from gatewise.graph.trace import Graph, Node, tensors_in

if TYPE_CHECKING:
    from gatewise.graph.sites import SiteNodes

Values = dict[Node, Any]
# Of each replaced node: the nodes whose values go in instead, and the function of these values.
Replace = Mapping[Node, tuple[tuple[Node, ...], Callable[..., Tensor]]]


@dataclass(frozen=True)
class Interpreter:
    """Runs a graph.

    Attributes:
        graph: the graph.
        model: holds the parameters and buffers.
        call: computes the value of a node that is an operator, from the values so far;
            :func:`call_operator` unless given.
        on_value: receives each node that was run, with its value, before any value is freed. A
            later call in place may write into the value.
        skip: nodes that are not run, such as the inside of a unit that ``call`` runs as a whole.
        keep: nodes whose values are not freed after the last node that reads them.
    """

    graph: Graph
    model: nn.Module
    call: Callable[[Node, Values], Any] | None = None
    on_value: Callable[[Node, Any], None] | None = None
    skip: Collection[Node] = frozenset()
    keep: Collection[Node] = frozenset()

    def run(self, inputs: Mapping[Node, Any]) -> Values:
        """Run all nodes and return the values that were not freed, the outputs among them.

        Args:
            inputs: the values of the input nodes. Other nodes with a value here are not computed.
        """
        call = self.call or call_operator
        values: Values = dict(inputs)
        for node in self.graph:
            if node.op == "output":
                break
            if node in self.skip:
                continue
            if node not in values:
                is_leaf = node.op in LEAVES
                values[node] = leaf_value(node, self.model) if is_leaf else call(node, values)
            if self.on_value is not None:
                self.on_value(node, values[node])
            for source in node.inputs:
                if source.users[-1] is node and source not in self.keep:
                    values.pop(source, None)
        return values


def leaf_value(node: Node, model: nn.Module) -> Any:
    """Return the parameter, the buffer or the constant that ``node`` stands for."""
    if node.op == "parameter":
        return model.get_parameter(node.name)
    if node.op == "buffer":
        return model.get_buffer(node.name)
    return node.value


def call_operator(node: Node, values: Mapping[Node, Any]) -> Any:
    """Call the operator of ``node`` on the values of its inputs."""
    if node.op == "getitem":
        return values[node.inputs[0]][node.arguments["index"]]
    if node.overload is None:
        raise NotApplicableError(
            Limitation.UNSUPPORTED_OPERATOR,
            "the graph has an operation that cannot be run by itself",
            got=f"{node.op} in {node.scope[0] or 'the model'}",
        )
    arguments = filled(dict(node.arguments), values)
    if "out" in arguments:  # as in spectral norm's power iteration, which is outside autograd
        with torch.no_grad():
            return node.overload(**arguments)
    return node.overload(**arguments)


def filled(value: Any, values: Mapping[Node, Any]) -> Any:
    """Return an argument with every node in it replaced by the node's value."""
    if isinstance(value, Node):
        return values[value]
    if isinstance(value, list | tuple):
        return type(value)(filled(item, values) for item in value)
    if isinstance(value, dict):
        return {name: filled(item, values) for name, item in value.items()}
    return value


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
    """Return the output tensors of a graph, and the values of chosen nodes.

    Args:
        graph: the graph of the model, read with arguments of the same sizes.
        model: holds the parameters and buffers.
        args: positional arguments of the model.
        kwargs: keyword arguments of the model.
        replace: other functions for chosen nodes.
        keep: the nodes whose values are wanted. They are copied, since a later call in place may
            write into them.
        tell: receives the nodes of ``keep`` with their values instead, when they are computed and
            without a copy, so that no more of them are in memory than the model itself needs.

    Raises:
        ArgumentError: the graph was read with another number of tensors, or has no output.
    """
    wanted = frozenset(keep)
    replace = replace or {}
    kept: dict[Node, Tensor] = {}

    def call(node: Node, values: Values) -> Any:
        if node not in replace:
            return call_operator(node, values)
        sources, function = replace[node]
        return function(*(values[source] for source in sources))

    def on_value(node: Node, value: Any) -> None:
        if node not in wanted:
            return
        if tell is not None:
            tell(node, value)
        else:
            kept[node] = value.clone()

    # A replacement may read its sources after the last node that reads them in the graph.
    sources: set[Node] = set()
    for node, (read, _) in replace.items():
        sources |= set(read) - set(node.inputs)
    interpreter = Interpreter(graph, model, call, on_value, keep=sources)
    values = interpreter.run(_input_values(graph, args, kwargs))
    output = graph.nodes[-1]
    if output.op != "output":
        raise ArgumentError("the graph has no output")
    return tuple(values[node] for node in tensors_in(output.arguments["values"])), kept


def replacing(sites: Iterable[tuple["SiteNodes", Callable[[Tensor], Tensor]]]) -> Replace:
    """Return the ``replace`` of :func:`run_graph` that computes another function at each site."""
    return {site.output: ((site.input,), function) for site, function in sites}


def _input_values(graph: Graph, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Values:
    """Return copies of the arguments by input node: a call in place must not change the user's."""
    values: Values = {}
    positional = []
    for node in graph:
        if node.op == "input" and node.name in kwargs:
            value = kwargs[node.name]
            values[node] = value.clone() if isinstance(value, Tensor) else value
        elif node.op == "input" and node.shape is not None:
            positional.append(node)
    tensors = [value for value in tree_leaves(list(args)) if isinstance(value, Tensor)]
    if len(positional) != len(tensors):
        raise ArgumentError(
            "the graph was read with other arguments",
            got=f"{len(tensors)} positional tensors",
            allowed=f"{len(positional)} positional tensors",
        )
    for node, tensor in zip(positional, tensors, strict=True):
        values[node] = tensor.clone()
    return values
