"""Fold batch norms into the layers before them, for evaluation."""

from collections import OrderedDict
from dataclasses import dataclass

import torch
from torch import nn

from gatewise.graph import CONVOLUTIONS, TRANSPOSED, Node, SiteGraph

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
TURNED = (
    nn.ConvTranspose1d,
    nn.ConvTranspose2d,
    nn.ConvTranspose3d,
)  # their weights count inputs first
WITH_ACTIVATION = (
    "drop",
    "act",
)  # what timm's norms with an activation inside call after norming, in this order
LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, *TURNED)


@dataclass(frozen=True)
class Foldable:
    """A batch norm, the layer it can be folded into, and how many numbers it norms on the example."""

    norm: str
    layer: str
    size: int


def find_foldable(model: nn.Module, graph: SiteGraph) -> tuple[list[Foldable], dict[str, str]]:
    """The batch norms that can be folded, and for each of the others why not."""
    reading = graph.readings.get("eval")
    found: list[Foldable] = []
    left: dict[str, str] = {}
    for node in reading.graph if reading is not None else ():
        if node.op == "batch_norm":
            path = node.scope[0]
            why = _why_not(model, graph, node)
            if why:
                left[path] = why
            else:
                size = torch.Size(node.shape or ()).numel()
                found.append(Foldable(path, node.inputs[0].scope[0], size))
    return [each for each in found if each.norm not in left], left


def _why_not(model: nn.Module, graph: SiteGraph, node: Node) -> str:
    """Why the norm that made ``node`` stays; empty if it can be folded."""
    norm, source = model.get_submodule(node.scope[0]), node.inputs[0]
    if not isinstance(norm, NORMS) or (
        type(norm) not in NORMS and tuple(norm._modules) != WITH_ACTIVATION
    ):
        return "it is not a plain batch norm module"
    if norm.running_mean is None or norm.running_var is None:
        return "it has no running statistics"
    if source.op not in CONVOLUTIONS | TRANSPOSED | {"linear"}:
        return f"what it reads is no layer's output ({source.op})"
    layer = model.get_submodule(source.scope[0])
    weight = source.arguments["weight"]
    if type(layer) not in LAYERS or weight.name != f"{source.scope[0]}.weight":
        return "the layer before it is not a plain one"
    if len(source.users) > 1:
        return "the layer before it is read by others too"
    if source.op == "linear" and source.rank != 2:
        return "it norms another dimension than the layer's outputs"
    if isinstance(layer, TURNED) and layer.groups != 1:
        return "the transposed convolution before it is grouped"
    return _shared(graph, node, weight)


def _shared(graph: SiteGraph, node: Node, weight: Node) -> str:
    leaves = [weight, *(each for each in node.inputs[1:] if each.op in ("parameter", "buffer"))]
    if any(len(leaf.users) > 1 or len(graph.aliases.get(leaf.name, ())) > 1 for leaf in leaves):
        return "its numbers or the layer's weights are used elsewhere too"
    return ""


@torch.no_grad()
def fold(model: nn.Module, each: Foldable) -> nn.Module:
    """Put what the norm does into its layer's weight and bias, and return what takes the norm's place."""
    norm, layer = model.get_submodule(each.norm), model.get_submodule(each.layer)
    assert isinstance(norm, NORMS) and isinstance(layer, LAYERS)  # noqa: S101  find_foldable has seen to it
    assert norm.running_mean is not None and norm.running_var is not None  # noqa: S101  and to this
    scale = (norm.running_var.double() + norm.eps).rsqrt()
    if norm.weight is not None:
        scale = scale * norm.weight.double()
    start = 0.0 if norm.bias is None else norm.bias.double()
    bias = start - norm.running_mean.double() * scale
    if layer.bias is not None:
        bias = bias + layer.bias.double() * scale
    weight = layer.weight
    across = (1, -1) if isinstance(layer, TURNED) else (-1, 1)
    factors = scale.view(*across, *(1,) * (weight.dim() - 2))
    layer.weight = nn.Parameter((weight.double() * factors).to(weight), weight.requires_grad)
    layer.bias = nn.Parameter(bias.to(weight), weight.requires_grad)
    return (
        nn.Identity() if type(norm) in NORMS else nn.Sequential(OrderedDict(norm.named_children()))
    )
