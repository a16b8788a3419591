"""Which inputs of which layers are the channels of a site.

For changes that the layers behind a site can take over.

An order of the channels and a positive factor for each pass everything that treats channels alike
and is positively homogeneous, up to the layers that read them. What is followed is a label for each
element: which channel it is of.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from gatewise.graph import MAX_POOLS, POOLS, Node, SiteGraph
from gatewise.surgery.propagate.phases import Deferral
from gatewise.surgery.reasons import Reason, Refusal

OTHER = 1.0  # the label of what is no channel of the site
FIRST = 2.0  # the label of its first channel


class ChannelTrace(Deferral):
    """One graph, one site in it, and the label of every input of the layers that read it."""

    def run(self) -> "ChannelTrace":
        """Follow the labels to the layers; a :class:`Refusal` says why it cannot be done."""
        start = self.reading.found[self.names[0]].output
        dim = self.reading.dims.get(start)
        if dim is None or start.shape is None:
            raise Refusal(Reason.NO_CHANNELS)
        shape = [-1 if each == dim else 1 for each in range(start.rank)]
        self.slopes[start] = (torch.arange(start.shape[dim]) + FIRST).view(shape)
        for node in self.reading.graph.nodes[start.index + 1 :]:
            if any(each in self.slopes for each in node.inputs):
                self._visit(node)
        self._check_layers_are_read_once()
        return self

    def _visit(self, node: Node) -> None:
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
        """No factor can wait here: it may be another for each channel."""

    def _alike(self, node: Node, dims: Sequence[int]) -> Tensor:
        labels = self.slopes[node.inputs[0]]
        if any(labels.shape[dim] != 1 for dim in dims):
            raise Refusal(Reason.AVERAGED, node.op)
        return labels


def readers(graph: SiteGraph, name: str, modules: Mapping[str, nn.Module]) -> dict[str, Tensor]:
    """The layers that read the site ``name``, with a label for each of their inputs, or a Refusal."""
    found: dict[str, Tensor] = {}
    for reading in graph.readings.values():
        if name in reading.found:
            layers = ChannelTrace(reading, [name], modules).run().layers
            if any(
                not torch.equal(found.setdefault(path, labels), labels)
                for path, labels in layers.items()
            ):
                raise Refusal(Reason.SHARED, "differently in train mode")
    tied = [path for path in found if len(graph.aliases.get(f"{path}.weight", ())) > 1]
    if tied:
        raise Refusal(Reason.SHARED, ", ".join(tied))
    if any(getattr(modules[path], "groups", 1) != 1 for path in found):
        raise Refusal(Reason.GROUPS)
    return found


def new_columns(labels: Tensor, order: Sequence[int]) -> Tensor:
    """For each input of a reader, which old input it is once the site's channel ``i`` is what was ``order[i]``.

    A Refusal, where the reader does not read all channels alike.
    """
    places = [(labels == channel + FIRST).nonzero().flatten() for channel in range(len(order))]
    columns = torch.arange(len(labels))
    for now, before in enumerate(order):
        if len(places[now]) != len(places[before]):
            raise Refusal(Reason.DIFFERENT, "a layer reads some of its channels only")
        columns[places[now]] = places[before]
    return columns


def of_channels(labels: Tensor, values: Tensor) -> Tensor:
    """For each input of a reader the number in ``values`` that its channel has.

    1 for inputs of other origin.
    """
    mine = labels >= FIRST
    made = torch.ones(len(labels), dtype=values.dtype)
    made[mine] = values[(labels[mine] - FIRST).long()]
    return made
