"""A model's computation as a list of calls: what reading gives, and everything else walks over."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Scope = tuple[str, int]  # path of a module, and which of its calls (from 0)


@dataclass(eq=False)
class Node:
    """One tensor operation, input or parameter.

    Operations are torch's own, before any decomposition.

    ``op`` is the operator's name without overload and without the underscore of its in-place form;
    ``"parameter"``, ``"buffer"``, ``"constant"``, ``"input"`` and ``"output"`` are the others.
    ``arguments`` are by the operator's own argument names, defaults filled in, tensors as nodes.
    """

    index: int
    op: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    shape: tuple[int, ...] | None = None  # None: not one tensor
    floating: bool = True
    scopes: tuple[Scope, ...] = ()  # the modules it was called in, outermost first
    name: str = ""  # of the parameter, buffer or input
    inplace: bool = False
    overload: Any = None  # the operator itself, where there is one
    value: Any = None  # of a constant in the model's code
    inputs: tuple["Node", ...] = ()
    users: list["Node"] = field(default_factory=list)

    @property
    def scope(self) -> Scope:
        """The innermost module it was called in."""
        return self.scopes[-1] if self.scopes else ("", 0)

    @property
    def rank(self) -> int:
        """Number of dimensions; 0 where it is not one tensor."""
        return len(self.shape or ())

    def tensor(self, name: str) -> "Node | None":
        """The argument ``name`` if it is a node."""
        value = self.arguments.get(name)
        return value if isinstance(value, Node) else None

    def __repr__(self) -> str:
        return f"<{self.index} {self.op} {self.name or self.scope[0]} {self.shape}>"


@dataclass(frozen=True)
class Graph:
    """The calls of one forward pass in the order they were made, in one mode."""

    nodes: tuple[Node, ...]
    mode: str  # "eval" or "train"
    reader: str  # "export" or "make_fx"

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)


def tensors_in(value: Any) -> Iterator[Node]:
    """Every node in nested lists, tuples and mappings."""
    if isinstance(value, Node):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from tensors_in(each)
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from tensors_in(each)
