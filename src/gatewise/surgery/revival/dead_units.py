"""Find units whose output is zero for all inputs, and what would have to change to revive them.

Note [Dead here]. A unit is dead if its output is zero on every input and position, up to the
rounding of the largest output of its site. So zero weights behind it keep the output of the
network. A unit that is always off but not zero (GELU at small negative responses, leaky ReLU) still
has a gradient and is not counted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.graph import (
    CHANNEL_NORMS,
    Node,
    Site,
    SiteGraph,
    SiteNodes,
    find_sites,
    run_graph,
    split_example,
    untouched,
)
from gatewise.surgery.propagate import readers
from gatewise.surgery.reasons import Reason, Refusal
from gatewise.surgery.tools import plain_layer
from gatewise.words import plural

Graphs = Sequence[tuple[Any, SiteGraph]]


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


def largest_outputs(model: nn.Module, graphs: Graphs, sites: Sequence[Site]) -> dict[str, Tensor]:
    """Return the largest absolute output of each channel of each site over all examples.

    Args:
        model: The model.
        graphs: The examples, each with a graph of the model on it.
        sites: The sites.
    """
    largest: dict[str, Tensor] = {}

    def take(site: Site, rows: Tensor) -> None:
        size = rows.abs().amax(1)
        largest[site.name] = torch.maximum(largest.get(site.name, size), size)

    pass_on_rows(model, graphs, sites, lambda _, found: found.output, take)
    return largest


def pass_on_rows(
    model: nn.Module,
    graphs: Graphs,
    sites: Sequence[Site],
    place: Callable[[Site, SiteNodes], Node],
    take: Callable[[Site, Tensor], None],
) -> None:
    """Run the model in eval mode on each example, and pass on a value for each site.

    Args:
        model: The model.
        graphs: The examples, each with a graph of the model on it.
        sites: The sites.
        place: Returns the node that makes the value.
        take: Receives the value in float64, one row for each channel.
    """
    for example, graph in graphs:
        found = graph.readings["eval"].site_nodes
        by_node = {place(site, found[site.name]): site for site in sites if site.name in found}

        def tell(node: Node, value: Tensor, by_node: dict[Node, Site] = by_node) -> None:
            site = by_node[node]
            take(site, value.movedim(site.dim or 0, 0).flatten(1).double().cpu())

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
    model: nn.Module, graph: SiteGraph, sites: Sequence[Site], largest: Mapping[str, Tensor]
) -> tuple[list[DeadUnits], dict[str, str]]:
    """Return the dead units that can be revived, and the reason for each site where they cannot.

    Args:
        model: The model.
        graph: Its graph on the first example.
        sites: The sites to check.
        largest: From :func:`largest_outputs`.
    """
    modules = dict(model.named_modules())
    dead: list[DeadUnits] = []
    refused: dict[str, str] = {}
    for site in sites:
        if site.name not in largest:
            continue
        sizes = largest[site.name]
        zero = sizes <= torch.finfo(torch.float32).eps * sizes.max()
        if not bool(zero.any()):
            continue
        units = tuple(zero.nonzero().flatten().tolist())
        alive = tuple((~zero).nonzero().flatten().tolist())
        found = graph.readings["eval"].site_nodes[site.name]
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
