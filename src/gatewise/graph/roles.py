"""Tell the role of an activation in its network from the graph alone."""

from collections import deque

from gatewise.graph.glu import Glu
from gatewise.graph.ops import (
    CONVOLUTIONS,
    ELEMENTWISE,
    GATES,
    LEAVES,
    MOVES,
    SPATIAL,
    Kind,
    is_activation,
    operators_of,
)
from gatewise.graph.relations import ancestors, consumers, multiplies_own_ancestor, producers
from gatewise.graph.sites import SiteNodes
from gatewise.graph.trace import Node

POOLER = "pooler"  # after a layer on one position of a sequence, made by attention or so named
ROLES = (
    "stem",
    "block-inner",
    "block-out",
    "mlp",
    "squeeze-excite",
    "gate",
    "glu",
    POOLER,
    "other",
)
ATTENTION = operators_of(Kind.ATTENTION, Kind.SOFTMAX)
NEARBY = 40  # nodes: a residual block closes within a few dozen calls
NORMS_BEFORE_A_SUM = ("batch_norm", "layer_norm", "group_norm")


def role_of(site: SiteNodes, earlier: set[Node], glu: Glu | None = None) -> str:
    """Return one of :data:`ROLES`.

    Args:
        site: the activation.
        earlier: the outputs of the activations before this one. The stem depends on none of them.
        glu: the gated linear unit that it is the gate of, if it is one.
    """
    if glu is not None:
        return "glu"
    if site.op in GATES:
        return "gate"
    if _feeds_a_gate(site):
        return "squeeze-excite"
    if _follows_a_sum(site.input):
        return "block-out"
    before = producers(site.input)
    if site.op == "tanh" and len(before) == 1 and _reads_one_position(before[0]):
        attends = any(node.op in ATTENTION for node in ancestors(before[0]))
        # The step of a recurrent loop feeds an activation.
        if (attends or POOLER in site.path) and not _feeds_an_activation(site.output):
            return POOLER
    after = consumers(site.output)
    if before and after and all(node.op in ("linear", "addmm") for node in (*before, *after)):
        return "mlp"
    after_convolutions = before and all(node.op in CONVOLUTIONS for node in before)
    if after_convolutions and ancestors(site.output).isdisjoint(earlier):
        return "stem"
    return "block-inner" if _inside_a_residual(site.output) else "other"


def _feeds_a_gate(site: SiteNodes) -> bool:
    """Return whether the next layer, after a sigmoid, scales what the site was made from."""
    for layer in consumers(site.output):
        for user in layer.users:
            if user.op in GATES and multiplies_own_ancestor(user):
                return True
    return False


def _reads_one_position(layer: Node) -> bool:
    """Return whether a linear layer reads one position of a sequence, such as the first token."""
    if layer.op not in ("linear", "addmm") or not layer.inputs:
        return False
    node = next((source for source in layer.inputs if source.op not in LEAVES), layer)
    while node.op in ELEMENTWISE | {"slice"} and node.inputs:
        node = node.inputs[0]
    return node.op in ("select", "index", "gather") and (node.inputs[0].rank or 0) > 2


def _feeds_an_activation(node: Node) -> bool:
    """Return whether an activation is computed from ``node``."""
    seen = {node}
    waiting = [node]
    while waiting:
        for user in waiting.pop().users:
            if is_activation(user.op):
                return True
            if user not in seen:
                seen.add(user)
                waiting.append(user)
    return False


def _follows_a_sum(node: Node) -> bool:
    """Return whether ``node`` is the sum of two tensors that the model computed."""
    passed = ELEMENTWISE | SPATIAL | MOVES
    while node.inputs and (node.op in passed or node.op in NORMS_BEFORE_A_SUM):
        node = node.inputs[0]
    return node.op == "add" and _count_computed(node) == 2


def _count_computed(node: Node) -> int:
    return sum(source.op not in LEAVES for source in node.inputs)


def _inside_a_residual(output: Node) -> bool:
    """Return whether a tensor made from ``output`` is soon added to one that is not."""
    seen = {output}
    waiting = deque([output])
    while waiting and len(seen) < NEARBY:
        for user in waiting.popleft().users:
            if user.op == "add":
                for term in user.inputs:
                    if term not in seen and term.op not in LEAVES:
                        return True
            if user not in seen:
                seen.add(user)
                waiting.append(user)
    return False
