"""The graph of a model: the calls of one forward pass."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

Scope = tuple[str, int]  # path of a module, and which of its calls (from 0)


@dataclass(eq=False)
class Node:
    """One call of an operator, or one input, parameter, buffer, constant or output.

    Operators are torch's, before any decomposition.

    Attributes:
        index: the place in the graph.
        op: the name of the operator without overload and without the underscore of its in-place
            form; or ``"parameter"``, ``"buffer"``, ``"constant"``, ``"input"``, ``"output"``.
        arguments: by the operator's argument names, with defaults; tensors are nodes.
        shape: the shape of the tensor that it makes; ``None`` if it makes no tensor or several.
        floating: whether that tensor has a floating-point dtype.
        dtype: its dtype.
        scopes: the modules it was called in, outermost first.
        name: the name of the parameter, buffer or input.
        inplace: whether the call writes into its first input.
        overload: the operator itself; ``None`` for other functions.
        value: the value of a constant in the model's code.
        inputs: the nodes in ``arguments``, each once.
        users: the nodes that have this one as an input, in call order.
    """

    index: int
    op: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    shape: tuple[int, ...] | None = None
    floating: bool = True
    dtype: torch.dtype | None = None
    scopes: tuple[Scope, ...] = ()
    name: str = ""
    inplace: bool = False
    overload: Any = None
    value: Any = None
    inputs: tuple["Node", ...] = ()
    users: list["Node"] = field(default_factory=list)

    @property
    def scope(self) -> Scope:
        """The innermost module it was called in."""
        if self.scopes:
            return self.scopes[-1]
        return ("", 0)

    @property
    def rank(self) -> int:
        """The number of dimensions; 0 if the node does not make one tensor."""
        return len(self.shape or ())

    def tensor(self, name: str) -> "Node | None":
        """Return the argument ``name`` if it is a node."""
        value = self.arguments.get(name)
        return value if isinstance(value, Node) else None

    def __repr__(self) -> str:
        return f"<{self.index} {self.op} {self.name or self.scope[0]} {self.shape}>"


@dataclass(frozen=True)
class Graph:
    """The nodes of one forward pass in the order of the calls.

    Attributes:
        nodes: the last one is the output.
        mode: ``"eval"`` or ``"train"``.
        reader: ``"export"`` or ``"make_fx"``.
    """

    nodes: tuple[Node, ...]
    mode: str
    reader: str

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)


def tensors_in(value: Any) -> Iterator[Node]:
    """Yield every node in nested lists, tuples and mappings."""
    if isinstance(value, Node):
        yield value
    elif isinstance(value, list | tuple | Mapping):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from tensors_in(item)
