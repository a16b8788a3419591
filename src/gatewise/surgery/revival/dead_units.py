"""Find dead units, and what would have to change to revive them.

What dead means: Note [Dead]. Those whose output is zero are revived, because zero weights behind
them keep the output of the network. Those that are stuck at another number, such as the 6 of ReLU6,
are refused.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.graph import (
    CHANNEL_NORMS,
    ChannelRange,
    Node,
    Site,
    SiteFunction,
    SiteGraph,
    SiteNodes,
    dead_channels,
    find_sites,
    run_graph,
    slope_of,
    split_example,
    untouched,
)
from gatewise.surgery.propagate import readers
from gatewise.surgery.reasons import Reason, Refusal
from gatewise.surgery.tools import plain_layer
from gatewise.words import plural

NOT_ZERO = "the output is constant, but not zero"
Graphs = Sequence[tuple[Any, SiteGraph]]
Place = Callable[[Site, SiteNodes], Node]


@dataclass(frozen=True)
class DeadUnits:
    """Dead units of one site.

    Attributes:
        site: The site.
        layer: The path of the layer in front of it.
        norm: The path of the batch norm between them.
        readers: One label for each input of each layer behind it.
        units: The dead channels.
        alive: The other channels.
    """

    site: Site
    layer: str
    norm: str | None
    readers: Mapping[str, Tensor]
    units: tuple[int, ...]
    alive: tuple[int, ...]


def channel_ranges(
    model: nn.Module, graphs: Graphs, sites: Sequence[Site], place: Place
) -> dict[str, ChannelRange]:
    """Return the range of each channel of a value at each site over all examples.

    Args:
        model: The model.
        graphs: The examples, each with a graph of the model on it.
        sites: The sites.
        place: Returns the node that makes the value.
    """
    ranges: dict[str, ChannelRange] = {}

    def take(site: Site, value: Tensor) -> None:
        dim = site.dim or 0
        if site.name not in ranges:
            ranges[site.name] = ChannelRange(dim, value.dim())
        ranges[site.name].add(value, dim)

    _pass_on(model, graphs, sites, place, take)
    return ranges


def pass_on_rows(
    model: nn.Module,
    graphs: Graphs,
    sites: Sequence[Site],
    place: Place,
    take: Callable[[Site, Tensor], None],
) -> None:
    """Run the model in eval mode on each example, and pass on rows of a value for each site.

    Args:
        model: The model.
        graphs: The examples, each with a graph of the model on it.
        sites: The sites.
        place: Returns the node that makes the value.
        take: Receives the value in float64, one row for each channel.
    """

    def take_rows(site: Site, value: Tensor) -> None:
        take(site, value.movedim(site.dim or 0, 0).flatten(1).double().cpu())

    _pass_on(model, graphs, sites, place, take_rows)


def _pass_on(
    model: nn.Module,
    graphs: Graphs,
    sites: Sequence[Site],
    place: Place,
    take: Callable[[Site, Tensor], None],
) -> None:
    for example, graph in graphs:
        found = graph.readings["eval"].site_nodes
        by_node = {place(site, found[site.name]): site for site in sites if site.name in found}

        def tell(node: Node, value: Tensor, by_node: dict[Node, Site] = by_node) -> None:
            take(by_node[node], value)

        args, kwargs = split_example(example)
        with torch.no_grad(), untouched(model):
            model.eval()
            reading = graph.readings["eval"]
            run_graph(reading.graph, model, args, kwargs, keep=by_node, tell=tell)


def read_all(model: nn.Module, examples: Sequence[Any]) -> list[tuple[Any, SiteGraph]]:
    """Return each example with the graph of the model on it.

    The graph of the first example has train mode, too.
    """
    graphs = []
    for number, example in enumerate(examples):
        if number:
            graphs.append((example, find_sites(model, example, modes=("eval",))))
        else:
            graphs.append((example, find_sites(model, example)))
    return graphs


def dead_units(
    model: nn.Module, graphs: Graphs, sites: Sequence[Site]
) -> tuple[list[DeadUnits], dict[str, str]]:
    """Return the dead units that can be revived, and the reason for each site where they cannot.

    Args:
        model: The model.
        graphs: The examples, each with a graph of the model on it.
        sites: The sites to check.
    """
    graph = graphs[0][1]
    responses = channel_ranges(model, graphs, sites, lambda _, found: found.input)
    outputs = channel_ranges(model, graphs, sites, lambda _, found: found.output)
    modules = dict(model.named_modules())
    dead: list[DeadUnits] = []
    refused: dict[str, str] = {}
    for site in sites:
        if site.name not in outputs:
            continue
        found = graph.readings["eval"].site_nodes[site.name]
        is_dead = _is_dead(found, model, responses[site.name], outputs[site.name])
        stuck = is_dead & ~outputs[site.name].zero().cpu()
        units = _places(is_dead & ~stuck)
        alive = _places(~is_dead)
        if bool(stuck.any()):
            refused[site.name] = f"{plural(int(stuck.sum()), 'dead unit')}; {NOT_ZERO}"
        if not units:
            continue
        try:
            if site.shared:
                raise Refusal(Reason.SHARED, "the module around it is called several times")
            layer, norm = _in_front(found, modules)
            if len(graph.aliases[f"{layer}.weight"]) > 1:
                raise Refusal(Reason.SHARED, f"{layer}.weight")
            labels = readers(graph, site.name, modules)
        except Refusal as refusal:
            refused[site.name] = f"{plural(len(units), 'dead unit')}; {refusal}"
            continue
        dead.append(DeadUnits(site, layer, norm, labels, units, alive))
    return dead, refused


def _is_dead(
    found: SiteNodes, model: nn.Module, responses: ChannelRange, outputs: ChannelRange
) -> Tensor:
    """Return which channels of a site are dead. See Note [Dead]."""
    function = SiteFunction(found.input, found.output, model)
    elementwise = function.known and found.input.shape == found.output.shape
    slope = (lambda z: slope_of(function, z)) if elementwise else None
    return dead_channels(slope, responses, outputs).cpu()


def _places(mask: Tensor) -> tuple[int, ...]:
    return tuple(mask.nonzero().flatten().tolist())


def _in_front(found: SiteNodes, modules: Mapping[str, nn.Module]) -> tuple[str, str | None]:
    """Return the paths of the layer and of the batch norm in front of a site."""
    node = found.input
    if node.op not in CHANNEL_NORMS:
        return plain_layer(node, found.output, modules), None
    path = node.scope[0]
    norm = modules.get(path)
    plain = isinstance(norm, nn.modules.batchnorm._BatchNorm) and norm.running_mean is not None
    if not plain or any(user is not found.output for user in node.users):
        raise Refusal(Reason.NORM, path)
    return plain_layer(node.inputs[0], node, modules), path
