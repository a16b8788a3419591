"""Our graph from torch's.

Operators by their own argument names, wrappers opened, parameters by name.
"""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_arg

from gatewise.graph.trace.nodes import Graph, Node, Scope, tensors_in

# Wrappers around a part of the model: the function called, and where in its arguments the part
# stands.
WRAPPERS = {
    "wrap_with_set_grad_enabled": 1,
    "wrap_with_autocast": 4,
    "tag_activation_checkpoint": 0,
    "wrap": 0,
}

Scopes = Callable[[fx.Node], tuple[Scope, ...]]
Leaf = tuple[str, str]  # "parameter", "buffer", "constant" or "input", and its name


@dataclass
class Converter:
    """Collects our nodes while walking torch's graphs, one inside the other."""

    leaves: Mapping[str, Leaf]  # by the name of torch's placeholder or attribute
    scopes: Scopes
    constants: Mapping[str, Any]  # values by name
    nodes: list[Node] = field(default_factory=list)

    def convert(self, module: fx.GraphModule, given: tuple[Any, ...] | None = None) -> Any:
        """Add the calls of ``module``; ``given`` stand for its placeholders.

        Returns what it outputs.
        """
        known: dict[fx.Node, Any] = {}
        waiting = iter(given or ())
        for node in module.graph.nodes:
            if node.op == "placeholder" and given is not None:
                known[node] = next(waiting)
            elif node.op == "output":
                result = _replace(node.args[0], known)
                if given is None:
                    self.add("output", {"values": result})
                return result
            else:
                known[node] = self._one(module, node, known)
        return None

    def add(self, op: str, arguments: Mapping[str, Any], **facts: Any) -> Node:
        """A new node at the end, known to those it takes."""
        inputs = tuple(dict.fromkeys(tensors_in(arguments)))
        node = Node(len(self.nodes), op, arguments, inputs=inputs, **facts)
        for each in inputs:
            each.users.append(node)
        self.nodes.append(node)
        return node

    def _one(self, module: fx.GraphModule, node: fx.Node, known: dict[fx.Node, Any]) -> Any:
        if node.op in ("placeholder", "get_attr"):
            return self._leaf(module, node)
        if (place := WRAPPERS.get(getattr(node.target, "__name__", ""))) is not None:
            inner = getattr(module, str(node.args[place].target))  # type: ignore[union-attr]  it is a node
            return self.convert(inner, tuple(_replace(node.args[place + 1 :], known)))
        if node.target is operator.getitem and not isinstance(known[node.args[0]], Node):  # type: ignore[index]
            return known[node.args[0]][node.args[1]]  # type: ignore[index]  of a wrapper's results
        return self._call(node, known)

    def _leaf(self, module: fx.GraphModule, node: fx.Node) -> Any:
        kind, name = self.leaves.get(str(node.target), ("constant", str(node.target)))
        value = node.meta.get("val")
        if node.op == "get_attr":
            value = getattr(module, str(node.target), None)
            if isinstance(value, fx.GraphModule):
                return None  # the inside of a wrapper
        constant = (
            self.constants.get(name, value if node.op == "get_attr" else None)
            if kind == "constant"
            else None
        )
        return self.add(kind, {}, name=name, value=constant, **_facts(value))

    def _call(self, node: fx.Node, known: dict[fx.Node, Any]) -> Node:
        op, inplace = _operator_name(node.target)
        arguments = _replace(_named_arguments(node), known)
        overload = node.target if isinstance(node.target, torch._ops.OpOverload) else None
        facts = _facts(node.meta.get("val"))
        return self.add(
            op, arguments, scopes=self.scopes(node), inplace=inplace, overload=overload, **facts
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
    """The graph of ``module``: leaves named by ``leaves``, modules told by ``scopes``."""
    converter = Converter(leaves, scopes, constants or {})
    converter.convert(module)
    return Graph(tuple(converter.nodes), mode, reader)


def _operator_name(target: Any) -> tuple[str, bool]:
    """``relu_`` is ``relu`` in place; operators that are not torch's own keep their namespace."""
    if target is operator.getitem:
        return "getitem", False
    schema = getattr(target, "_schema", None)
    if schema is None:
        return getattr(target, "__name__", str(target)), False
    space, name = schema.name.split("::")
    inplace = name.endswith("_") and not name.startswith("__") and schema.is_mutable
    name = name[:-1] if inplace else name
    return (name if space == "aten" else f"{space}::{name}"), inplace


def _named_arguments(node: fx.Node) -> dict[str, Any]:
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        names = (
            ("input", "index")
            if node.target is operator.getitem
            else map(str, range(len(node.args)))
        )
        return dict(zip(names, node.args, strict=True)) | dict(node.kwargs)
    given = dict(
        zip((argument.name for argument in schema.arguments), node.args, strict=False)
    ) | dict(node.kwargs)
    defaults = {argument.name: argument.default_value for argument in schema.arguments}
    return {
        name: given.get(name, default) for name, default in defaults.items()
    }  # in the operator's own order


def _replace(value: Any, known: dict[fx.Node, Any]) -> Any:
    return map_arg(value, lambda node: known[node])


def _facts(value: Any) -> dict[str, Any]:
    if not isinstance(value, torch.Tensor):
        return {"shape": None, "floating": False}
    return {
        "shape": tuple(int(size) for size in value.shape),
        "floating": value.is_floating_point(),
    }
