"""Find which inputs of which layers are the channels of a site.

A reordering of the channels, and a positive factor for each, can be moved behind everything that is
positively homogeneous and treats channels alike, up to the layers that read them. To find these
inputs, every element carries a label: the number of its channel.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from gatewise.graph import MAX_POOLS, POOLS, Node, SiteGraph
from gatewise.surgery.propagate.deferral import Deferral, check_untied, merge_modes
from gatewise.surgery.reasons import Reason, Refusal

FIRST = 2.0  # label of the site's first channel. Label 1 means: not a channel of the site.


class ChannelTrace(Deferral):
    """One graph, one site in it, and the labels at the inputs of the layers that read it."""

    def run(self) -> "ChannelTrace":
        """Follow the labels to the layers.

        Raises:
            Refusal: An operator mixes channels before a layer reads them.
        """
        start = self.reading.site_nodes[self.names[0]].output
        dim = self.reading.dims.get(start)
        if dim is None or start.shape is None:
            raise Refusal(Reason.NO_CHANNELS)
        shape = [1] * start.rank
        shape[dim] = -1
        self.slopes[start] = (torch.arange(start.shape[dim], device="cpu") + FIRST).view(shape)
        for node in self.reading.graph.nodes[start.index + 1 :]:
            if self._reads_slopes(node):
                self._visit(node)
        self._check_layers_are_read_once()
        return self

    def _visit(self, node: Node) -> None:
        """Follow the labels. Unlike slopes, they pass averages over other dimensions."""
        if node.op in POOLS - MAX_POOLS:
            self.slopes[node] = self._alike(node, range(node.rank - int(node.op[-2]), node.rank))
        elif node.op == "mean" and node.arguments.get("dim") is not None:
            source = node.inputs[0]
            dims = [dim % source.rank for dim in node.arguments["dim"]]
            labels = self._alike(node, dims)
            self.slopes[node] = labels if node.arguments.get("keepdim") else labels.amax(dims)
        else:
            super()._visit(node)

    def _scaled(self, node: Node) -> None:
        """Refuse products: the factor may differ between channels."""

    def _alike(self, node: Node, dims: Sequence[int]) -> Tensor:
        """Return the input's labels, which must not differ along ``dims``."""
        labels = self.slopes[node.inputs[0]]
        if any(labels.shape[dim] != 1 for dim in dims):
            raise Refusal(Reason.AVERAGED, node.op)
        return labels


def readers(
    graph: SiteGraph,
    name: str,
    modules: Mapping[str, nn.Module],
) -> dict[str, Tensor]:
    """Find the layers that read the site ``name``.

    Args:
        graph: The model's graph.
        name: The site.
        modules: The model's modules, by path.

    Returns:
        One label for each input channel of each layer, by the layer's path.

    Raises:
        Refusal: Something else reads the site, or a layer is shared or grouped.
    """
    layers: dict[str, Tensor] = {}
    for reading in graph.readings.values():
        if name in reading.site_nodes:
            merge_modes(layers, ChannelTrace(reading, [name], modules).run().layers)
    check_untied(graph, layers)
    if any(getattr(modules[path], "groups", 1) != 1 for path in layers):
        raise Refusal(Reason.GROUPS)
    return layers


def new_columns(labels: Tensor, order: Sequence[int]) -> Tensor:
    """Return the old input that each input of a reader must read after a reordering.

    Args:
        labels: The labels of the reader's inputs, from :func:`readers`.
        order: The site's new channel ``i`` is its old channel ``order[i]``.

    Raises:
        Refusal: The reader reads some channels more often than others.
    """
    places = [(labels == channel + FIRST).nonzero().flatten() for channel in range(len(order))]
    columns = torch.arange(len(labels), device="cpu")
    for after, before in enumerate(order):
        if len(places[after]) != len(places[before]):
            raise Refusal(Reason.DIFFERENT, "a layer reads some of its channels only")
        columns[places[after]] = places[before]
    return columns


def columns_of(labels: Tensor, channels: Sequence[int]) -> list[int]:
    """Return the inputs of a reader that are one of some channels of the site.

    Args:
        labels: The labels of the reader's inputs, from :func:`readers`.
        channels: Channels of the site.
    """
    wanted = torch.tensor(channels, dtype=labels.dtype, device=labels.device) + FIRST
    return torch.isin(labels, wanted).nonzero().flatten().tolist()


def of_channels(labels: Tensor, values: Tensor) -> Tensor:
    """Return the number of ``values`` for the channel of each input of a reader.

    Inputs that are not channels of the site get 1.

    Args:
        labels: The labels of the reader's inputs, from :func:`readers`.
        values: One number for each channel of the site.
    """
    of_site = labels >= FIRST
    result = torch.ones(len(labels), dtype=values.dtype, device="cpu")
    result[of_site] = values[(labels[of_site] - FIRST).long()]
    return result
