"""Calls in place: which other nodes of a graph see what was written."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from gatewise.errors import Limitation, NotApplicableError
from gatewise.graph import CUTS, MOVES, RESHAPES, SPLITS, Graph, Kind, Node, operators_of

SAME = operators_of(Kind.IDENTITY, Kind.DROPOUT) - {"native_dropout"}
VIEWS = RESHAPES | MOVES | CUTS | SPLITS | {"expand", "getitem"}


class Writes:
    """Which nodes of a graph are one tensor.

    Args:
        graph: the graph.
        last_use: the index of the last node that reads each node.
    """

    def __init__(self, graph: Graph, last_use: Mapping[Node, int]) -> None:
        self.last_use = last_use
        self.root: dict[Node, Node] = {}
        self.same: dict[Node, list[Node]] = defaultdict(list)
        for node in graph:
            shares_tensor = node.inplace or node.op in SAME
            self.root[node] = self.root[node.inputs[0]] if shares_tensor and node.inputs else node
            self.same[self.root[node]].append(node)

    def propagate(self, node: Node, values: dict[Node, Any], live: set[Node]) -> None:
        """Give the result of a ``node`` in place to all nodes of its tensor still in use."""
        for other in self._needed(self.root[node], node):
            values[other] = values[node]
            if node in live:
                live.add(other)
        self._check_views(node)

    def _needed(self, root: Node, node: Node) -> list[Node]:
        """The nodes of the tensor ``root`` before ``node`` that are read after it."""
        return [other for other in self.same[root] if self._spans(other, node)]

    def _spans(self, other: Node, node: Node) -> bool:
        return other.index < node.index < self.last_use[other]

    def _check_views(self, node: Node) -> None:
        """Raise if a view of the tensor is read later: it has changed too, which has no rule."""
        root = self.root[node]
        views = []
        if root.op in VIEWS and root.inputs:
            views = self._needed(self.root[root.inputs[0]], node)
        for other in self.same[root]:
            views += [user for user in other.users if user.op in VIEWS and self._spans(user, node)]
        if views:
            raise NotApplicableError(
                Limitation.UNSUPPORTED_OPERATOR,
                "partition: a call in place changes a tensor of which a view is read later",
                got=f"{node.op} in {node.scope[0] or 'the model'}",
                fix="use the form that is not in place",
            )
