"""Gated linear units: an activation of one response times another response.

Note [Gate and value]. ``h = act(g) * u`` has two branches: the gate ``g`` and the value ``u``. Both
are made from one tensor, by two layers or by two parts of one layer's output, whether the code
divides it by ``chunk``, ``split``, slices, steps or ``torch.nn.functional.glu``, or leaves that to
a unit of this library. What the value is
multiplied with decides which branch is the gate, not the order of the halves, which differs from
library to library.
"""

from dataclasses import dataclass
from typing import Any

from gatewise.graph.ops import (
    BROADCAST,
    CUTS,
    ELEMENTWISE,
    GLUS,
    LEAVES,
    OPERATORS,
    PRODUCTS,
    RESHAPES,
    SPLITS,
    Kind,
    get_operator,
)
from gatewise.graph.relations import producers
from gatewise.graph.trace import Node
from gatewise.units import TwoBranchUnit, registered_units

STEPS = 12  # calls between an activation and the product with its value
ALL = "all"
# The parts of gate and value in the input of an operator or a unit that holds both.
PARTS = {
    "gate_last": ("second half", "first half"),
    "gate_first": ("first half", "second half"),
    "interleaved": ("even", "odd"),
}


@dataclass(frozen=True)
class Branch:
    """One of the two responses of a gated linear unit.

    Attributes:
        layers: paths of the layers that make it.
        part: which of their outputs it has: ``"all"``, ``"first half"``, ``"second half"``,
            ``"even"``, ``"odd"``, or another part in words.
    """

    layers: tuple[str, ...]
    part: str


@dataclass(frozen=True, eq=False)
class Glu:
    """A gated linear unit in a graph.

    Attributes:
        gate: the gate branch.
        value: the value branch.
        product: the node that multiplies both; the activation itself, if it does.
        value_node: the factor of the product that is the value; ``None`` if one operator has both.
    """

    gate: Branch
    value: Branch
    product: Node
    value_node: Node | None


def holds_both_branches(op: str) -> bool:
    """Return whether an operator or unit takes gate and value as one tensor."""
    unit = registered_units().get(op)
    return op in GLUS or (unit is not None and issubclass(unit.module, TwoBranchUnit))


def glu_of(entry: Node, output: Node, layout: str | None = None) -> Glu | None:
    """Return the gated linear unit that an activation is the gate of, if it is one.

    Args:
        entry: the input of the activation.
        output: the output of the activation.
        layout: how the input holds both branches, if a unit of this library divides it.
    """
    if layout is not None or output.op in GLUS:
        layers = _paths(producers(entry))
        gate, value = PARTS[layout or "gate_last"]
        return Glu(Branch(layers, gate), Branch(layers, value), output, None)
    makers = producers(entry)
    if not makers or any(maker.op == "input" for maker in makers):
        return None
    node = output
    for _ in range(STEPS):
        following = None
        for user in node.users:
            if user.op in PRODUCTS and "div" not in user.op:
                value = _other_factor(user, node)
                if value is not None and _is_value(value, entry, makers):
                    gate = Branch(_paths(makers), _part(entry))
                    other = Branch(_paths(producers(value)), _part(value))
                    return Glu(gate, other, user, value)
            if user.op in ELEMENTWISE | BROADCAST and user.shape == output.shape:
                following = user if following is None else following
        if following is None:
            return None
        node = following
    return None


def _other_factor(product: Node, factor: Node) -> Node | None:
    """Return the tensor that ``product`` multiplies ``factor`` with."""
    for other in product.inputs:
        if other is not factor and other.op not in LEAVES and other.floating:
            return other
    return None


def _is_value(value: Node, entry: Node, makers: list[Node]) -> bool:
    """Return whether ``value`` is a second response beside the gate response ``entry``.

    It has the gate's shape, and is made from the tensor that the gate is made from: by other
    layers, or as another part of the same layer's output.
    """
    if value.shape != entry.shape or _is_filled(value):
        return False
    others = producers(value)
    if not others or any(other.op == "input" for other in others):
        return False
    if others == makers:
        return _source(value) is not _source(entry)
    return {_read_by(other) for other in others} == {_read_by(maker) for maker in makers}


def _read_by(layer: Node) -> Node | None:
    """Return the tensor that a layer reads, without casts and views before it."""
    for source in layer.inputs:
        if source.op not in LEAVES or source.op == "input":
            return _before_views(source)
    return None


def _before_views(node: Node) -> Node:
    views = RESHAPES | ELEMENTWISE
    while node.op in views and get_operator(node.op).kind in (
        Kind.RESHAPE,
        Kind.IDENTITY,
        Kind.COPY,
        Kind.DROPOUT,
    ):
        node = node.inputs[0]
    return node


def _is_filled(node: Node) -> bool:
    """Return whether a tensor is one number everywhere."""
    while node.op in OPERATORS and get_operator(node.op).kind in (Kind.EXPAND, Kind.RESHAPE):
        node = node.inputs[0]
    return node.op in OPERATORS and get_operator(node.op).kind is Kind.FILL


def _source(node: Node) -> Node:
    """Return the part of a layer's output that ``node`` is an elementwise function of."""
    while node.op in ELEMENTWISE | BROADCAST and node.inputs:
        live = [source for source in node.inputs if source.op not in LEAVES]
        if not live:
            break
        node = live[0]
    return node


def _part(node: Node) -> str:
    """Return in words which part of a layer's output ``node`` is made from."""
    node = _source(node)
    while node.op in RESHAPES and node.inputs:
        node = _source(node.inputs[0])
    if node.op == "getitem":
        return _part_of_split(node.inputs[0], int(node.arguments["index"]))
    if node.op in SPLITS:
        return ALL
    if node.op == "slice":
        return _part_of_slice(node)
    if node.op == "select":
        return _of_two(int(node.arguments["index"]), node.inputs[0].shape, node.arguments["dim"])
    return f"a part cut by {node.op}" if node.op in CUTS else ALL


def _part_of_split(split: Node, index: int) -> str:
    if split.op == "unbind":
        return _of_two(index, split.inputs[0].shape, split.arguments.get("dim", 0))
    parts = len(split.users)
    return _half(index % 2) if parts <= 2 else f"part {index + 1} of {parts}"


def _of_two(index: int, shape: tuple[int, ...] | None, dim: Any) -> str:
    """Return which of two a position along a dimension of size 2 is: pairs stand side by side."""
    if shape is None or shape[int(dim)] != 2:
        return f"position {index}"
    return "even" if index % 2 == 0 else "odd"


def _part_of_slice(node: Node) -> str:
    size = (node.inputs[0].shape or (0,))[int(node.arguments.get("dim", 0))]
    start = int(node.arguments.get("start") or 0)
    end = min(int(node.arguments.get("end") or size), size)
    step = int(node.arguments.get("step") or 1)
    if step == 2:
        return "odd" if start % 2 else "even"
    if step == 1 and 2 * (end - start) == size and start in (0, size // 2):
        return _half(1 if start else 0)
    if (start, end, step) == (0, size, 1):
        return ALL
    return f"{start} to {end} of {size}"


def _half(index: int) -> str:
    return "second half" if index else "first half"


def _paths(layers: list[Node]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(layer.scope[0] or layer.op for layer in layers))
