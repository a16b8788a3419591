"""Rules for layers with parameters.

A layer that reads the channels ends a change with an edit of its weight. A layer that treats every
channel separately, such as batch norm, is edited and passes the change on.
"""

import math

from gatewise.graph import Node
from gatewise.surgery.propagate.maps import ChannelMap
from gatewise.surgery.propagate.sweep import Sweep
from gatewise.surgery.reasons import Reason, Refusal

STORED = ("parameter", "buffer")


def convolution(sweep: Sweep, node: Node) -> None:
    """Edit a convolution.

    Without groups, the columns of the weight change. A depthwise convolution changes its rows and
    passes the change on. Other groups must all change alike.
    """
    weight = _weight(sweep, node)
    groups = int(node.arguments["groups"])
    change = sweep.map_of(node.inputs[0])
    if change is not None:
        width = _width(sweep, node, change)
        if groups == width != 1:
            _depthwise(sweep, node, weight, change)
            return
        # The weight has columns for one group only, so all groups must change alike.
        of_group = change if groups == 1 else change.alike_parts(groups, width // groups)
        if of_group is None:
            raise Refusal(Reason.GROUPS, node.scope[0])
        sweep.edit_reader(node, weight, 1, of_group)
        sweep.set(weight, "in_channels", width, len(change))
    rows(sweep, node, weight, 0, "out_channels", groups=groups)


def _depthwise(sweep: Sweep, node: Node, weight: Node, change: ChannelMap) -> None:
    """Copy the filters of each channel with the channel. A channel may have several filters."""
    width = node.inputs[0].shape[change.dim] if node.inputs[0].shape else 0
    filters = (weight.shape[0] if weight.shape else 0) // width
    after = change.merged(1, width, filters, change.dim)
    wanted = sweep.sources.get(node)
    # A consumer of the output may need another map than the input has.
    if wanted is not None and not wanted.same_as(after):
        raise Refusal(Reason.DIFFERENT, node.scope[0])
    sweep.edit(node, weight, 0, after, "copy")
    sweep.edit(node, node.tensor("bias"), 0, after, "copy")
    sweep.set(weight, "groups", width, len(change), required=True)
    sweep.set(weight, "in_channels", width, len(change))
    sweep.set(weight, "out_channels", width * filters, len(after))
    sweep.maps[node] = after


def rows(
    sweep: Sweep,
    node: Node,
    weight: Node,
    dim: int,
    attribute: str,
    *,
    bias: str = "bias",
    groups: int = 1,
) -> None:
    """Copy rows of the weight where the output of the layer must be wider."""
    wanted = sweep.sources.get(node)
    if wanted is None:
        return
    width = weight.shape[dim] if weight.shape else 0
    if groups > 1 and not wanted.parts(groups, width // groups):
        raise Refusal(Reason.GROUPS, node.scope[0])
    _copy(sweep, node, weight, dim, wanted)
    _copy(sweep, node, node.tensor(bias), 0, wanted)
    sweep.set(_stored(weight), attribute, width, len(wanted))
    sweep.maps[node] = wanted


def _copy(sweep: Sweep, node: Node, leaf: Node | None, dim: int, wanted: ChannelMap) -> None:
    """Copy the rows of a stored tensor, or of the parameters that a tensor is computed from.

    A standardised weight is computed row by row, so its rows follow those of its parameter.
    """
    if leaf is None or leaf.op in STORED:
        sweep.edit(node, leaf, dim, wanted, "copy")
        return
    change = sweep.map_of(leaf)
    if change is None:
        sweep.need(leaf, wanted.moved(dim))
    elif not change.same_as(wanted.moved(dim)):
        raise Refusal(Reason.DIFFERENT, node.scope[0])


def _stored(weight: Node) -> Node:
    """Return the parameter that a weight is, or is computed from."""
    while weight.op not in STORED and weight.inputs:
        weight = weight.inputs[0]
    return weight


def transposed_convolution(sweep: Sweep, node: Node) -> None:
    """Edit a transposed convolution without groups. Its weight has the inputs first."""
    weight = _weight(sweep, node)
    change = sweep.map_of(node.inputs[0])
    if int(node.arguments["groups"]) != 1:
        raise Refusal(Reason.GROUPS, node.scope[0])
    if change is not None:
        width = _width(sweep, node, change)
        sweep.edit_reader(node, weight, 0, change)
        sweep.set(weight, "in_channels", width, len(change))
    rows(sweep, node, weight, 1, "out_channels")


def linear(sweep: Sweep, node: Node) -> None:
    """Edit a linear layer, or pass a change along another dimension on."""
    weight = _weight(sweep, node)
    change = sweep.map_of(node.inputs[0])
    if change is not None and change.dim != node.inputs[0].rank - 1:
        # The layer is applied at every position of this dimension separately.
        sweep.maps[node] = change
        if node in sweep.sources:
            raise Refusal(Reason.DIFFERENT, node.scope[0])
        return
    if change is not None:
        width = weight.shape[1] if weight.shape else 0
        sweep.edit_reader(node, weight, 1, change)
        sweep.set(weight, "in_features", width, len(change))
    rows(sweep, node, weight, 0, "out_features")


def added_product(sweep: Sweep, node: Node) -> None:
    """Edit ``addmm(bias, x, weight)``: a linear layer with a transposed weight, as in GPT-2."""
    _matrix(sweep, node, node.arguments["mat1"], node.arguments["mat2"], "self")


def product(sweep: Sweep, node: Node) -> None:
    """Edit ``x @ weight``. A product of two computed tensors is refused."""
    x = node.inputs[0]
    weight = node.inputs[-1]
    # A product of two activations, as in attention, has no weight to edit.
    if weight is x or weight.op not in STORED or weight.rank != 2:
        raise Refusal(Reason.ATTENTION, node.scope[0])
    _matrix(sweep, node, x, weight, "bias")


def _matrix(sweep: Sweep, node: Node, x: Node, weight: Node, bias: str) -> None:
    """Edit ``x @ weight + bias``, with a weight of shape ``(inputs, outputs)``."""
    if weight.op not in STORED or weight in sweep.maps or node.tensor(bias) in sweep.maps:
        raise Refusal(Reason.COMPUTED_WEIGHT, node.scope[0])
    inputs = weight.shape[0] if weight.shape else 0
    change = sweep.map_of(x)
    if change is not None:
        if change.dim != x.rank - 1:
            raise Refusal(Reason.ATTENTION, node.scope[0])
        sweep.edit_reader(node, weight, 0, change)
        sweep.set(weight, "nx", inputs, len(change))
    rows(sweep, node, weight, 1, "nf", bias=bias)


def embedding(sweep: Sweep, node: Node) -> None:
    """Copy columns of an embedding table when the stream that it starts is widened."""
    wanted = sweep.sources.get(node)
    weight = node.arguments["weight"]
    if wanted is None or wanted.dim != node.rank - 1 or weight in sweep.maps:
        raise Refusal(Reason.COMPUTED_WEIGHT, node.scope[0])
    rows(sweep, node, weight, 1, "embedding_dim")


def per_channel_norm(sweep: Sweep, node: Node) -> None:
    """Copy all numbers of a batch or instance norm, running statistics included."""
    change = _along_channels(sweep, node)
    first = None
    for name in ("weight", "bias", "running_mean", "running_var"):
        leaf = node.tensor(name)
        if first is None and leaf is not None and leaf.op in STORED:
            first = leaf
        _copy(sweep, node, leaf, 0, change)
    width = (node.shape or (0, 0))[1]
    sweep.set(first, "num_features", width, len(change))
    sweep.maps[node] = change


def group_norm(sweep: Sweep, node: Node) -> None:
    """Add groups of the same size to a group norm. No group may mix old and new channels."""
    change = _along_channels(sweep, node)
    groups = int(node.arguments["num_groups"])
    width = (node.shape or (0, 0))[1]
    grown = change.whole_groups(width // groups)
    if grown is None:
        raise Refusal(Reason.NORM, node.scope[0])
    weight = node.tensor("weight")
    sweep.edit(node, weight, 0, change, "copy")
    sweep.edit(node, node.tensor("bias"), 0, change, "copy")
    sweep.set(weight, "num_groups", groups, len(grown), required=True)
    sweep.set(weight, "num_channels", width, len(change))
    sweep.maps[node] = change


def last_norm(sweep: Sweep, node: Node) -> None:
    """Pass a change through a layer norm, unless it is along a dimension of the norm."""
    change = sweep.map_of(node.inputs[0])
    normed = len(node.arguments["normalized_shape"])
    if change is None or change.dim >= node.rank - normed:
        raise Refusal(Reason.NORM, node.scope[0])
    sweep.maps[node] = change


def prelu(sweep: Sweep, node: Node) -> None:
    """Copy the slopes of a PReLU with one slope per channel. A single slope needs no edit."""
    change = sweep.map_of(node.inputs[0])
    weight = node.arguments["weight"]
    if change is None:
        raise Refusal(Reason.COMPUTED_WEIGHT, node.scope[0])
    if math.prod(weight.shape) > 1:
        if change.dim != 1:
            raise Refusal(Reason.NO_CHANNELS, node.scope[0])
        sweep.edit(node, weight, 0, change, "copy")
        sweep.set(weight, "num_parameters", weight.shape[0], len(change))
    sweep.maps[node] = change


def _along_channels(sweep: Sweep, node: Node) -> ChannelMap:
    """Return the change of a norm's input, which must be along the channels."""
    change = sweep.map_of(node.inputs[0])
    if change is None or change.dim != 1:
        raise Refusal(Reason.NORM, node.scope[0])
    return change


def _weight(sweep: Sweep, node: Node) -> Node:
    """Return the weight of a layer.

    A computed weight can follow a change of its rows, but not one of the layer's input.
    """
    weight = node.arguments["weight"]
    stored = weight.op in STORED
    if weight in sweep.maps if stored else node not in sweep.sources:
        raise Refusal(Reason.COMPUTED_WEIGHT, node.scope[0])
    return weight


def _width(sweep: Sweep, node: Node, change: ChannelMap) -> int:
    """Return the old number of input channels, along which the change must be."""
    shape = node.inputs[0].shape
    dim = sweep.reading.dims[node]
    if change.dim != dim or shape is None:
        raise Refusal(Reason.NO_CHANNELS, node.scope[0])
    return shape[dim]
