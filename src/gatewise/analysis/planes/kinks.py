"""Units that are affine between thresholds, and units that return the largest of some inputs."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from gatewise.analysis.planes.affine_rules import Values, no_rule
from gatewise.graph import Node

Number = float | Tensor


@dataclass(frozen=True)
class Kinks:
    """A function ``slopes[i] z + offsets[i]`` between the thresholds ``i - 1`` and ``i``.

    Attributes:
        thresholds: ascending.
        slopes: one more than thresholds. A tensor has one slope for each number of an input.
        offsets: as many as slopes.
    """

    thresholds: tuple[float, ...]
    slopes: tuple[Number, ...]
    offsets: tuple[float, ...]

    @property
    def is_relu(self) -> bool:
        """Whether the number of a piece, 0 or 1, is its slope."""
        plain = not any(isinstance(slope, Tensor) for slope in self.slopes)
        return plain and self.thresholds == (0.0,) and self.slopes == (0.0, 1.0)


def kinks_of(node: Node, values: Values) -> Kinks | None:
    """The kinks of an elementwise unit, or None if the call is not one."""
    a = node.arguments
    match node.op:
        case "relu":
            return Kinks((0.0,), (0.0, 1.0), (0.0, 0.0))
        case "leaky_relu":
            return Kinks((0.0,), (float(a["negative_slope"]), 1.0), (0.0, 0.0))
        case "rrelu":
            return Kinks((0.0,), ((a["lower"] + a["upper"]) / 2, 1.0), (0.0, 0.0))
        case "prelu":
            return Kinks((0.0,), (_prelu_slope(node, values), 1.0), (0.0, 0.0))
        case "abs":
            return Kinks((0.0,), (-1.0, 1.0), (0.0, 0.0))
        case "threshold":
            return Kinks((float(a["threshold"]),), (0.0, 1.0), (float(a["value"]), 0.0))
        case "relu6":
            return _clamp(0.0, 6.0)
        case "hardtanh":
            return _clamp(a["min_val"], a["max_val"])
        case "clamp" | "clamp_min" | "clamp_max" | "clip":
            return _clamp(_number(node, a.get("min")), _number(node, a.get("max")))
        case "hardshrink":
            return Kinks((-a["lambd"], a["lambd"]), (1.0, 0.0, 1.0), (0.0, 0.0, 0.0))
        case "softshrink":
            return Kinks((-a["lambd"], a["lambd"]), (1.0, 0.0, 1.0), (a["lambd"], 0.0, -a["lambd"]))
    return None


def _number(node: Node, value: Any) -> float | None:
    if isinstance(value, Node):
        raise no_rule(node, " with bounds that are tensors")
    return None if value is None else float(value)


def _clamp(low: float | None, high: float | None) -> Kinks:
    kinks = Kinks((), (1.0,), (0.0,))
    if low is not None:
        kinks = Kinks((low,), (0.0, 1.0), (low, 0.0))
    if high is not None:
        kinks = Kinks((*kinks.thresholds, high), (*kinks.slopes, 0.0), (*kinks.offsets, high))
    return kinks


def _prelu_slope(node: Node, values: Values) -> Tensor:
    weight = values[node.inputs[1]]
    shape = (node.shape or ())[1:]
    if shape:
        weight = weight.reshape(-1, *(1,) * (len(shape) - 1))
    return weight.expand(shape)


MAXIMA = {"maximum", "minimum", "fmax", "fmin", "amax", "amin", "max", "min"}
MAX_POOLS = {"max_pool1d": 1, "max_pool2d": 2, "max_pool3d": 3}


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
    rank = MAX_POOLS[node.op]
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
