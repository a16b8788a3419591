"""What affine operators do to tensors that are affine functions on a plane.

A tensor of a batch of ``N`` polygons is held as ``(3 N, *shape)``: for each polygon the constant,
and the slopes along the two axes. A linear operator acts on all of them alike; an offset goes to
the constant alone.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from gatewise.errors import Limitation, NotApplicableError
from gatewise.graph import CONVOLUTIONS, CUTS, TRANSPOSED, Kind, Node, filled, operators_of

# of the example a model is read with: unlikely to be any other size, so that it can be told from
# those
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
    """The value of a call that is affine in its live tensors.

    One that has no rule is refused by name.
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
    """The error for an operator that has no rule."""
    where = node.scope[0] or "the model"
    return NotApplicableError(
        Limitation.UNSUPPORTED_OPERATOR,
        f"partition: there is no rule for an operator{why}",
        got=f"{node.op} in {where}",
        allowed="dense and convolution layers, batch normalisation, pooling, max-affine units, "
        "sums, concatenation",
        fix="partition a model that ends before it, or use gw.affine_map, which needs no region",
    )


def _linear(node: Node, values: Values, live: set[Node]) -> Any:
    count = next(len(_tensor(values[each])) for each in node.inputs if each in live)
    if node.shape is not None and node.shape[0] != BATCH:
        raise no_rule(node, " that mixes the batch with other dimensions")
    if node.op == "matmul" and len(live.intersection(node.inputs)) != 1:
        raise no_rule(node, " between two tensors that depend on the input")
    return node.overload(**_arguments(node, values, count))


def _tensor(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else value[0]


def _arguments(node: Node, values: Values, count: int) -> dict[str, Any]:
    found = {name: filled(value, values) for name, value in node.arguments.items()}
    for name in ("size", "shape"):
        if name in found and found[name] and found[name][0] == BATCH:
            found[name] = [count, *found[name][1:]]
    return found


def _with_offset(node: Node, values: Values, live: set[Node]) -> Tensor:
    """Any affine operator: run as it is, and what it makes of zero taken from the slopes."""
    source = next(each for each in node.inputs if each in live)
    run = lambda x: node.overload(**_arguments(node, {**values, source: x}, len(x)))  # noqa: E731
    result, zero = run(values[source]), run(torch.zeros_like(values[source][:1]))
    by_polygon(result)[:, 1:] -= zero
    return result


def _weighted(node: Node, values: Values, live: set[Node]) -> Tensor:
    source, weight = node.inputs[0], node.tensor("weight")
    if source not in live or live.intersection(node.inputs[1:]) or weight is None:
        raise no_rule(node, " whose weights depend on the input")
    result = node.overload(**_arguments(node, values, len(values[source])) | {"bias": None})
    bias = node.tensor("bias")
    if bias is not None:
        spread = (-1, *(1,) * (result.dim() - 2)) if node.op != "linear" else (-1,)
        by_polygon(result)[:, 0] += values[bias].reshape(spread)
    return result


def _batch_norm(node: Node, values: Values, live: set[Node]) -> Tensor:
    x = values[node.inputs[0]]
    spread = (1, -1, *(1,) * (x.dim() - 2))
    mean, var, weight, bias = (
        _given(node, values, name) for name in ("running_mean", "running_var", "weight", "bias")
    )
    if mean is None or var is None or node.arguments.get("training"):
        raise no_rule(node, " that uses statistics of the batch")
    scale = torch.rsqrt(var + node.arguments["eps"]) * (1 if weight is None else weight)
    shift = (0 if bias is None else bias) - mean * scale
    result = x * scale.reshape(spread)
    by_polygon(result)[:, 0] += shift.reshape(spread[1:])
    return result


def _given(node: Node, values: Values, name: str) -> Tensor | None:
    found = node.tensor(name)
    return None if found is None else values[found]


def _sum(node: Node, values: Values, live: set[Node]) -> Tensor:
    """``add``, ``sub`` and ``rsub``: of two live tensors, or of one and a constant."""
    first, second = node.arguments["self"], node.arguments["other"]
    factor = float(node.arguments.get("alpha") or 1)
    signs = {"add": (1.0, factor), "sub": (1.0, -factor), "rsub": (-factor, 1.0)}[node.op]
    result: Tensor | None = None
    offset: Any = None
    for each, sign in zip((first, second), signs, strict=True):
        if isinstance(each, Node) and each in live:
            term = values[each] if sign == 1 else values[each] * sign
            result = term if result is None else result + term
        else:
            offset = constant(filled(each, values)) * sign
    if result is None:
        raise no_rule(node)
    if offset is None:
        return result
    return plus_offset(node, result, offset)


def plus_offset(node: Node, x: Tensor, offset: Any) -> Tensor:
    """``x`` and a constant that may be broadcast against it, or it against the constant."""
    shape = (node.shape or ())[1:]
    result = x.expand(len(x), *shape).clone()
    by_polygon(result)[:, 0] += offset
    return result


def _scaled(node: Node, values: Values, live: set[Node]) -> Tensor:
    first, second = node.arguments["self"], node.arguments["other"]
    if isinstance(second, Node) and second in live:
        if node.op not in ("mul", "multiply") or (isinstance(first, Node) and first in live):
            raise no_rule(node, " between two tensors that depend on the input")
        first, second = second, first
    factor = constant(filled(second, values))
    if node.arguments.get("rounding_mode"):
        raise no_rule(node, " that rounds")
    return values[first] * factor if node.op in ("mul", "multiply") else values[first] / factor


def constant(value: Any) -> Any:
    """A number, or a tensor that is the same for every row of the batch."""
    if (
        isinstance(value, Tensor)
        and value.dim()
        and len(value) == BATCH
        and bool((value == value[:1]).all())
    ):
        return value[:1]
    return value


def _cat(node: Node, values: Values, live: set[Node]) -> Tensor:
    count = next(len(values[each]) for each in node.inputs if each in live)
    parts = []
    for each in node.arguments["tensors"]:
        part = values[each]
        if each not in live:
            part = torch.zeros(count, *constant(part).shape[1:], dtype=torch.float64)
            by_polygon(part)[:, 0] += constant(values[each])
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
