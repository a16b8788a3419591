"""Calls in place, where every tensor is a value of its own: who else sees what was written."""

from collections import defaultdict
from typing import Any

from gatewise.errors import Limitation, NotApplicableError
from gatewise.graph import CUTS, MOVES, RESHAPES, SPLITS, Graph, Node

SAME = {
    "detach",
    "alias",
    "dropout",
    "feature_dropout",
    "alpha_dropout",
    "contiguous",
    "to",
    "positive",
    "type_as",
}
VIEWS = RESHAPES | MOVES | CUTS | SPLITS | {"expand", "getitem"}


class Writes:
    """Which nodes of a graph are one tensor, and until when each is needed."""

    def __init__(self, graph: Graph) -> None:
        self.root: dict[Node, Node] = {}
        self.same: dict[Node, list[Node]] = defaultdict(list)
        for node in graph:
            one = node.inplace or node.op in SAME
            self.root[node] = self.root[node.inputs[0]] if one and node.inputs else node
            self.same[self.root[node]].append(node)
        self.last_use = {
            node: max((user.index for user in node.users), default=node.index) for node in graph
        }

    def carry(self, node: Node, values: dict[Node, Any], live: set[Node]) -> None:
        """After ``node``: give what it wrote to all names of the tensor that are still read."""
        if not node.inplace:
            return
        for other in self._needed(self.root[node], node):
            values[other] = values[node]
            if node in live:
                live.add(other)
        self._check_views(node)

    def _needed(self, root: Node, node: Node) -> list[Node]:
        return [
            each
            for each in self.same[root]
            if each.index < node.index and self.last_use[each] > node.index
        ]

    def _check_views(self, node: Node) -> None:
        """A view that is read later would have changed as well: refused, as it is not followed."""
        root = self.root[node]
        base = root.op in VIEWS and bool(root.inputs)
        seen = self._needed(self.root[root.inputs[0]], node) if base else []
        for each in self.same[root]:
            views = [user for user in each.users if user.op in VIEWS and user.index < node.index]
            seen += [view for view in views if self.last_use[view] > node.index]
        if seen:
            raise NotApplicableError(
                Limitation.UNSUPPORTED_OPERATOR,
                "partition: a call in place on a tensor of which a view is read later cannot be followed",
                got=f"{node.op} in {node.scope[0] or 'the model'}",
                fix="use the form that is not in place",
            )
