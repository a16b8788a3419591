"""Rules for operators without parameters.

They pass a change on, move it to another dimension, or mix channels and are refused.
"""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

from gatewise.graph import Node, group_of, order_of
from gatewise.surgery.propagate.maps import ChannelMap, concatenated
from gatewise.surgery.propagate.sweep import Sweep
from gatewise.surgery.reasons import Reason, Refusal

# A dimension this small may be a number of groups that is a constant in the model's code.
FEW_CHANNELS = 4
# Whether the sizes that reshapes are called with are constants in the model's code. A graph does
# not tell them from sizes that the code reads from a tensor's shape.
_FIXED: ContextVar[bool] = ContextVar("gatewise_fixed_sizes", default=False)


@contextmanager
def fixed_sizes() -> Iterator[None]:
    """Refuse inside to change channels that a reshape gives a size, other than -1, by a number."""
    token = _FIXED.set(True)
    try:
        yield
    finally:
        _FIXED.reset(token)


def passes(sweep: Sweep, node: Node) -> None:
    """Pass the change on: every channel is computed separately and keeps its place."""
    sweep.maps[node] = _only(sweep, node)


def ignores(sweep: Sweep, node: Node) -> None:
    """Do nothing: the operator only checks its input."""


def reaches_output(sweep: Sweep, node: Node) -> None:
    """Refuse to change the model's output."""
    raise Refusal(Reason.OUTPUT)


def attends(sweep: Sweep, node: Node) -> None:
    """Refuse attention, where the channels of queries and keys are multiplied."""
    raise Refusal(Reason.ATTENTION, node.scope[0])


def pads(sweep: Sweep, node: Node) -> None:
    """Pass the change on, unless the channels are padded."""
    change = _only(sweep, node)
    # Two amounts for each padded dimension, beginning with the last dimension.
    amounts = node.arguments.get("pad") or node.arguments.get("padding") or ()
    if change.dim >= node.rank - len(amounts) // 2:
        raise Refusal(Reason.NO_RULE, "padding of channels")
    sweep.maps[node] = change


def normalises(sweep: Sweep, node: Node) -> None:
    """Pass the change through a softmax or a cumulative sum over another dimension."""
    change = _only(sweep, node)
    if int(node.arguments["dim"]) % node.rank == change.dim:
        raise Refusal(Reason.STATISTICS, node.op)
    sweep.maps[node] = change


def reduces(sweep: Sweep, node: Node) -> None:
    """Pass the change through a mean, sum or norm over other dimensions.

    Over the channels, the reduction would mix old and new channels.
    """
    change = _only(sweep, node)
    source = node.inputs[0]
    dims = node.arguments.get("dim")
    if dims in (None, []):
        dims = range(source.rank)
    reduced = _dimensions(dims, source.rank)
    if change.dim in reduced:
        raise Refusal(Reason.STATISTICS, node.op)
    if node.shape is None:
        raise Refusal(Reason.NO_RULE, f"{node.op} with several results")
    sweep.maps[node] = _without(change, reduced if node.rank < source.rank else set())


def _dimensions(dims: int | Iterable[int], rank: int) -> set[int]:
    """Return ``dims`` of a tensor of ``rank`` dimensions, all counted from the front."""
    return {dim % rank for dim in ([dims] if isinstance(dims, int) else dims)}


def _without(change: ChannelMap, removed: set[int]) -> ChannelMap:
    """Return the map after the dimensions ``removed`` are gone."""
    return change.moved(change.dim - sum(dim < change.dim for dim in removed))


def moves(sweep: Sweep, node: Node) -> None:
    """Move the change with its dimension: permute, transpose, squeeze and unsqueeze."""
    change = _only(sweep, node)
    order = order_of(node)
    if order is None or change.dim not in order:
        raise Refusal(Reason.RESHAPE, node.op)
    sweep.maps[node] = change.moved(order.index(change.dim))


def expands(sweep: Sweep, node: Node) -> None:
    """Pass the change through an expansion, which may add leading dimensions."""
    change = _only(sweep, node)
    sweep.maps[node] = change.moved(change.dim + node.rank - node.inputs[0].rank)


def cuts(sweep: Sweep, node: Node) -> None:
    """Pass the change through slices, selections and rolls along other dimensions."""
    change = _only(sweep, node)
    source = node.inputs[0]
    dims = node.arguments.get("dim", node.arguments.get("dims"))
    if dims is None or node.shape is None:
        raise Refusal(Reason.NO_RULE, node.op)
    cut = _dimensions(dims, source.rank)
    if change.dim in cut:
        raise Refusal(Reason.SPLIT, node.op)
    sweep.maps[node] = _without(change, cut if node.rank < source.rank else set())


def reshapes(sweep: Sweep, node: Node) -> None:
    """Follow the channels through view, reshape and flatten.

    The channel dimension may stay, be merged with others, or be split into equal groups.
    """
    change = _only(sweep, node)
    before = node.inputs[0].shape or ()
    after = node.shape or ()
    group = group_of(change.dim, before, after)
    if group is None:
        raise Refusal(Reason.RESHAPE, f"{before} to {after}")
    old_dims, new_dims = group
    if len(old_dims) == 1 and len(new_dims) == 1:
        sweep.maps[node] = _kept(change, new_dims[0], before, after)
    elif len(new_dims) == 1:
        sweep.maps[node] = _merged(change, old_dims, new_dims[0], before)
    elif len(old_dims) == 1:
        sweep.maps[node] = _split(change, new_dims, before, after)
    else:
        raise Refusal(Reason.RESHAPE, f"{before} to {after}")
    sizes = node.arguments.get("shape") or node.arguments.get("size")
    made = sweep.map_of(node)
    if _FIXED.get() and made is not None and sizes is not None and sizes[made.dim] != -1:
        raise Refusal(Reason.FIXED_SIZE, f"{before} to {after}")


def _kept(
    change: ChannelMap, place: int, before: tuple[int, ...], after: tuple[int, ...]
) -> ChannelMap:
    """Return the map of a dimension that a reshape keeps.

    With few channels the meaning is ambiguous: ``(2, 1)`` may be two channels or two groups of one.
    """
    width = before[change.dim]
    beside = [after[dim] for dim in (place - 1, place + 1) if 0 < dim < len(after)]
    added = len(after) > len(before)
    if added and 1 in beside and width <= FEW_CHANNELS:
        raise Refusal(Reason.RESHAPE, f"{before} to {after} can be read in two ways")
    return change.moved(place)


def _merged(
    change: ChannelMap, old_dims: tuple[int, ...], place: int, before: tuple[int, ...]
) -> ChannelMap:
    """Return the map of channels that are merged with other dimensions."""
    if 0 in old_dims:
        raise Refusal(Reason.RESHAPE, "channels merged with the batch")
    outer = math.prod(before[dim] for dim in old_dims if dim < change.dim)
    inner = math.prod(before[dim] for dim in old_dims if dim > change.dim)
    return change.merged(outer, before[change.dim], inner, place)


def _split(
    change: ChannelMap, new_dims: tuple[int, ...], before: tuple[int, ...], after: tuple[int, ...]
) -> ChannelMap:
    """Return the map of channels that are split into ``(groups, channels of a group)``.

    The number of groups stays and all groups grow alike. If the model's code means the opposite,
    the proof after the swap detects the wrong output.
    """
    *outer, last = new_dims
    part = change.alike_parts(math.prod(after[dim] for dim in outer), after[last])
    if part is None or len(outer) > 1:
        raise Refusal(Reason.RESHAPE, f"{before} to {after}")
    return part.moved(last)


def shuffles_pixels(sweep: Sweep, node: Node) -> None:
    """Pass the change through a pixel shuffle, which makes one channel of ``factor ** 2``."""
    change = _channel_change(sweep, node)
    made = change.whole_groups(int(node.arguments["upscale_factor"]) ** 2)
    if made is None:
        raise Refusal(Reason.RESHAPE, node.op)
    sweep.maps[node] = made


def unshuffles_pixels(sweep: Sweep, node: Node) -> None:
    """Pass the change through the inverse of a pixel shuffle: one channel becomes several."""
    change = _channel_change(sweep, node)
    size = int(node.arguments["downscale_factor"]) ** 2
    width = (node.inputs[0].shape or ())[change.dim]
    sweep.maps[node] = change.merged(1, width, size, change.dim)


def shuffles_channels(sweep: Sweep, node: Node) -> None:
    """Pass the change through a channel shuffle, a permutation of the channels."""
    change = _channel_change(sweep, node)
    groups = int(node.arguments["groups"])
    width = (node.inputs[0].shape or ())[change.dim]
    if len(change) % groups:
        raise Refusal(Reason.GROUPS, node.scope[0])
    before = torch.arange(width).view(groups, -1).t().reshape(-1)
    after = torch.arange(len(change)).view(groups, -1).t().reshape(-1)
    place = torch.empty_like(before)
    place[before] = torch.arange(width)  # where each old channel is after the shuffle
    sweep.maps[node] = ChannelMap(change.dim, place[change.index[after]], change.new[after])


def _channel_change(sweep: Sweep, node: Node) -> ChannelMap:
    """Return the change of the input, which must be along the dimension before height and width."""
    change = _only(sweep, node)
    if change.dim != node.rank - 3:
        raise Refusal(Reason.NO_CHANNELS, node.scope[0])
    return change


def concatenates(sweep: Sweep, node: Node) -> None:
    """Concatenate the maps of the parts.

    Along another dimension than the channels, all parts must have the same change.
    """
    parts: list[Node] = list(node.arguments["tensors"])
    dim = int(node.arguments.get("dim") or 0) % node.rank
    changes = [sweep.map_of(part) for part in parts]
    first = next(change for change in changes if change is not None)
    if first.dim != dim:
        # The parts are stacked along another dimension, so their channels must agree.
        for part, change in zip(parts, changes, strict=True):
            # An empty tensor, which some models concatenate with, has no channels to change.
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
    """Cut the map into equal chunks, which works if new channels are interleaved."""
    change = _only(sweep, node)
    source = node.inputs[0]
    dim = int(node.arguments["dim"]) % source.rank
    count = int(node.arguments["chunks"])
    width = source.shape[change.dim] if source.shape else 0
    if dim != change.dim:
        sweep.maps[node] = (change,) * count
        return
    parts = [] if width % count else change.parts(count, width // count)
    if not parts:
        raise Refusal(Reason.SPLIT, f"{width} channels in {count} chunks")
    sweep.maps[node] = tuple(parts)


def splits(sweep: Sweep, node: Node) -> None:
    """Pass the change through a split of another dimension.

    The sizes of a split are written in the model's code, so the channels cannot be split.
    """
    change = _only(sweep, node)
    dim = int(node.arguments.get("dim") or 0) % node.inputs[0].rank
    if dim == change.dim:
        raise Refusal(Reason.SPLIT, node.op)
    if node.op == "unbind":
        change = _without(change, {dim})
    indices = [int(user.arguments["index"]) for user in node.users if user.op == "getitem"]
    sweep.maps[node] = (change,) * (1 + max(indices, default=0))


def picks(sweep: Sweep, node: Node) -> None:
    """Pick the map of one of several results."""
    changes = sweep.maps[node.inputs[0]]
    if not isinstance(changes, tuple):
        raise Refusal(Reason.NO_RULE, "indexing a tensor")
    change = changes[int(node.arguments["index"])]
    if change is not None:
        sweep.maps[node] = change


def _only(sweep: Sweep, node: Node) -> ChannelMap:
    """Return the map of the first input.

    No rule here handles a change of another input, or a change that the node itself must make.
    """
    change = sweep.map_of(node.inputs[0])
    # reshape_as and its relatives read only the shape of another tensor.
    values = node.inputs[:1] if node.op.endswith("_as") else node.inputs
    others_changed = any(source in sweep.maps for source in values[1:])
    if change is None or others_changed or node in sweep.sources:
        raise Refusal(Reason.NO_RULE, node.op)
    return change
