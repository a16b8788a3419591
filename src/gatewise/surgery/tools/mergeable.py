"""Where pairs of filters can be merged.

Rectifiers that read a layer of their own, and nothing in between.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from gatewise.graph import CHANNEL_NORMS, CONVOLUTIONS, Found, Node, Site, SiteGraph
from gatewise.surgery.calls import CallSite, check_call
from gatewise.surgery.propagate import readers
from gatewise.surgery.reasons import Reason, Refusal

LAYERS: tuple[type[nn.Module], ...] = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)


@dataclass(frozen=True)
class Mergeable:
    """A rectifier, the layer whose filters it rectifies, and the layers behind that read all of its channels.

    ``readers`` has a label for each input of each of them; it is ``None`` where not all that reads the site is such a
    layer, and ``kept`` says why.
    """

    site: Site
    layer: str
    call: CallSite | None
    readers: Mapping[str, Tensor] | None
    kept: str = ""


def find_mergeable(
    model: nn.Module, graph: SiteGraph, sites: Sequence[Site], calls: Mapping[str, CallSite]
) -> tuple[list[Mergeable], dict[str, str]]:
    """Those of ``sites`` where filters can be merged, and for each of the others why not."""
    modules = dict(model.named_modules())
    found: list[Mergeable] = []
    refused: dict[str, str] = {}
    for site in sites:
        try:
            layer = _layer_of(site, graph, modules)
            call = check_call(site, calls)
        except Refusal as refusal:
            refused[site.name] = str(refusal)
            continue
        try:
            found.append(Mergeable(site, layer, call, readers(graph, site.name, modules)))
        except Refusal as refusal:
            found.append(Mergeable(site, layer, call, None, str(refusal)))
    return found, refused


def _layer_of(site: Site, graph: SiteGraph, modules: Mapping[str, nn.Module]) -> str:
    """The path of the layer whose output the site rectifies, and nothing else reads."""
    if site.op != "relu":
        raise Refusal(Reason.NOT_PRESERVED, f"{site.op}; pairs are pairs for relu")
    if site.shared:
        raise Refusal(Reason.SHARED, "the module around it is called several times")
    layers = {
        _layer(reading.found[site.name], modules)
        for reading in graph.readings.values()
        if site.name in reading.found
    }
    if len(layers) > 1:
        raise Refusal(Reason.SHARED, "differently in train mode")
    layer = layers.pop()
    if len(names := graph.aliases[f"{layer}.weight"]) > 1:
        raise Refusal(Reason.SHARED, ", ".join(names))
    return layer


def _layer(found: Found, modules: Mapping[str, nn.Module]) -> str:
    node = found.input
    if node.op in CHANNEL_NORMS:
        raise Refusal(Reason.NORM, "gw.deploy folds batch norms into the layers before them")
    path = node.scope[0]
    if node.op not in CONVOLUTIONS | {"linear"} or type(modules.get(path)) not in LAYERS:
        raise Refusal(Reason.NOT_A_LAYER, "what it rectifies is not a plain layer's output")
    weight: Node = node.arguments["weight"]
    if weight.op != "parameter":
        raise Refusal(Reason.COMPUTED_WEIGHT, path)
    if weight.name != f"{path}.weight" or len(weight.users) > 1:
        raise Refusal(Reason.SHARED, weight.name)
    if any(user is not found.output for user in node.users):
        raise Refusal(Reason.BRANCH, path)
    if node.op != "linear" and int(node.arguments["groups"]) != 1:
        raise Refusal(Reason.GROUPS, path)
    return path
