"""Piecewise linear units, and units that take the largest of several inputs."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from gatewise.analysis.planes.affine_rules import Values, no_rule
from gatewise.graph import MAX_POOLS, Node, Pieces, get_operator


def kinks_of(node: Node, values: Values) -> Pieces | None:
    """Return the pieces of an elementwise unit; ``None`` if the call is not one."""
    pieces = get_operator(node.op).pieces
    if pieces is None:
        return None
    arguments = dict(node.arguments)
    if node.op == "prelu":
        arguments["weight"] = _prelu_slope(node, values)
    for name in ("min", "max"):
        if isinstance(arguments.get(name), Node):
            raise no_rule(node, " with bounds that are tensors")
    return pieces.resolve(arguments)


def _prelu_slope(node: Node, values: Values) -> Tensor:
    weight, shape = values[node.inputs[1]], (node.shape or ())[1:]
    spread = weight.reshape(-1, *(1,) * (len(shape) - 1)) if shape else weight
    return spread.expand(shape)


MAXIMA = {"maximum", "minimum", "fmax", "fmin", "amax", "amin", "max", "min"}


def pieces_of(node: Node, values: Values, live: set[Node]) -> tuple[Tensor, float] | None:
    """What a call takes the largest of, as ``(3 N, *shape, k)``, and 1; the least.

    Their negatives, and -1.
    """
    if node.op in MAX_POOLS:
        return _windows(node, values[node.inputs[0]]), 1.0
    if node.op not in MAXIMA:
        return None
    sign = -1.0 if node.op in ("minimum", "fmin", "amin", "min") else 1.0
    if node.op in ("maximum", "minimum", "fmax", "fmin") or node.arguments.get("other") is not None:
        return sign * pair_of(node, values, live), sign
    return sign * _group(node, values[node.inputs[0]]), sign


def is_folded(node: Node) -> bool:
    """Whether only a further maximum reads this one.

    They are one maximum of three, as maxout's are.
    """
    return (
        node.op in ("maximum", "minimum") and len(node.users) == 1 and node.users[0].op == node.op
    )


def pair_of(node: Node, values: Values, live: set[Node]) -> Tensor:
    """Two tensors of which at least one is live, or what they are the maxima of.

    A constant has no slopes.
    """
    count = next(len(values[each]) for each in node.inputs if each in live)
    shape, found = (count, *(node.shape or ())[1:]), []
    for each in (node.arguments["self"], node.arguments["other"]):
        value = values[each]
        if each not in live:
            level = torch.zeros(shape, dtype=torch.float64)
            level[::3] = value[:1] if value.dim() == node.rank else value
            value = level
        folded = each in live and is_folded(each)
        found.append(
            value.expand(*shape, value.shape[-1]) if folded else value.expand(shape).unsqueeze(-1)
        )
    return torch.cat(found, -1)


def _group(node: Node, x: Tensor) -> Tensor:
    dims = node.arguments.get("dim")
    dims = [dims] if isinstance(dims, int) else list(dims or [])
    dims = sorted({dim % x.dim() for dim in dims})
    if not dims or 0 in dims:
        raise no_rule(node, " over the batch")
    rest = [dim for dim in range(x.dim()) if dim not in dims]
    grouped = x.permute(*rest, *dims).flatten(len(rest))
    if node.arguments.get("keepdim"):
        for dim in dims:
            grouped = grouped.unsqueeze(dim)
    return grouped


def _windows(node: Node, x: Tensor) -> Tensor:
    """The inputs of every window of a max-pooling.

    Places outside are a repetition of one that is inside.
    """
    rank = get_operator(node.op).spatial_dims
    a = {name: _each(node.arguments[name], rank) for name in ("kernel_size", "padding", "dilation")}
    stride = _each(node.arguments["stride"] or node.arguments["kernel_size"], rank)
    sizes, out = x.shape[-rank:], (node.shape or ())[-rank:]
    index = torch.arange(sizes.numel()).reshape(sizes) + 1.0  # 0 is outside
    need = [
        s * (o - 1) + d * (k - 1) + 1
        for s, o, d, k in zip(stride, out, a["dilation"], a["kernel_size"], strict=True)
    ]
    pads = [(p, max(0, n - size - p)) for p, n, size in zip(a["padding"], need, sizes, strict=True)]
    index = F.pad(index, [each for pair in reversed(pads) for each in pair])
    for dim in range(rank):
        steps = torch.arange(out[dim])[:, None] * stride[dim]
        taps = steps + torch.arange(a["kernel_size"][dim]) * a["dilation"][dim]
        index = index.index_select(2 * dim, taps.flatten()).unflatten(2 * dim, taps.shape)
    places = (
        index.permute(*range(0, 2 * rank, 2), *range(1, 2 * rank, 2)).flatten(rank).long()
    )  # (*out, k)
    inside = places.amax(-1, keepdim=True)
    return x.flatten(-rank)[..., torch.where(places > 0, places, inside) - 1]


def _each(value: Any, rank: int) -> list[int]:
    found = [value] if isinstance(value, int) else list(value)
    return found * rank if len(found) == 1 else found
