"""What part a site plays in its network, told from the graph alone."""

from gatewise.graph.ops import CONVOLUTIONS, ELEMENTWISE, GATES, LEAVES, MOVES, SPATIAL
from gatewise.graph.relations import ancestors, consumers, multiplies_own_ancestor, producers
from gatewise.graph.sites import Found
from gatewise.graph.trace import Node

NEARBY = 40  # a residual block closes within a few dozen calls
ROLES = ("stem", "block-inner", "block-out", "mlp", "squeeze-excite", "gate", "other")


def role_of(found: Found, earlier: set[Node]) -> str:
    """One of :data:`ROLES`; ``earlier`` are the outputs of the sites before this one."""
    if found.op in GATES:
        return "gate"
    if _feeds_a_gate(found):
        return "squeeze-excite"
    if _follows_a_sum(found.input):
        return "block-out"
    made, read = producers(found.input), consumers(found.output)
    if made and read and all(node.op in ("linear", "addmm") for node in (*made, *read)):
        return "mlp"
    if (
        made
        and all(node.op in CONVOLUTIONS for node in made)
        and not ancestors(found.output) & earlier
    ):
        return "stem"
    return "block-inner" if _inside_a_residual(found.output) else "other"


def _feeds_a_gate(found: Found) -> bool:
    """Whether the layer behind makes, by a sigmoid, the factor of something the site was made from."""
    return any(
        _is_gate_over_ancestor(user) for layer in consumers(found.output) for user in layer.users
    )


def _is_gate_over_ancestor(node: Node) -> bool:
    return node.op in GATES and multiplies_own_ancestor(node)


def _follows_a_sum(node: Node) -> bool:
    """Whether ``node`` is the sum of two tensors that the model computed."""
    while node.op in ELEMENTWISE | SPATIAL | MOVES and node.inputs:
        node = node.inputs[0]
    if node.op in ("batch_norm", "layer_norm", "group_norm"):
        return _follows_a_sum(node.inputs[0])
    return node.op == "add" and sum(each.op not in LEAVES for each in node.inputs) == 2


def _inside_a_residual(output: Node) -> bool:
    """Whether what is made from ``output`` is soon added to something that is not."""
    seen, waiting = {output}, [output]
    while waiting and len(seen) < NEARBY:
        node = waiting.pop(0)
        for user in node.users:
            if user.op == "add" and any(
                each not in seen and each.op not in LEAVES for each in user.inputs
            ):
                return True
            if user not in seen:
                seen.add(user)
                waiting.append(user)
    return False
