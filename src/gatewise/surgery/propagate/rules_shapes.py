"""What operators without parameters do to a changed tensor.

Pass it, move its channels, or mix them.
"""

import math
from typing import Any

from gatewise.graph import Node, group_of, order_of
from gatewise.surgery.propagate.maps import ChannelMap, concatenated
from gatewise.surgery.propagate.sweep import Sweep
from gatewise.surgery.reasons import Reason, Refusal

FEW = 4  # so few channels may as well be a number of groups that the model's code has as a constant


def passes(sweep: Sweep, node: Node) -> None:
    """Every channel for itself, where it was."""
    sweep.maps[node] = _only(sweep, node)


def ignores(sweep: Sweep, node: Node) -> None:
    """A check of its input's type: it makes no tensor."""


def reaches_output(sweep: Sweep, node: Node) -> None:
    """The model's output is not ours to change."""
    raise Refusal(Reason.OUTPUT)


def attends(sweep: Sweep, node: Node) -> None:
    """Queries, keys and values meet each other's channels."""
    raise Refusal(Reason.ATTENTION, node.scope[0])


def pads(sweep: Sweep, node: Node) -> None:
    """Passes, unless channels are padded.

    The amounts are two for each dimension, the last one first.
    """
    change, amounts = (
        _only(sweep, node),
        node.arguments.get("pad") or node.arguments.get("padding") or (),
    )
    if change.dim >= node.rank - len(amounts) // 2:
        raise Refusal(Reason.NO_RULE, "padding of channels")
    sweep.maps[node] = change


def normalises(sweep: Sweep, node: Node) -> None:
    """Softmax and the like, over one dimension."""
    change = _only(sweep, node)
    if int(node.arguments["dim"]) % node.rank == change.dim:
        raise Refusal(Reason.STATISTICS, node.op)
    sweep.maps[node] = change


def reduces(sweep: Sweep, node: Node) -> None:
    """Mean, sum and norms over other dimensions.

    Over the channels they would mix old and new ones.
    """
    change, source = _only(sweep, node), node.inputs[0]
    given = node.arguments.get("dim")
    dims = (
        range(source.rank) if given in (None, []) else [given] if isinstance(given, int) else given
    )
    gone = {dim % source.rank for dim in dims}
    if change.dim in gone:
        raise Refusal(Reason.STATISTICS, node.op)
    if node.shape is None:
        raise Refusal(Reason.NO_RULE, f"{node.op} with several results")
    kept = node.rank == source.rank
    sweep.maps[node] = change.moved(
        change.dim - (0 if kept else sum(dim < change.dim for dim in gone))
    )


def moves(sweep: Sweep, node: Node) -> None:
    """Permute, transpose, squeeze and unsqueeze."""
    change, order = _only(sweep, node), order_of(node)
    if order is None or change.dim not in order:
        raise Refusal(Reason.RESHAPE, node.op)
    sweep.maps[node] = change.moved(order.index(change.dim))


def expands(sweep: Sweep, node: Node) -> None:
    """Repeats along other dimensions, and adds some in front."""
    change = _only(sweep, node)
    sweep.maps[node] = change.moved(change.dim + node.rank - node.inputs[0].rank)


def cuts(sweep: Sweep, node: Node) -> None:
    """Slices, selections and rolls along other dimensions."""
    change, source = _only(sweep, node), node.inputs[0]
    given = node.arguments.get("dim", node.arguments.get("dims"))
    if given is None or node.shape is None:
        raise Refusal(Reason.NO_RULE, node.op)
    dims = {dim % source.rank for dim in ([given] if isinstance(given, int) else given)}
    if change.dim in dims:
        raise Refusal(Reason.SPLIT, node.op)
    gone = node.rank < source.rank
    sweep.maps[node] = change.moved(
        change.dim - (sum(dim < change.dim for dim in dims) if gone else 0)
    )


def reshapes(sweep: Sweep, node: Node) -> None:
    """View, reshape and flatten.

    The channels stay, are merged with others, or are split into equal groups.
    """
    change, source = _only(sweep, node), node.inputs[0]
    before, after = source.shape or (), node.shape or ()
    group = group_of(change.dim, before, after)
    if group is None:
        raise Refusal(Reason.RESHAPE, f"{before} to {after}")
    ours, theirs = group
    if len(ours) == 1 and len(theirs) == 1:
        sweep.maps[node] = _kept(change, theirs[0], before, after)
    elif len(theirs) == 1:
        sweep.maps[node] = _merged(change, ours, theirs[0], before)
    elif len(ours) == 1:
        sweep.maps[node] = _split(change, theirs, before, after)
    else:
        raise Refusal(Reason.RESHAPE, f"{before} to {after}")


def _kept(
    change: ChannelMap, place: int, before: tuple[int, ...], after: tuple[int, ...]
) -> ChannelMap:
    """With few channels, ``(2, 1)`` may mean "two channels" or "two groups of one".

    Not to be told apart.
    """
    width = before[change.dim]
    beside = [after[dim] for dim in (place - 1, place + 1) if 0 < dim < len(after)]
    added = len(after) > len(before)
    if added and 1 in beside and width <= FEW:
        raise Refusal(Reason.RESHAPE, f"{before} to {after} can be read in two ways")
    return change.moved(place)


def _merged(
    change: ChannelMap, ours: tuple[int, ...], place: int, before: tuple[int, ...]
) -> ChannelMap:
    if 0 in ours:
        raise Refusal(Reason.RESHAPE, "channels merged with the batch")
    outer = math.prod(before[dim] for dim in ours if dim < change.dim)
    inner = math.prod(before[dim] for dim in ours if dim > change.dim)
    return change.merged(outer, before[change.dim], inner, place)


def _split(
    change: ChannelMap, theirs: tuple[int, ...], before: tuple[int, ...], after: tuple[int, ...]
) -> ChannelMap:
    """``(groups, channels of each)``: the groups stay, each grows alike.

    The other reading is caught by the proof.
    """
    *outer, last = theirs
    part = change.alike_parts(math.prod(after[dim] for dim in outer), after[last])
    if part is None or len(outer) > 1:
        raise Refusal(Reason.RESHAPE, f"{before} to {after}")
    return part.moved(last)


def concatenates(sweep: Sweep, node: Node) -> None:
    """Along the channels, maps one after the other.

    Along another dimension, all parts must be changed alike.
    """
    parts: list[Node] = list(node.arguments["tensors"])
    dim = int(node.arguments.get("dim") or 0) % node.rank
    changes = [sweep.map_of(part) for part in parts]
    first = next(change for change in changes if change is not None)
    if first.dim != dim:
        for part, change in zip(parts, changes, strict=True):
            if change is None and part.shape != (0,):
                sweep.need(part, first)
            elif change is not None and not change.same_as(first):
                raise Refusal(Reason.DIFFERENT, node.scope[0])
        sweep.maps[node] = first
        return
    if any(change is not None and change.dim != dim for change in changes):
        raise Refusal(Reason.DIFFERENT, node.scope[0])
    widths = [part.shape[dim] if part.shape else 0 for part in parts]
    sweep.maps[node] = concatenated(list(zip(changes, widths, strict=True)), dim)


def chunks(sweep: Sweep, node: Node) -> None:
    """A number of equal parts, which double in place if interleaved."""
    change, source = _only(sweep, node), node.inputs[0]
    dim, count = int(node.arguments["dim"]) % source.rank, int(node.arguments["chunks"])
    width = source.shape[change.dim] if source.shape else 0
    if dim != change.dim:
        sweep.maps[node] = (change,) * count
        return
    parts = [] if width % count else change.parts(count, width // count)
    if not parts:
        raise Refusal(Reason.SPLIT, f"{width} channels in {count} chunks")
    sweep.maps[node] = tuple(parts)


def splits(sweep: Sweep, node: Node) -> None:
    """Splits of given sizes.

    Along another dimension only, for the sizes stand in the model's code.
    """
    change, source = _only(sweep, node), node.inputs[0]
    if int(node.arguments.get("dim") or 0) % source.rank == change.dim:
        raise Refusal(Reason.SPLIT, node.op)
    if node.op == "unbind":
        change = change.moved(
            change.dim - (int(node.arguments.get("dim") or 0) % source.rank < change.dim)
        )
    sweep.maps[node] = (change,) * _results(node)


def picks(sweep: Sweep, node: Node) -> None:
    """One of several results."""
    found = sweep.maps[node.inputs[0]]
    if not isinstance(found, tuple):
        raise Refusal(Reason.NO_RULE, "indexing a tensor")
    change = found[int(node.arguments["index"])]
    if change is not None:
        sweep.maps[node] = change


def _results(node: Node) -> int:
    return 1 + max(
        (int(user.arguments["index"]) for user in node.users if user.op == "getitem"), default=0
    )


def _only(sweep: Sweep, node: Node) -> ChannelMap:
    """The map of the first input.

    A change anywhere else is not foreseen, and neither is one asked of this node.
    """
    change = sweep.map_of(node.inputs[0])
    others: list[Any] = [each for each in node.inputs[1:] if each in sweep.maps]
    if change is None or others or node in sweep.sources:
        raise Refusal(Reason.NO_RULE, node.op)
    return change
