"""Follow a dimension through reshapes, moves and broadcasts."""

from collections.abc import Mapping, Sequence
from typing import Any

from gatewise.graph.trace import Node

Shape = tuple[int, ...]
Group = tuple[tuple[int, ...], tuple[int, ...]]  # dimensions before and after a reshape

NEW = -1  # stands for the number of an input dimension where the output has a new one


def align(before: Shape, after: Shape) -> list[Group]:
    """Return the smallest groups of dimensions that have the same size before and after a reshape.

    Dimensions of size 1 are left out.

    Example:
        ``align((2, 8, 4, 4), (2, 128))`` is ``[((0,), (0,)), ((1, 2, 3), (1,))]``.
    """
    left = [dim for dim, size in enumerate(before) if size != 1]
    right = [dim for dim, size in enumerate(after) if size != 1]
    groups: list[Group] = []
    while left and right:
        ours = [left.pop(0)]
        theirs = [right.pop(0)]
        our_size = before[ours[0]]
        their_size = after[theirs[0]]
        while our_size != their_size and (left if our_size < their_size else right):
            if our_size < their_size:
                ours.append(left.pop(0))
                our_size *= before[ours[-1]]
            else:
                theirs.append(right.pop(0))
                their_size *= after[theirs[-1]]
        groups.append((tuple(ours), tuple(theirs)))
    return groups


def group_of(dim: int, before: Shape, after: Shape) -> Group | None:
    """Return the group of :func:`align` that has dimension ``dim`` of ``before``, if one has."""
    return next((group for group in align(before, after) if dim in group[0]), None)


def order_of(node: Node) -> tuple[int, ...] | None:
    """Return which input dimension each output dimension is, for a call that moves dimensions.

    A dimension that the call adds is -1. The result is ``None`` for other calls.
    """
    source = node.inputs[0] if node.inputs else None
    if source is None or source.shape is None or node.shape is None:
        return None
    rank = source.rank
    arguments = node.arguments
    match node.op:
        case "permute":
            return tuple(dim % rank for dim in arguments["dims"])
        case "transpose":
            return _swapped(rank, arguments["dim0"], arguments["dim1"])
        case "swapaxes":
            return _swapped(rank, arguments["axis0"], arguments["axis1"])
        case "t" | "mT" | "adjoint":
            if rank >= 2:
                return _swapped(rank, -2, -1)
            return tuple(range(rank))
        case "numpy_T":
            return tuple(reversed(range(rank)))
        case "movedim":
            return _moved(rank, arguments["source"], arguments["destination"])
        case "unsqueeze":
            order = list(range(rank))
            order.insert(arguments["dim"] % (rank + 1), NEW)
            return tuple(order)
        case "squeeze":
            return _squeezed(source.shape, arguments)
    return None


def _swapped(rank: int, first: int, second: int) -> tuple[int, ...]:
    order = list(range(rank))
    if rank:
        order[first], order[second] = order[second], order[first]
    return tuple(order)


def _moved(rank: int, source: Any, destination: Any) -> tuple[int, ...]:
    sources = [dim % rank for dim in _as_list(source)]
    destinations = [dim % rank for dim in _as_list(destination)]
    order = [dim for dim in range(rank) if dim not in sources]
    # Smaller places first: inserting later does not shift them.
    for place, dim in sorted(zip(destinations, sources, strict=True)):
        order.insert(place, dim)
    return tuple(order)


def _squeezed(shape: Shape, arguments: Mapping[str, Any]) -> tuple[int, ...]:
    rank = len(shape)
    dims = {dim % rank for dim in _as_list(arguments.get("dim", range(rank)))}
    return tuple(dim for dim in range(rank) if dim not in dims or shape[dim] != 1)


def _as_list(dims: int | Sequence[int]) -> Sequence[int]:
    return [dims] if isinstance(dims, int) else dims


def broadcast_dim(dim: int, rank: int, other: Shape) -> int | None:
    """Return the dimension of ``other`` that meets dimension ``dim`` of a tensor of ``rank``.

    The result is ``None`` if ``other`` is repeated along it.
    """
    place = dim - (rank - len(other))
    return place if place >= 0 and other[place] != 1 else None
