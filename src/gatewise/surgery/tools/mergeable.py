"""Find where pairs of filters can be merged: ReLUs directly after a layer that only they read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from gatewise.graph import CHANNEL_NORMS, CONVOLUTIONS, Node, Site, SiteGraph, SiteNodes
from gatewise.surgery.calls import CallSite, check_call
from gatewise.surgery.propagate import readers
from gatewise.surgery.reasons import Reason, Refusal

MERGED_LAYERS: tuple[type[nn.Module], ...] = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)


@dataclass(frozen=True)
class Mergeable:
    """A ReLU, the layer before it, and the layers that read its channels.

    Attributes:
        site: The ReLU.
        layer: Path of the layer before it.
        call: The call to rewrite, if the ReLU is not a module that is called once.
        readers: One label for each input of each layer after it. ``None`` if something else than a
            layer reads the ReLU's output.
        kept: Why ``readers`` is ``None``.
    """

    site: Site
    layer: str
    call: CallSite | None
    readers: Mapping[str, Tensor] | None
    kept: str = ""


def find_mergeable(
    model: nn.Module, graph: SiteGraph, sites: Sequence[Site], calls: Mapping[str, CallSite]
) -> tuple[list[Mergeable], dict[str, str]]:
    """Return the sites where filters can be merged, and the reason for each of the others.

    Args:
        model: The model.
        graph: Its graph.
        sites: The sites to check.
        calls: The recorded call of each site.
    """
    modules = dict(model.named_modules())
    mergeable: list[Mergeable] = []
    refused: dict[str, str] = {}
    for site in sites:
        try:
            layer = _layer_of(site, graph, modules)
            call = check_call(site, calls)
        except Refusal as refusal:
            refused[site.name] = str(refusal)
            continue
        try:
            labels = readers(graph, site.name, modules)
            mergeable.append(Mergeable(site, layer, call, labels))
        except Refusal as refusal:
            # Filters can still be merged: order and scales then stay in the unit.
            mergeable.append(Mergeable(site, layer, call, None, str(refusal)))
    return mergeable, refused


def _layer_of(site: Site, graph: SiteGraph, modules: Mapping[str, nn.Module]) -> str:
    """Return the path of the layer whose output only the site reads."""
    if site.op != "relu":
        raise Refusal(Reason.NOT_PRESERVED, f"{site.op}; pairs are pairs for relu")
    if site.shared:
        raise Refusal(Reason.SHARED, "the module around it is called several times")
    layers = set()
    for reading in graph.readings.values():
        if site.name in reading.site_nodes:
            layers.add(_layer(reading.site_nodes[site.name], modules))
    if len(layers) > 1:
        raise Refusal(Reason.SHARED, "differently in train mode")
    layer = layers.pop()
    names = graph.aliases[f"{layer}.weight"]
    if len(names) > 1:
        raise Refusal(Reason.SHARED, ", ".join(names))
    return layer


def _layer(found: SiteNodes, modules: Mapping[str, nn.Module]) -> str:
    """Return the path of the layer before one call of the site."""
    if found.input.op in CHANNEL_NORMS:
        raise Refusal(
            Reason.NORM, "gw.surgery.deploy folds batch norms into the layers before them"
        )
    return plain_layer(found.input, found.output, modules)


def plain_layer(node: Node, reader: Node, modules: Mapping[str, nn.Module]) -> str:
    """Return the path of the plain layer that is called at ``node`` and read by ``reader`` alone.

    Args:
        node: The call.
        reader: The only call that may read it.
        modules: The model's modules, by path.

    Raises:
        Refusal: It is another call, or its weight or output is used elsewhere, too.
    """
    path = node.scope[0]
    if node.op not in CONVOLUTIONS | {"linear"} or type(modules.get(path)) not in MERGED_LAYERS:
        raise Refusal(Reason.NOT_A_LAYER, "its input is not the output of a plain layer")
    weight: Node = node.arguments["weight"]
    if weight.op != "parameter":
        raise Refusal(Reason.COMPUTED_WEIGHT, path)
    if weight.name != f"{path}.weight" or len(weight.users) > 1:
        raise Refusal(Reason.SHARED, weight.name)
    if any(user is not reader for user in node.users):
        raise Refusal(Reason.BRANCH, path)
    if node.op != "linear" and int(node.arguments["groups"]) != 1:
        raise Refusal(Reason.GROUPS, path)
    return path
