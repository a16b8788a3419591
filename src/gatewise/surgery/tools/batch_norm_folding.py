"""Fold batch norms into the layers before them, for evaluation."""

from collections import OrderedDict
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gatewise.graph import CONVOLUTIONS, TRANSPOSED, Node, SiteGraph
from gatewise.surgery.tools.shallow_copies import shallow_copy

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
TRANSPOSED_LAYERS = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
FOLDED_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, *TRANSPOSED_LAYERS)
# The children of timm's norms with an activation, in the order in which they are called.
WITH_ACTIVATION = ("drop", "act")


@dataclass(frozen=True)
class Foldable:
    """A batch norm, the layer to fold it into, and the elements it normalises on the example."""

    norm: str
    layer: str
    size: int


def find_foldable(model: nn.Module, graph: SiteGraph) -> tuple[list[Foldable], dict[str, str]]:
    """Return the batch norms that can be folded, and the reason for each of the others."""
    reading = graph.readings.get("eval")
    foldable: list[Foldable] = []
    left: dict[str, str] = {}
    for node in reading.graph if reading is not None else ():
        if node.op == "batch_norm":
            path = node.scope[0]
            reason = _why_not(model, graph, node)
            if reason:
                left[path] = reason
            else:
                size = torch.Size(node.shape or ()).numel()
                foldable.append(Foldable(path, node.inputs[0].scope[0], size))
    # A norm that is called twice may be foldable at one call only.
    return [pair for pair in foldable if pair.norm not in left], left


def _why_not(model: nn.Module, graph: SiteGraph, node: Node) -> str:
    """Return why the norm that makes ``node`` cannot be folded, or an empty string."""
    norm = model.get_submodule(node.scope[0])
    source = node.inputs[0]
    plain = type(norm) in NORMS or tuple(norm._modules) == WITH_ACTIVATION
    if not isinstance(norm, NORMS) or not plain:
        return "it is not a plain batch norm module"
    if norm.running_mean is None or norm.running_var is None:
        return "it has no running statistics"
    if source.op not in CONVOLUTIONS | TRANSPOSED | {"linear"}:
        return f"its input is not the output of a layer ({source.op})"
    layer = model.get_submodule(source.scope[0])
    weight = source.arguments["weight"]
    if not isinstance(layer, FOLDED_LAYERS) or weight.name != f"{source.scope[0]}.weight":
        return "the layer before it is not a plain layer"
    if type(layer) not in FOLDED_LAYERS and not _takes_bias(layer, source, norm.num_features):
        return "the layer before it would not add the bias of the norm"
    if len(source.users) > 1:
        return "the output of the layer before it is also used elsewhere"
    if source.op == "linear" and source.rank != 2:
        return "it normalises another dimension than the outputs of the layer"
    if isinstance(layer, TRANSPOSED_LAYERS) and layer.groups != 1:
        return "the transposed convolution before it has groups"
    stored = [leaf for leaf in node.inputs[1:] if leaf.op in ("parameter", "buffer")]
    for leaf in (weight, *stored):
        if len(leaf.users) > 1 or len(graph.aliases.get(leaf.name, ())) > 1:
            return "its parameters or the weight of the layer are also used elsewhere"
    return ""


@torch.no_grad()
def _takes_bias(layer: nn.Module, source: Node, channels: int) -> bool:
    """Whether the layer, of a class of the user, adds its bias, or would if it had one.

    Args:
        layer: The layer, whose convolution or product is ``source``.
        source: The call in the graph.
        channels: The number of outputs.
    """
    bias = source.tensor("bias")
    if bias is not None or layer.bias is not None:
        return bias is not None and bias.name == f"{source.scope[0]}.bias"
    assert isinstance(layer.weight, Tensor)  # noqa: S101  the caller has checked it
    trial = shallow_copy(layer)
    trial.bias = nn.Parameter(layer.weight.new_ones(channels))
    made = trial(layer.weight.new_zeros(source.inputs[0].shape or ()))
    return bool((made == 1).all())


@torch.no_grad()
def fold(model: nn.Module, foldable: Foldable) -> nn.Module:
    """Fold the norm into the weight and bias of its layer.

    Returns:
        The module to put in place of the norm.
    """
    norm = model.get_submodule(foldable.norm)
    layer = model.get_submodule(foldable.layer)
    assert isinstance(norm, NORMS)  # noqa: S101  find_foldable has checked it
    assert isinstance(layer, FOLDED_LAYERS)  # noqa: S101  and this
    assert norm.running_mean is not None and norm.running_var is not None  # noqa: S101  and this
    scale = (norm.running_var.double() + norm.eps).rsqrt()
    if norm.weight is not None:
        scale = scale * norm.weight.double()
    bias = -norm.running_mean.double() * scale
    if norm.bias is not None:
        bias = norm.bias.double() + bias
    if layer.bias is not None:
        bias = bias + layer.bias.double() * scale
    weight = layer.weight
    # The weight of a transposed convolution has the inputs first.
    leading = (1, -1) if isinstance(layer, TRANSPOSED_LAYERS) else (-1, 1)
    factors = scale.view(*leading, *(1,) * (weight.dim() - 2))
    layer.weight = nn.Parameter((weight.double() * factors).to(weight), weight.requires_grad)
    layer.bias = nn.Parameter(bias.to(weight), weight.requires_grad)
    if type(norm) in NORMS:
        return nn.Identity()
    return nn.Sequential(OrderedDict(norm.named_children()))
