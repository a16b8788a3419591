"""Where a dimension goes when a tensor is reshaped or moved."""

from typing import Any

from gatewise.graph.trace import Node

Shape = tuple[int, ...]


def align(before: Shape, after: Shape) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The finest groups of dimensions of equal size on both sides of a reshape.

    Dimensions of size 1 are left out.

    ``align((2, 8, 4, 4), (2, 128))`` is ``[((0,), (0,)), ((1, 2, 3), (1,))]``.
    """
    left = [dim for dim, size in enumerate(before) if size != 1]
    right = [dim for dim, size in enumerate(after) if size != 1]
    groups: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    while left and right:
        ours, theirs = [left.pop(0)], [right.pop(0)]
        a, b = before[ours[0]], after[theirs[0]]
        while a != b and (left if a < b else right):
            if a < b:
                ours.append(left.pop(0))
                a *= before[ours[-1]]
            else:
                theirs.append(right.pop(0))
                b *= after[theirs[-1]]
        groups.append((tuple(ours), tuple(theirs)))
    return groups


def group_of(
    dim: int, before: Shape, after: Shape
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The group of :func:`align` that ``dim`` of the first shape is in."""
    return next((group for group in align(before, after) if dim in group[0]), None)


def order_of(node: Node) -> tuple[int, ...] | None:
    """For a call that moves dimensions: which input dimension each output dimension is (-1.

    None, a new one).
    """
    source = node.inputs[0] if node.inputs else None
    if source is None or source.shape is None or node.shape is None:
        return None
    rank, a = source.rank, node.arguments
    if node.op == "permute":
        return tuple(dim % rank for dim in a["dims"])
    if node.op in ("transpose", "swapaxes", "t", "numpy_T", "mT", "adjoint"):
        return _swapped(node, rank, a)
    if node.op == "unsqueeze":
        return _inserted(rank, a["dim"] % (rank + 1))
    if node.op == "squeeze":
        return _squeezed(source.shape, a)
    return None


def _swapped(node: Node, rank: int, a: Any) -> tuple[int, ...]:
    order = list(range(rank))
    if node.op in ("transpose", "swapaxes") and rank:
        names = ("dim0", "dim1") if "dim0" in a else ("axis0", "axis1")
        first, second = a[names[0]] % rank, a[names[1]] % rank
    elif node.op == "numpy_T":
        return tuple(reversed(order))
    elif rank >= 2:
        first, second = rank - 2, rank - 1
    else:
        return tuple(order)
    order[first], order[second] = order[second], order[first]
    return tuple(order)


def _inserted(rank: int, place: int) -> tuple[int, ...]:
    order = list(range(rank))
    return (*order[:place], -1, *order[place:])


def _squeezed(shape: Shape, a: Any) -> tuple[int, ...]:
    rank = len(shape)
    dims = a.get("dim", range(rank))
    dims = {dim % rank for dim in ([dims] if isinstance(dims, int) else dims)}
    return tuple(dim for dim in range(rank) if dim not in dims or shape[dim] != 1)


def broadcast_dim(dim: int, rank: int, other: Shape) -> int | None:
    """Which dimension of ``other`` meets ``dim`` of a tensor of ``rank`` in a broadcast.

    ``None`` if it is repeated.
    """
    place = dim - (rank - len(other))
    return place if place >= 0 and other[place] != 1 else None
