"""Convert a graph of ``torch.fx`` to ours.

Arguments get the names of the operator's schema, wrappers around a part of the model are opened,
and parameters are known by their names in the model.
"""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_arg

from gatewise.graph.trace.nodes import Graph, Node, Scope, tensors_in

# Functions that run a part of the model, by name, and the place of that part in their arguments.
WRAPPERS = {
    "wrap_with_set_grad_enabled": 1,
    "wrap_with_autocast": 4,
    "tag_activation_checkpoint": 0,
    "wrap": 0,
}

Scopes = Callable[[fx.Node], tuple[Scope, ...]]
Leaf = tuple[str, str]  # "parameter", "buffer", "constant" or "input", and its name
Converted = dict[fx.Node, Any]  # of each node of torch: our node, or several in a container


@dataclass
class Converter:
    """Collects our nodes while it walks over torch's graphs, one inside the other.

    Attributes:
        leaves: by the name of torch's placeholder or attribute.
        scopes: returns the modules that a node of torch was called in.
        constants: values by name.
        nodes: the nodes so far.
    """

    leaves: Mapping[str, Leaf]
    scopes: Scopes
    constants: Mapping[str, Any]
    nodes: list[Node] = field(default_factory=list)

    def convert(self, module: fx.GraphModule, arguments: tuple[Any, ...] | None = None) -> Any:
        """Add the calls of ``module``, and return what it outputs.

        Args:
            module: the whole graph, or the part of it that a wrapper runs.
            arguments: of a part: our nodes, in place of its placeholders.
        """
        converted: Converted = {}
        remaining = iter(arguments or ())
        for node in module.graph.nodes:
            if node.op == "output":
                result = _replace(node.args[0], converted)
                if arguments is None:
                    self.add("output", {"values": result})
                return result
            if node.op == "placeholder" and arguments is not None:
                converted[node] = next(remaining)
            elif node.op in ("placeholder", "get_attr"):
                converted[node] = self._leaf(module, node)
            else:
                converted[node] = self._call(module, node, converted)
        return None

    def add(self, op: str, arguments: Mapping[str, Any], **facts: Any) -> Node:
        """Add a node at the end, and add it to the users of its inputs."""
        inputs = tuple(dict.fromkeys(tensors_in(arguments)))
        node = Node(len(self.nodes), op, arguments, inputs=inputs, **facts)
        for source in inputs:
            source.users.append(node)
        self.nodes.append(node)
        return node

    def _leaf(self, module: fx.GraphModule, node: fx.Node) -> Node | None:
        target = str(node.target)
        kind, name = self.leaves.get(target, ("constant", target))
        attribute = None
        if node.op == "get_attr":
            attribute = getattr(module, target, None)
            if isinstance(attribute, fx.GraphModule):
                return None  # a part of the model; it is converted where a wrapper runs it
        value = attribute if node.op == "get_attr" else node.meta.get("val")
        constant = self.constants.get(name, attribute) if kind == "constant" else None
        return self.add(kind, {}, name=name, value=constant, **_tensor_facts(value))

    def _call(self, module: fx.GraphModule, node: fx.Node, converted: Converted) -> Any:
        place = WRAPPERS.get(getattr(node.target, "__name__", ""))
        if place is not None:
            part: Any = node.args[place]
            inner = getattr(module, str(part.target))
            return self.convert(inner, tuple(_replace(node.args[place + 1 :], converted)))
        arguments = _replace(_named_arguments(node), converted)
        if node.target is operator.getitem and not isinstance(arguments["input"], Node):
            return arguments["input"][arguments["index"]]  # one of the results of a wrapper
        op, inplace = _operator_name(node.target)
        if op == "hardtanh" and (arguments["min_val"], arguments["max_val"]) == (0, 6):
            op = "relu6"  # torch computes ReLU6 by hardtanh
        return self.add(
            op,
            arguments,
            scopes=self.scopes(node),
            inplace=inplace,
            overload=node.target if isinstance(node.target, torch._ops.OpOverload) else None,
            **_tensor_facts(node.meta.get("val")),
        )


def convert(
    module: fx.GraphModule,
    leaves: Mapping[str, Leaf],
    scopes: Scopes,
    *,
    mode: str,
    reader: str,
    constants: Mapping[str, Any] | None = None,
) -> Graph:
    """Return our graph of ``module``.

    Args:
        module: the graph of torch.
        leaves: kind and name of each placeholder and attribute, by its name in torch's graph.
        scopes: returns the modules that a node of torch was called in.
        mode: ``"eval"`` or ``"train"``.
        reader: ``"export"`` or ``"make_fx"``.
        constants: values of constants by name.
    """
    converter = Converter(leaves, scopes, constants or {})
    converter.convert(module)
    return Graph(tuple(converter.nodes), mode, reader)


def _operator_name(target: Any) -> tuple[str, bool]:
    """Return the name of an operator, and whether it is in place: ``relu_`` is ``relu`` in place.

    Operators of other libraries keep their namespace.
    """
    if target is operator.getitem:
        return "getitem", False
    schema = getattr(target, "_schema", None)
    if schema is None:
        return getattr(target, "__name__", str(target)), False
    namespace, name = schema.name.split("::")
    inplace = name.endswith("_") and not name.startswith("__") and schema.is_mutable
    if inplace:
        name = name[:-1]
    return (name if namespace == "aten" else f"{namespace}::{name}"), inplace


def _named_arguments(node: fx.Node) -> dict[str, Any]:
    """Return the arguments of a call by name, with defaults, in the order of the schema."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        is_getitem = node.target is operator.getitem
        names = ("input", "index") if is_getitem else map(str, range(len(node.args)))
        return {**dict(zip(names, node.args, strict=True)), **node.kwargs}
    arguments = {argument.name: argument.default_value for argument in schema.arguments}
    arguments.update(zip(list(arguments), node.args, strict=False))
    arguments.update(node.kwargs)
    return arguments


def _replace(value: Any, converted: Converted) -> Any:
    """Return ``value`` with our nodes in place of torch's."""
    return map_arg(value, converted.__getitem__)


def _tensor_facts(value: Any) -> dict[str, Any]:
    if not isinstance(value, torch.Tensor):
        return {"shape": None, "floating": False}
    shape = tuple(int(size) for size in value.shape)
    return {"shape": shape, "floating": value.is_floating_point(), "dtype": value.dtype}
