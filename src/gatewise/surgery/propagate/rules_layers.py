"""What layers with parameters do to a changed tensor.

Readers end it, per-channel ones pass it on.
"""

import math

import torch

from gatewise.graph import Node
from gatewise.surgery.propagate.maps import ChannelMap
from gatewise.surgery.propagate.sweep import Sweep
from gatewise.surgery.reasons import Reason, Refusal


def convolution(sweep: Sweep, node: Node) -> None:
    """Groups of one: the weight's input columns. Depthwise: the rows, and the map goes on.

    Else group by group.
    """
    weight, groups = _weight(sweep, node), int(node.arguments["groups"])
    change = sweep.map_of(node.inputs[0])
    dim = sweep.reading.dims[node]
    if change is not None:
        width = _size(node.inputs[0], change, dim, node)
        if groups == 1:
            _columns(sweep, node, weight, 1, change)
            sweep.set(weight, "in_channels", width, len(change))
        elif groups == width:
            return _depthwise(sweep, node, weight, change)
        else:
            _grouped_columns(sweep, node, weight, change, groups)
    _rows(sweep, node, weight, 0, "out_channels", groups)
    return None


def _grouped_columns(
    sweep: Sweep, node: Node, weight: Node, change: ChannelMap, groups: int
) -> None:
    width = weight.shape[1] * groups if weight.shape else 0
    part = change.alike_parts(groups, width // groups)
    if part is None:
        raise Refusal(Reason.GROUPS, node.scope[0])
    _columns(sweep, node, weight, 1, part)
    sweep.set(weight, "in_channels", width, len(change))


def _depthwise(sweep: Sweep, node: Node, weight: Node, change: ChannelMap) -> None:
    """Each channel has its own filters, ``per`` of them: they are copied with it."""
    width = node.inputs[0].shape[change.dim] if node.inputs[0].shape else 0
    per = (weight.shape[0] if weight.shape else 0) // width
    after = change.merged(1, width, per, change.dim)
    wanted = sweep.sources.get(node)
    if wanted is not None and not wanted.same_as(after):
        raise Refusal(Reason.DIFFERENT, node.scope[0])
    sweep.edit(node, weight, 0, after, "copy")
    sweep.edit(node, node.tensor("bias"), 0, after, "copy")
    sweep.set(weight, "groups", width, len(change), required=True)
    sweep.set(weight, "in_channels", width, len(change))
    sweep.set(weight, "out_channels", width * per, len(after))
    sweep.maps[node] = after


def _rows(
    sweep: Sweep, node: Node, weight: Node, dim: int, attribute: str, groups: int = 1
) -> None:
    """Output channels asked for by what this layer's output meets: copies of rows."""
    wanted = sweep.sources.get(node)
    if wanted is None:
        return
    width = weight.shape[dim] if weight.shape else 0
    if groups > 1 and not wanted.parts(groups, width // groups):
        raise Refusal(Reason.GROUPS, node.scope[0])
    sweep.edit(node, weight, dim, wanted, "copy")
    sweep.edit(node, node.tensor("bias"), 0, wanted, "copy")
    sweep.set(weight, attribute, width, len(wanted))
    sweep.maps[node] = wanted


def transposed_convolution(sweep: Sweep, node: Node) -> None:
    """As a convolution, its weight the other way round; only without groups."""
    weight, change = _weight(sweep, node), sweep.map_of(node.inputs[0])
    if int(node.arguments["groups"]) != 1:
        raise Refusal(Reason.GROUPS, node.scope[0])
    if change is not None:
        width = _size(node.inputs[0], change, sweep.reading.dims[node], node)
        _columns(sweep, node, weight, 0, change)
        sweep.set(weight, "in_channels", width, len(change))
    _rows(sweep, node, weight, 1, "out_channels")


def linear(sweep: Sweep, node: Node) -> None:
    """The weight's input columns; a change along another dimension passes through."""
    weight, change = _weight(sweep, node), sweep.map_of(node.inputs[0])
    if change is not None and change.dim != node.inputs[0].rank - 1:
        sweep.maps[node] = change
        if node in sweep.sources:
            raise Refusal(Reason.DIFFERENT, node.scope[0])
        return
    if change is not None:
        width = weight.shape[1] if weight.shape else 0
        _columns(sweep, node, weight, 1, change)
        sweep.set(weight, "in_features", width, len(change))
    _rows(sweep, node, weight, 0, "out_features")


def added_product(sweep: Sweep, node: Node) -> None:
    """``addmm(bias, x, weight)``, as in GPT-2.

    A linear layer with its weight the other way round.
    """
    bias, x, weight = node.arguments["self"], node.arguments["mat1"], node.arguments["mat2"]
    _matrix(sweep, node, x, weight, bias)


def product(sweep: Sweep, node: Node) -> None:
    """``x @ weight``; a product of two computed tensors is refused."""
    x, other = node.inputs[0], node.inputs[-1]
    if other is x or other.op not in ("parameter", "buffer") or other.rank != 2:
        raise Refusal(Reason.ATTENTION, node.scope[0])
    _matrix(sweep, node, x, other, None)


def _matrix(sweep: Sweep, node: Node, x: Node, weight: Node, bias: Node | None) -> None:
    if weight in sweep.maps or (bias is not None and bias in sweep.maps):
        raise Refusal(Reason.COMPUTED_WEIGHT, node.scope[0])
    change = sweep.map_of(x)
    if change is not None and change.dim != x.rank - 1:
        raise Refusal(Reason.ATTENTION, node.scope[0])
    if change is not None:
        _columns(sweep, node, weight, 0, change)
        sweep.set(weight, "nx", weight.shape[0] if weight.shape else 0, len(change))
    wanted = sweep.sources.get(node)
    if wanted is not None:
        sweep.edit(node, weight, 1, wanted, "copy")
        sweep.edit(node, bias, 0, wanted, "copy")
        sweep.set(weight, "nf", weight.shape[1] if weight.shape else 0, len(wanted))
        sweep.maps[node] = wanted


def embedding(sweep: Sweep, node: Node) -> None:
    """A table whose columns are copied when the stream it starts is widened."""
    wanted, weight = sweep.sources.get(node), node.arguments["weight"]
    if wanted is None or wanted.dim != node.rank - 1 or weight in sweep.maps:
        raise Refusal(Reason.COMPUTED_WEIGHT, node.scope[0])
    sweep.edit(node, weight, 1, wanted, "copy")
    sweep.set(weight, "embedding_dim", weight.shape[1], len(wanted))
    sweep.maps[node] = wanted


def per_channel_norm(sweep: Sweep, node: Node) -> None:
    """Batch and instance norm: all per-channel numbers are copied, running statistics too."""
    change = _along_channels(sweep, node)
    leaves = [node.tensor(name) for name in ("weight", "bias", "running_mean", "running_var")]
    for leaf in leaves:
        sweep.edit(node, leaf, 0, change, "copy")
    width = (node.shape or (0, 0))[1]
    sweep.set(
        next((leaf for leaf in leaves if leaf is not None), None),
        "num_features",
        width,
        len(change),
    )
    sweep.maps[node] = change


def group_norm(sweep: Sweep, node: Node) -> None:
    """More groups of the same size, if none of them mixes old channels with new ones."""
    change, groups = _along_channels(sweep, node), int(node.arguments["num_groups"])
    width = (node.shape or (0, 0))[1]
    size = width // groups
    if len(change) % size:
        raise Refusal(Reason.NORM, node.scope[0])
    index, new = change.index.view(-1, size), change.new.view(-1, size)
    whole = (
        (index == index[:, :1] + torch.arange(size))
        & (index[:, :1] % size == 0)
        & (new == new[:, :1])
    )
    if not bool(whole.all()):
        raise Refusal(Reason.NORM, node.scope[0])
    weight = node.tensor("weight")
    sweep.edit(node, weight, 0, change, "copy")
    sweep.edit(node, node.tensor("bias"), 0, change, "copy")
    sweep.set(weight, "num_groups", groups, len(index), required=True)
    sweep.set(weight, "num_channels", width, len(change))
    sweep.maps[node] = change


def last_norm(sweep: Sweep, node: Node) -> None:
    """Layer norm: a change along a dimension it does not norm over passes.

    Along one it does is refused.
    """
    change = sweep.map_of(node.inputs[0])
    over = len(node.arguments["normalized_shape"])
    if change is None or change.dim >= node.rank - over:
        raise Refusal(Reason.NORM, node.scope[0])
    sweep.maps[node] = change


def prelu(sweep: Sweep, node: Node) -> None:
    """A slope for each channel is copied; one for all passes."""
    change, weight = sweep.map_of(node.inputs[0]), node.arguments["weight"]
    if change is None:
        raise Refusal(Reason.COMPUTED_WEIGHT, node.scope[0])
    if math.prod(weight.shape) > 1:
        if change.dim != 1:
            raise Refusal(Reason.NO_CHANNELS, node.scope[0])
        sweep.edit(node, weight, 0, change, "copy")
        sweep.set(weight, "num_parameters", weight.shape[0], len(change))
    sweep.maps[node] = change


def _columns(sweep: Sweep, node: Node, weight: Node, dim: int, change: ChannelMap) -> None:
    """The reader's new input columns.

    A reader of a narrowed tensor would lose old ones, so that is refused.
    """
    if change.narrows and not sweep.cuts_readers:
        raise Refusal(Reason.BRANCH, node.scope[0])
    sweep.edit(node, weight, dim, change, "zero")


def _along_channels(sweep: Sweep, node: Node) -> ChannelMap:
    change = sweep.map_of(node.inputs[0])
    if change is None or change.dim != 1:
        raise Refusal(Reason.NORM, node.scope[0])
    return change


def _weight(sweep: Sweep, node: Node) -> Node:
    weight = node.arguments["weight"]
    if weight.op not in ("parameter", "buffer") or weight in sweep.maps:
        raise Refusal(Reason.COMPUTED_WEIGHT, node.scope[0])
    return weight


def _size(source: Node, change: ChannelMap, dim: int, node: Node) -> int:
    if change.dim != dim or source.shape is None:
        raise Refusal(Reason.NO_CHANNELS, node.scope[0])
    return source.shape[dim]
