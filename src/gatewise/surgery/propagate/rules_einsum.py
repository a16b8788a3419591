"""Rules for ``torch.einsum`` and ``torch.nn.functional.bilinear``.

Both multiply computed tensors with stored ones along named dimensions. A change along a dimension
that is summed over ends with an edit of the stored tensors. Any other change is passed on.
"""

from gatewise.graph import Node
from gatewise.surgery.propagate.maps import ChannelMap
from gatewise.surgery.propagate.rules_layers import STORED, rows
from gatewise.surgery.propagate.sweep import Sweep
from gatewise.surgery.reasons import Reason, Refusal


def einsum(sweep: Sweep, node: Node) -> None:
    """Edit the stored operands of an einsum, or pass the change on.

    A product of two computed tensors over the changed dimension is refused.
    """
    terms, result = _terms(node)
    wanted = sweep.sources.get(node)
    changes = {}
    for operand, labels in terms:
        change = sweep.map_of(operand)
        if change is not None:
            changes[labels[change.dim]] = change
    if wanted is not None:
        changes[result[wanted.dim]] = wanted
    if len(changes) != 1:
        raise Refusal(Reason.DIFFERENT, node.scope[0])
    label, change = next(iter(changes.items()))
    summed = label not in result
    if summed:
        sweep.check_reader(node, change)
        changed = [operand for operand, _ in terms if sweep.map_of(operand) is not None]
        if len(changed) > 1:
            raise Refusal(Reason.ATTENTION, node.scope[0])
    for operand, labels in terms:
        if label not in labels or sweep.map_of(operand) is not None:
            continue
        if operand.op not in STORED:
            raise Refusal(Reason.ATTENTION, node.scope[0])
        sweep.edit(node, operand, labels.index(label), change, "zero" if summed else "copy")
    if not summed:
        sweep.maps[node] = change.moved(result.index(label))


def by_einsum(sweep: Sweep, node: Node, wanted: ChannelMap) -> None:
    """Change the operands of an einsum that have the dimension of its output."""
    terms, result = _terms(node)
    label = result[wanted.dim]
    for operand, labels in terms:
        if label in labels and operand.op not in STORED:
            sweep.trace_back(operand, wanted.moved(labels.index(label)))
            return
    sweep.sources[node] = wanted


def bilinear(sweep: Sweep, node: Node) -> None:
    """Edit a bilinear layer: its weight has the outputs first, then both inputs."""
    weight = node.arguments["weight"]
    if weight.op not in STORED or weight in sweep.maps:
        raise Refusal(Reason.COMPUTED_WEIGHT, node.scope[0])
    sizes = weight.shape or (0, 0, 0)
    for place, name in ((1, "input1"), (2, "input2")):
        source = node.arguments[name]
        change = sweep.map_of(source)
        if change is None:
            continue
        if change.dim != source.rank - 1:
            raise Refusal(Reason.NO_RULE, node.op)
        sweep.edit_reader(node, weight, place, change)
        sweep.set(weight, f"in{place}_features", sizes[place], len(change))
    rows(sweep, node, weight, 0, "out_features")


def _terms(node: Node) -> tuple[list[tuple[Node, str]], str]:
    """Return each operand with one letter per dimension, and the letters of the output.

    The dimensions of an ellipsis get digits, counted from the last one, since they are broadcast
    from there.
    """
    equation = str(node.arguments["equation"]).replace(" ", "")
    operands: list[Node] = list(node.arguments["tensors"])
    left, arrow, right = equation.partition("->")
    terms = []
    for operand, term in zip(operands, left.split(","), strict=True):
        hidden = operand.rank - len(term.replace("...", ""))
        digits = "".join(str(place) for place in reversed(range(hidden)))
        labels = term.replace("...", digits)
        # A repeated letter takes a diagonal, which has no rule.
        if len(set(labels)) < len(labels) or hidden > 9:
            raise Refusal(Reason.NO_RULE, f"einsum {equation}")
        terms.append((operand, labels))
    if not arrow:
        raise Refusal(Reason.NO_RULE, f"einsum {equation} without an output term")
    hidden = node.rank - len(right.replace("...", ""))
    digits = "".join(str(place) for place in reversed(range(hidden)))
    return terms, right.replace("...", digits)
