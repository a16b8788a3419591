"""Activations that a model's code computes by arithmetic, such as ``torch.where(h > 0, h, 0)``.

Those of :data:`WRITTEN_AS` are one site each, such as ``relu(x).square()`` and ``x * sigmoid(x)``.
The others are no sites, since no single call makes them. A note names each one, so that a user
knows what a swap leaves as it is.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from gatewise.graph.interpret import filled
from gatewise.graph.ops import (
    ACTIVATIONS,
    BROADCAST,
    ELEMENTWISE,
    LEAVES,
    Form,
    Kind,
    get_operator,
    is_activation,
    operators_of,
)
from gatewise.graph.trace import Graph, Node, Scope, tensors_in

# Operators that hold whole recurrent layers, with their activations inside.
RECURRENT = frozenset(
    {
        "rnn_relu",
        "rnn_relu_cell",
        "rnn_tanh",
        "rnn_tanh_cell",
        "lstm",
        "lstm_cell",
        "gru",
        "gru_cell",
    }
)
DROPOUTS = operators_of(Kind.DROPOUT)
BINARY = frozenset({"max", "min"})  # elementwise if they have two tensors
WRITES = frozenset({"index_put", "masked_scatter"})
# Operators that an activation can be written with.
ARITHMETIC = (ELEMENTWISE | BROADCAST | BINARY | WRITES) - ACTIVATIONS - DROPOUTS
# A square that is only averaged, or a power inside a norm, is a statistic and no activation.
AVERAGES = operators_of(Kind.AVERAGE_POOL)
ARRANGEMENTS = operators_of(Kind.RESHAPE, Kind.MOVE)
STATISTICS = operators_of(Kind.REDUCTION, Kind.ARG_REDUCTION, Kind.SOFTMAX, Kind.LOG_SOFTMAX)
# Beyond 6, where ReLU6 ends, so that it is not taken for ReLU.
GRID = torch.linspace(-8.0, 8.0, 321, dtype=torch.float64)
TOLERANCE = 1e-6  # for constants such as sqrt(2) that the code writes in single precision


# The operators of sites that are written with several calls, by their name in words.
WRITTEN_AS: Mapping[str, str] = {
    "squared ReLU": "relu2",
    "squared leaky ReLU": "leaky_relu2",
    "SiLU": "silu",
    "GELU by a sigmoid": "quick_gelu",
    "GELU": "gelu",
    "GELU with tanh": "gelu_tanh",
    "Mish": "mish",
    "hardswish": "hardswish",
    "ReLU6": "relu6",
}
UNNAMED = "a nonlinear function"
NOT_A_SITE = "not a site: "  # with which the notes begin
MOST_CALLS = 16  # of one written activation
STARTS = frozenset({"erf", "exp"})  # with which one may be written without an activation


@dataclass(frozen=True)
class Written:
    """An activation that is written with several calls.

    Attributes:
        root: its input.
        end: the call that makes its output.
        region: all of its calls, in order.
        op: its name.
    """

    root: Node
    end: Node
    region: tuple[Node, ...]
    op: str


def find_written(graph: Graph) -> Sequence[Written]:
    """Return the activations that the code of one module writes with several calls, in order.

    Every call but the last is read by the others only, so that one call of a unit can take the
    place of all of them. Of an activation and a larger one with another name, the larger counts.
    """
    if not any(is_activation(node.op) or node.op in STARTS for node in graph):
        return ()
    roots = _Roots(graph, (), ARITHMETIC | {node.op for node in graph if is_activation(node.op)})
    written: list[Written] = []
    for node in graph:
        found = _written(node, roots)
        if found is None:
            continue
        parts = [each for each in written if each.end in found.region]
        if all(part.op != found.op for part in parts):
            written = [each for each in written if each not in parts]
            written.append(found)
    return written


def _written(node: Node, roots: "_Roots") -> Written | None:
    """Return the activation of several calls that ``node`` ends, if there is one."""
    if is_activation(node.op) or not roots.ends_activation(node, nonlinear_readers=False):
        return None
    region = roots.region(node)
    root = roots.of[node]
    if not 1 < len(region) <= MOST_CALLS or root is None or node.dtype != root.dtype:
        return None
    if not _is_closed(region, node) or any(member.inplace for member in region):
        return None
    activations = [member for member in region if is_activation(member.op)]
    if not activations and not any(member.op in STARTS for member in region):
        return None
    op = WRITTEN_AS.get(_recognise(region, root))
    is_read = any(reader.op not in STATISTICS | AVERAGES for reader in node.users)
    if op is None and activations and node.op in ("square", "pow") and is_read:
        op = "composite"
    return None if op is None else Written(root, node, tuple(region), op)


def _is_closed(region: Collection[Node], end: Node) -> bool:
    """Whether only ``end`` is read from outside of ``region``."""
    members = set(region)
    return all(member is end or members.issuperset(member.users) for member in region)


@dataclass(frozen=True)
class _Polynomial:
    """How a node depends on the outputs of activations that have the same input.

    Attributes:
        root: the tensor of which the node is an elementwise function; ``None`` for a constant.
        affine: whether it is an affine function of the root and of the outputs of activations.
        activations: the activations' outputs among them.
        ops: the operators after the activations.
    """

    root: Node | None = None
    affine: bool = True
    activations: frozenset[Node] = frozenset()
    ops: tuple[str, ...] = ()


def incomplete_activations(
    graph: Graph, ends: Mapping[Node, tuple[Node, Collection[Node]]]
) -> dict[Node, tuple[str, ...]]:
    """Return the activations that are only a part of what the code computes of their input.

    Such as the ReLU of ``F.relu(x).square() + F.relu(x)``: a nonlinear function of its output, or a
    product of its output with its input, is computed elementwise. So is the ReLU of a sum of
    activations that is an activation with a name. The values are the operators.

    Args:
        graph: the graph of the model.
        ends: by the output of each activation its input and the nodes between them.
    """
    inside = {node: source for source, nodes in ends.values() for node in nodes}
    known: dict[Node, _Polynomial] = {}
    parts: dict[Node, tuple[str, ...]] = {}
    for node in graph:
        if node in ends:
            source = ends[node][0]
            root = known[source].root if node.shape == source.shape else node
            known[node] = _Polynomial(root or node, activations=frozenset({node}))
        elif node in inside:
            known[node] = known[inside[node]]
        else:
            known[node] = _polynomial(node, known)
    for node, value in known.items():
        is_more = len(value.activations) > value.affine and node.floating
        readers = [user for user in node.users if known[user].root is not value.root]
        readers = [reader for reader in readers if reader.op not in STATISTICS]
        if not is_more or not readers:
            continue
        is_averaged = all(reader.op in AVERAGES for reader in readers)  # as a mean of powers is
        if not (value.affine or is_averaged) or _is_named(node, value.root):
            for end in value.activations:
                parts.setdefault(end, tuple(dict.fromkeys((end.op, *value.ops))))
    return parts


def _is_named(end: Node, root: Node | None) -> bool:
    """Whether ``end`` is a function of ``root`` that has a name."""
    return _recognise(_between(root, end), root) != UNNAMED


def _polynomial(node: Node, known: Mapping[Node, _Polynomial]) -> _Polynomial:
    if node.op in LEAVES - {"input"} or get_operator(node.op).kind is Kind.FILL:
        return _Polynomial()
    sources = [known[source] for source in node.inputs if known[source].root is not None]
    if node.op in ARRANGEMENTS and len(sources) == 1 and sources[0].affine:
        return _Polynomial(node, activations=sources[0].activations, ops=sources[0].ops)
    if not sources or len({source.root for source in sources}) > 1 or not _is_elementwise(node):
        return _Polynomial(node if sources or node.op == "input" else None)
    form = get_operator(node.op).form
    factors = [value for value in tensors_in(node.arguments) if known[value].root is not None]
    affine = all(source.affine for source in sources) and form in (Form.AFFINE, Form.MULTILINEAR)
    if form is Form.MULTILINEAR:
        divides = "div" in node.op and node.arguments.get("other") in factors
        affine = affine and len(factors) == 1 and not divides
    activations = frozenset().union(*(source.activations for source in sources))
    ops = dict.fromkeys(op for source in sources for op in source.ops)
    return _Polynomial(sources[0].root, affine, activations, (*ops, node.op))


def _is_elementwise(node: Node) -> bool:
    if node.op == "einsum":
        inputs, _, result = str(node.arguments["equation"]).replace(" ", "").partition("->")
        return set(inputs.split(",")) == {result}
    return node.op in ARITHMETIC | ACTIVATIONS | DROPOUTS | {"addcmul"} or _is_binary(node)


class WrittenActivation(str):
    """The note about one activation that is no site.

    Attributes:
        module: path of the module that computes it.
    """

    module: str


def written_activations(
    graph: Graph,
    inside_sites: Collection[Scope],
    outputs: Collection[Node] = (),
) -> Iterator[WrittenActivation]:
    """Yield one note for each place that computes an activation without an activation operator.

    Args:
        graph: the graph of the model.
        inside_sites: calls of modules that are sites as a whole.
        outputs: the outputs of the sites.
    """
    roots = _Roots(graph, inside_sites)
    for node in graph:
        module = node.scope[0]
        if node.op in RECURRENT:
            yield _note(f"the activations inside {node.op}, one operator", module)
        elif node not in outputs and roots.ends_activation(node):
            region = roots.region(node)
            operators = ", ".join(dict.fromkeys(member.op for member in region))
            name = _recognise(region, roots.of[node])
            yield _note(f"{name}, written as {operators}", module)


def _note(activation: str, module: str) -> WrittenActivation:
    note = WrittenActivation(f"{NOT_A_SITE}{activation}, in {module or 'the model'}")
    note.module = module
    return note


def known_activations(notes: Iterable[str]) -> tuple[str, ...]:
    """Return the activations that are no sites, and have a name, from the notes about a model.

    Such as ``"ReLU (written as clamp, in the model)"``. A swap leaves them as they are.
    """
    known = []
    for note in notes:
        activation, _, how = note.removeprefix(NOT_A_SITE).partition(", ")
        if note.startswith(NOT_A_SITE) and activation != UNNAMED:
            known.append(f"{activation} ({how})")
    return tuple(known)


class _Roots:
    """For each node, the tensor of which it is an elementwise function.

    Attributes:
        of: the root of each node; ``None`` if it is computed from parameters and constants only.
        affine: the nodes that are an affine function of their root.
        data: the nodes that depend on a floating-point input or on an embedding. Positions and
            masks do not.
    """

    def __init__(
        self,
        graph: Graph,
        inside_sites: Collection[Scope],
        operators: Collection[str] = ARITHMETIC,
    ) -> None:
        self.graph = graph
        self.inside_sites = inside_sites
        self.operators = operators  # with which a function of the root may be written
        self.of: dict[Node, Node | None] = {}
        self.affine: set[Node] = set()
        self.data: set[Node] = set()
        for node in graph:
            self._add(node)

    def ends_activation(self, node: Node, *, nonlinear_readers: bool = True) -> bool:
        """Whether ``node`` is a nonlinear function of its root that the model goes on with.

        Args:
            node: the node.
            nonlinear_readers: whether something else than a function of the same root must read it.
        """
        root = self.of[node]
        if root is None or root is node or node in self.affine or root not in self.data:
            return False
        if not node.floating or not root.floating or node.shape != root.shape:
            return False
        if root.op in STATISTICS:  # the square root of a variance, as norms have it
            return False
        if not nonlinear_readers:
            return bool(node.users)
        readers = [user for user in node.users if self.of.get(user) is not root]
        return any(reader.op not in STATISTICS for reader in readers)

    def region(self, node: Node) -> list[Node]:
        """Return the nodes between the root and ``node``, ``node`` included, in call order."""
        return _between(self.of[node], node)

    def _add(self, node: Node) -> None:
        if node.op in ("parameter", "buffer", "constant"):
            self.of[node] = None
            return
        changing = [source for source in node.inputs if self.of[source] is not None]
        if node.op == "input" or self._starts(node):
            self.of[node] = node if node.op == "input" or changing else None
        else:
            roots = {self.of[source] for source in changing}
            several = len(roots) > 1
            self.of[node] = node if several else next(iter(roots), None)
            if not several and self._is_affine(node, changing):
                self.affine.add(node)
        carries = any(source in self.data for source in node.inputs)
        if carries or node.op == "embedding" or (node.op == "input" and node.floating):
            self.data.add(node)

    def _starts(self, node: Node) -> bool:
        """Whether the output of ``node`` is not an elementwise function of its inputs' roots."""
        if node.scope in self.inside_sites or node.op not in self.operators:
            return True
        elementwise = node.op in ELEMENTWISE | BROADCAST or _is_binary(node)
        return not elementwise and not _writes_by_mask(node)

    def _is_affine(self, node: Node, changing: Collection[Node]) -> bool:
        """Whether ``node`` is an affine function of its root."""
        if any(source not in self.affine and self.of[source] is not source for source in changing):
            return False
        form = get_operator(node.op).form
        if form is Form.MULTILINEAR:
            factors = [value for value in node.arguments.values() if value in changing]
            divides_by = node.arguments.get("other") in changing and "div" in node.op
            return len(factors) == 1 and not divides_by
        return form is Form.AFFINE


def _between(root: Node | None, end: Node) -> list[Node]:
    """Return the nodes of which ``end`` is computed, itself included, as far as ``root``."""
    region: set[Node] = set()
    pending = [end]
    while pending:
        member = pending.pop()
        if member is not root and member not in region and member.op not in LEAVES:
            region.add(member)
            pending.extend(member.inputs)
    return sorted(region, key=lambda member: member.index)


def _is_binary(node: Node) -> bool:
    """Whether ``node`` is ``torch.max(x, y)`` or ``torch.min(x, y)``, elementwise in both."""
    return node.op in BINARY and node.tensor("other") is not None


def _writes_by_mask(node: Node) -> bool:
    """Whether ``node`` is ``x[mask] = number`` with a mask that a comparison made."""
    if node.op not in WRITES:
        return False
    return any(get_operator(source.op).kind is Kind.COMPARISON for source in node.inputs)


def _recognise(region: Collection[Node], root: Node | None) -> str:
    """Return the name of the function that ``region`` computes of ``root``."""
    try:
        values = _values_on_grid(region, root)
    except Exception:  # an operator may refuse the grid's shape, or need a parameter
        return UNNAMED
    for name, function in _known_functions(values):
        if torch.allclose(values, function, rtol=TOLERANCE, atol=TOLERANCE):
            return name
    return UNNAMED


def _values_on_grid(region: Collection[Node], root: Node | None) -> Tensor:
    """Return the values of the last node of ``region`` where its root has the values of GRID."""
    values: dict[Any, Any] = {root: GRID}
    result = GRID
    for node in region:
        for source in node.inputs:
            if source.op == "constant" and source not in values:
                values[source] = source.value
        if not node.inputs:  # zeros(shape) and its relatives fill the shape of the root
            number = node.overload(**(filled(dict(node.arguments), values) | {"size": [1]}))
            values[node] = number.to(GRID.dtype)
            continue
        arguments = filled(dict(node.arguments), values)
        if node.inplace:
            first = next(iter(arguments))
            arguments[first] = arguments[first].clone()
        result = node.overload(**arguments)
        values[node] = result
    return result.to(GRID.dtype)


def _known_functions(values: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yield the common activations with their values on the grid."""
    x = GRID
    yield "ReLU", functional.relu(x)
    yield "squared ReLU", functional.relu(x) ** 2
    yield "the absolute value", x.abs()
    yield "the square", x * x
    yield "SiLU", functional.silu(x)
    yield "GELU by a sigmoid", x * torch.sigmoid(1.702 * x)
    yield "GELU", functional.gelu(x)
    yield "GELU with tanh", functional.gelu(x, approximate="tanh")
    yield "Mish", functional.mish(x)
    yield "ReLU6", functional.relu6(x)
    yield "hardswish", functional.hardswish(x)
    yield "tanh", x.tanh()
    yield "sigmoid", x.sigmoid()
    yield "softplus", functional.softplus(x)
    yield "ELU", functional.elu(x)
    yield "SELU", functional.selu(x)
    slope = float(values[0].abs().sqrt() / -x[0])
    yield "squared leaky ReLU", torch.where(x > 0, x, slope * x) ** 2
    slope = float(values[0] / x[0])
    yield f"leaky ReLU with slope {slope:.6g}", torch.where(x > 0, x, slope * x)
