"""The rules of affine operators on tensors that are affine functions on a plane.

A tensor of a batch of ``N`` polygons is stored as ``(3 N, *shape)``: for each polygon the constant
and the slopes along the two axes. A linear operator acts on all three alike. An offset is added to
the constant only.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from gatewise.errors import Limitation, NotApplicableError
from gatewise.graph import CONVOLUTIONS, CUTS, TRANSPOSED, Kind, Node, filled, operators_of

# The batch size of the example that a model is read with. It is unlikely to be any other size, so
# that the batch dimension can be recognised.
BATCH = 7

# Operators that act on the constant and on the slopes alike.
LINEAR = (
    operators_of(
        Kind.AVERAGE_POOL,
        Kind.MOVE,
        Kind.RESHAPE,
        Kind.REPEAT,
        Kind.SHUFFLE,
        Kind.SPLIT,
        Kind.UPSAMPLE,
    )
    | (CUTS - {"index", "gather"})  # these have indices of the batch
    | operators_of(Kind.PAD) - {"pad", "constant_pad_nd"}
    | {"expand", "stack", "mean", "sum", "neg", "im2col", "matmul", "mm"}
)
SAME = operators_of(Kind.IDENTITY, Kind.COPY, Kind.DROPOUT) - {"native_dropout"}
WITH_OFFSET = {"pad", "constant_pad_nd", "addmm"}
WEIGHTED = {"linear", *CONVOLUTIONS, *TRANSPOSED}

Values = Mapping[Node, Any]


def affine(node: Node, values: Values, live: set[Node]) -> Any:
    """The value of a call that is affine in the tensors that depend on the input.

    Args:
        node: the call.
        values: the values of its arguments.
        live: the nodes that depend on the input.

    Raises:
        NotApplicableError: if the operator has no rule.
    """
    if node.op == "getitem":
        return values[node.inputs[0]][node.arguments["index"]]
    if node.op in SAME:
        if not node.floating:
            raise no_rule(node, " that rounds to whole numbers")
        return values[node.inputs[0]]
    rule = RULES.get(node.op)
    if rule is None or node.overload is None:
        raise no_rule(node)
    return rule(node, values, live)


def no_rule(node: Node, why: str = "") -> NotApplicableError:
    """The error for an operator without a rule; ``why`` continues the sentence."""
    where = node.scope[0] or "the model"
    return NotApplicableError(
        Limitation.UNSUPPORTED_OPERATOR,
        f"partition: there is no rule for an operator{why}",
        got=f"{node.op} in {where}",
        allowed="dense and convolution layers, batch normalisation, pooling, max-affine units, "
        "sums, concatenation",
        fix="partition a model that ends before it, or use gw.analysis.affine_map",
    )


def _linear(node: Node, values: Values, live: set[Node]) -> Any:
    source = _first_live(node, live)
    value = values[source]
    count = len(value if isinstance(value, Tensor) else value[0])
    if node.shape is not None and node.shape[0] != BATCH:
        raise no_rule(node, " that mixes the batch with other dimensions")
    if node.op == "matmul" and len(live.intersection(node.inputs)) != 1:
        raise no_rule(node, " between two tensors that depend on the input")
    return node.overload(**_arguments(node, values, count))


def _first_live(node: Node, live: set[Node]) -> Node:
    return next(source for source in node.inputs if source in live)


def _arguments(node: Node, values: Values, count: int) -> dict[str, Any]:
    """The arguments of a call, with ``count`` as the batch size of shapes."""
    arguments = {name: filled(value, values) for name, value in node.arguments.items()}
    for name in ("size", "shape"):
        sizes = arguments.get(name)
        if sizes and sizes[0] == BATCH:
            arguments[name] = [count, *sizes[1:]]
    return arguments


def _with_offset(node: Node, values: Values, live: set[Node]) -> Tensor:
    """Any affine operator: run it, and subtract its value at zero from the slopes."""
    source = _first_live(node, live)

    def run(x: Tensor) -> Tensor:
        return node.overload(**_arguments(node, {**values, source: x}, len(x)))

    result = run(values[source])
    by_polygon(result)[:, 1:] -= run(torch.zeros_like(values[source][:1]))
    return result


def _weighted(node: Node, values: Values, live: set[Node]) -> Tensor:
    source = node.inputs[0]
    if source not in live or live.intersection(node.inputs[1:]) or node.tensor("weight") is None:
        raise no_rule(node, " whose weights depend on the input")
    result = node.overload(**_arguments(node, values, len(values[source])) | {"bias": None})
    bias = _parameter(node, values, "bias")
    if bias is not None:
        shape = (-1,) if node.op == "linear" else (-1, *(1,) * (result.dim() - 2))
        by_polygon(result)[:, 0] += bias.reshape(shape)
    return result


def _batch_norm(node: Node, values: Values, live: set[Node]) -> Tensor:
    x = values[node.inputs[0]]
    shape = (-1, *(1,) * (x.dim() - 2))
    mean = _parameter(node, values, "running_mean")
    var = _parameter(node, values, "running_var")
    weight = _parameter(node, values, "weight")
    bias = _parameter(node, values, "bias")
    if mean is None or var is None or node.arguments.get("training"):
        raise no_rule(node, " that uses statistics of the batch")
    scale = torch.rsqrt(var + node.arguments["eps"]) * (1 if weight is None else weight)
    shift = (0 if bias is None else bias) - mean * scale
    result = x * scale.reshape(1, *shape)
    by_polygon(result)[:, 0] += shift.reshape(shape)
    return result


def _parameter(node: Node, values: Values, name: str) -> Tensor | None:
    source = node.tensor(name)
    return None if source is None else values[source]


def _sum(node: Node, values: Values, live: set[Node]) -> Tensor:
    """``add``, ``sub`` and ``rsub`` of two live tensors, or of one and a constant."""
    terms = (node.arguments["self"], node.arguments["other"])
    factor = float(node.arguments.get("alpha") or 1)
    signs = {"add": (1.0, factor), "sub": (1.0, -factor), "rsub": (-factor, 1.0)}[node.op]
    result: Tensor | None = None
    offset: Any = None
    for term, sign in zip(terms, signs, strict=True):
        if isinstance(term, Node) and term in live:
            value = values[term] if sign == 1 else values[term] * sign
            result = value if result is None else result + value
        else:
            offset = constant(filled(term, values)) * sign
    if result is None:
        raise no_rule(node)
    if offset is None:
        return result
    return plus_offset(node, result, offset)


def plus_offset(node: Node, x: Tensor, offset: Any) -> Tensor:
    """``x`` plus a constant, with broadcasting in both directions."""
    shape = (node.shape or ())[1:]
    result = x.expand(len(x), *shape).clone()
    by_polygon(result)[:, 0] += offset
    return result


def _scaled(node: Node, values: Values, live: set[Node]) -> Tensor:
    first = node.arguments["self"]
    second = node.arguments["other"]
    if isinstance(second, Node) and second in live:
        if node.op not in ("mul", "multiply") or (isinstance(first, Node) and first in live):
            raise no_rule(node, " between two tensors that depend on the input")
        first, second = second, first
    factor = constant(filled(second, values))
    if node.arguments.get("rounding_mode"):
        raise no_rule(node, " that rounds")
    if node.op in ("mul", "multiply"):
        return values[first] * factor
    return values[first] / factor


def constant(value: Any) -> Any:
    """A number, or a tensor that is the same for every row of the batch."""
    if not isinstance(value, Tensor) or not value.dim() or len(value) != BATCH:
        return value
    if bool((value == value[:1]).all()):
        return value[:1]
    return value


def _cat(node: Node, values: Values, live: set[Node]) -> Tensor:
    count = len(values[_first_live(node, live)])
    parts = []
    for source in node.arguments["tensors"]:
        part = values[source]
        if source not in live:
            part = torch.zeros(count, *constant(part).shape[1:], dtype=torch.float64)
            by_polygon(part)[:, 0] += constant(values[source])
        parts.append(part)
    if (node.arguments["dim"] or 0) % node.rank == 0:
        raise no_rule(node, " that joins along the batch")
    return torch.cat(parts, node.arguments["dim"])


def by_polygon(x: Tensor) -> Tensor:
    """``(3 N, *shape)`` as ``(N, 3, *shape)``."""
    return x.view(-1, 3, *x.shape[1:])


RULES: dict[str, Callable[[Node, Values, set[Node]], Any]] = {
    **dict.fromkeys(LINEAR, _linear),
    **dict.fromkeys(WITH_OFFSET, _with_offset),
    **dict.fromkeys(WEIGHTED, _weighted),
    **dict.fromkeys(("add", "sub", "rsub"), _sum),
    **dict.fromkeys(("mul", "multiply", "div", "divide", "true_divide"), _scaled),
    "batch_norm": _batch_norm,
    "cat": _cat,
}
