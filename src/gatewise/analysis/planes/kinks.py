"""Units that are affine between thresholds, and units that return the largest of some inputs."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from gatewise.analysis.planes.affine_rules import Values, no_rule
from gatewise.graph import MAX_POOLS, Node, Pieces, get_operator

HARD_SIGMOID = Pieces((-3.0, 3.0), (0.0, 1 / 6, 0.0), (0.0, 0.5, 1.0))


def kinks_of(node: Node, values: Values) -> Pieces | None:
    """Return the pieces of an elementwise unit; ``None`` if the call is not one."""
    pieces = HARD_SIGMOID if node.op == "hardsigmoid" else get_operator(node.op).pieces
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
    weight = values[node.inputs[1]]
    shape = (node.shape or ())[1:]
    if shape:
        weight = weight.reshape(-1, *(1,) * (len(shape) - 1))
    return weight.expand(shape)


MAXIMA = {"maximum", "minimum", "fmax", "fmin", "amax", "amin", "max", "min"}


def pieces_of(node: Node, values: Values, live: set[Node]) -> tuple[Tensor, float] | None:
    """The pieces of which a call returns the largest, or None if it does not.

    Returns:
        The pieces ``(3 N, *shape, k)`` and 1. For a minimum, the negative pieces and -1.
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
    """Whether only another maximum reads this one: both are one maximum, as in maxout."""
    if node.op not in ("maximum", "minimum"):
        return False
    return len(node.users) == 1 and node.users[0].op == node.op


def pair_of(node: Node, values: Values, live: set[Node]) -> Tensor:
    """The pieces of a maximum of two tensors, ``(3 N, *shape, k)``.

    A tensor that is itself a folded maximum contributes its pieces. A constant has no slopes.
    """
    count = next(len(values[source]) for source in node.inputs if source in live)
    shape = (count, *(node.shape or ())[1:])
    pieces = []
    for source in (node.arguments["self"], node.arguments["other"]):
        value = values[source]
        if source not in live:
            level = torch.zeros(shape, dtype=torch.float64)
            level[::3] = value[:1] if value.dim() == node.rank else value
            value = level
        elif is_folded(source):
            pieces.append(value.expand(*shape, value.shape[-1]))
            continue
        pieces.append(value.expand(shape).unsqueeze(-1))
    return torch.cat(pieces, -1)


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

    A place in the padding repeats one inside, which does not change the maximum.
    """
    rank = get_operator(node.op).spatial_dims
    kernel = _per_axis(node.arguments["kernel_size"], rank)
    padding = _per_axis(node.arguments["padding"], rank)
    dilation = _per_axis(node.arguments["dilation"], rank)
    stride = _per_axis(node.arguments["stride"] or node.arguments["kernel_size"], rank)
    sizes = x.shape[-rank:]
    out = (node.shape or ())[-rank:]
    index = torch.arange(sizes.numel()).reshape(sizes) + 1.0  # 0 is the padding
    sides: list[int] = []
    for axis in reversed(range(rank)):  # F.pad starts with the last axis
        needed = stride[axis] * (out[axis] - 1) + dilation[axis] * (kernel[axis] - 1) + 1
        sides += (padding[axis], max(0, needed - sizes[axis] - padding[axis]))
    index = F.pad(index, sides)
    for axis in range(rank):
        starts = torch.arange(out[axis])[:, None] * stride[axis]
        taps = starts + torch.arange(kernel[axis]) * dilation[axis]
        index = index.index_select(2 * axis, taps.flatten()).unflatten(2 * axis, taps.shape)
    index = index.permute(*range(0, 2 * rank, 2), *range(1, 2 * rank, 2))
    places = index.flatten(rank).long()  # (*out, k)
    inside = places.amax(-1, keepdim=True)
    return x.flatten(-rank)[..., torch.where(places > 0, places, inside) - 1]


def _per_axis(value: Any, rank: int) -> list[int]:
    values = [value] if isinstance(value, int) else list(value)
    return values * rank if len(values) == 1 else values
