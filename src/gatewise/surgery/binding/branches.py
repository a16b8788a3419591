"""Which layer makes what a site reads, and which branches an addition joins, by the graph."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from gatewise.graph import (
    CHANNEL_NORMS,
    CONVOLUTIONS,
    LAST_NORMS,
    LEAVES,
    Kind,
    Node,
    SiteNodes,
    operators_of,
)
from gatewise.surgery.reasons import Reason, Refusal

# Operators that may stand between a layer and its unit. After each of them, an element is still the
# response of the same filter to the same patch.
BETWEEN = (
    CHANNEL_NORMS
    | LAST_NORMS
    | operators_of(Kind.IDENTITY, Kind.COPY)
    | {"dropout", "feature_dropout"}
)
LAYERS: tuple[type[nn.Module], ...] = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)


@dataclass(frozen=True)
class Branch:
    """A layer, and the last node that computes something of its output before it is read."""

    layer: Node
    end: Node

    @property
    def source(self) -> Node:
        """The layer's input."""
        return self.layer.inputs[0]


def branch_of(end: Node, modules: Mapping[str, nn.Module]) -> Branch:
    """The branch that ends in ``end``, or a :class:`Refusal`."""
    node = end
    while node.op in BETWEEN and node.inputs and node.inputs[0].shape == node.shape:
        node = node.inputs[0]
    if node.op == "add" and is_sum(node):
        raise Refusal(Reason.SUMMED)
    if node.op == "cat":
        raise Refusal(Reason.JOINED)
    if node.op not in CONVOLUTIONS | {"linear"}:
        raise Refusal(Reason.NO_PRODUCER, node.op)
    layer = modules.get(node.scope[0])
    if layer is None or not _is_plain(layer):
        raise Refusal(Reason.NO_PRODUCER, f"{node.scope[0]} is a {type(layer).__name__}")
    if node.op != "linear" and node.rank != layer.get_parameter("weight").dim():
        raise Refusal(Reason.NO_CHANNELS, "no batch dimension")
    return Branch(node, end)


def _is_plain(layer: nn.Module) -> bool:
    """Whether the layer computes what torch's class does, so that its patches are known."""
    kind = next((kind for kind in LAYERS if isinstance(layer, kind)), None)
    if kind is None:
        return False
    names = ("forward", "_conv_forward") if hasattr(kind, "_conv_forward") else ("forward",)
    return all(getattr(type(layer), name) is getattr(kind, name) for name in names)


def is_sum(node: Node) -> bool:
    """Whether ``node`` adds two tensors that the model has computed, of one shape."""
    operands = operands_of(node)
    if node.op != "add" or len(operands) != 2 or node.arguments.get("alpha", 1) != 1:
        return False
    computed = all(operand.op not in LEAVES and operand.floating for operand in operands)
    return computed and operands[0].shape == operands[1].shape == node.shape


def operands_of(node: Node) -> tuple[Node, ...]:
    """Both tensors that an addition takes; fewer if one of them is a number."""
    values = (node.arguments.get("self"), node.arguments.get("other"))
    return tuple(value for value in values if isinstance(value, Node))


def branches_before(found: SiteNodes, modules: Mapping[str, nn.Module]) -> list[Branch]:
    """The branches of the sum that a site reads, for a unit at the end of each.

    An identity shortcut has no layer of its own and gets no unit.

    Raises:
        Refusal: the site does not read a sum, or others read it too.
    """
    total = found.input
    if not is_sum(total):
        branch_of(total, modules)  # the reason why it has no layer, if it has none
        raise Refusal(Reason.NO_PRODUCER, "it does not read the sum itself")
    if len(total.users) > 1:
        raise Refusal(Reason.BRANCH, "the sum")
    branches = []
    for operand in operands_of(total):
        try:
            branch = branch_of(operand, modules)
        except Refusal:
            continue
        if len(operand.users) > 1:
            raise Refusal(Reason.BRANCH, operand.scope[0])
        branches.append(branch)
    if not branches:
        raise Refusal(Reason.SUMMED, "none of its branches ends in a layer")
    return branches
