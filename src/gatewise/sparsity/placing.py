"""Put thresholds into a model: at the inputs of its linear layers, or at its gates."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from gatewise.batches import ModelCall
from gatewise.checks import NameWhere, selects
from gatewise.errors import ArgumentError, Limitation, NotApplicableError
from gatewise.graph import Site, find_sites
from gatewise.sparsity.sparse_linear import SparseLinear
from gatewise.sparsity.thresholds import Place, linear_layers
from gatewise.surgery import ThresholdedUnit, receipt, swap, undo

METHODS = ("input", "gate")
GATED_ROLES = ("glu", "mlp")


@dataclass
class Placed:
    """What was put into a model.

    Attributes:
        model: the model with thresholds.
        places: where these are.
        readers: the linear layers that can skip inputs, by path.
        left: layers that stay as they are, with the reason.
        replaced: the layers that were replaced, by path.
        swapped: whether activations were swapped.
        fast_forms: which fast form each encoder layer of torch had, see :func:`set_module`.
    """

    model: nn.Module
    places: list[Place] = field(default_factory=list)
    readers: dict[str, SparseLinear] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    replaced: dict[str, nn.Linear] = field(default_factory=dict)
    swapped: bool = False
    fast_forms: dict[nn.TransformerEncoderLayer, int] = field(default_factory=dict)

    def put_back(self) -> None:
        """Give the model its own layers and activations again."""
        for path, layer in self.replaced.items():
            set_module(self.model, path, layer)
        for layer, form in self.fast_forms.items():
            layer.activation_relu_or_gelu = form
        if self.swapped:
            undo(self.model)


def place(model: nn.Module, batch: ModelCall, method: str, where: NameWhere) -> Placed:
    """Put places for thresholds into ``model``, without thresholds yet.

    Args:
        model: it is changed, and for gates replaced by the result of a swap.
        batch: the model runs on it.
        method: ``"input"`` or ``"gate"``.
        where: patterns of the layers' paths, or a function of a path.
    """
    selects(where, "")  # raises unless it can select
    fast_forms = {}
    for module in model.modules():
        if isinstance(module, nn.TransformerEncoderLayer):
            fast_forms[module] = module.activation_relu_or_gelu
    placed = (_place_gates if method == "gate" else _place_inputs)(model, batch, where)
    placed.fast_forms = fast_forms
    return placed


def _place_inputs(model: nn.Module, batch: ModelCall, where: NameWhere) -> Placed:
    placed = Placed(model)
    layers = linear_layers(model)
    called, makes_output = called_layers(model, batch, layers)
    shared = _shared_weights(model)
    for path, layer in layers.items():
        if not selects(where, path):
            placed.left[path] = "not chosen"
        elif path not in called:
            placed.left[path] = "this data does not reach it as a layer"
        elif id(layer.weight) in shared:
            placed.left[path] = "its weight is used elsewhere too"
        elif where is None and path in makes_output and _reads_tokens(batch):
            placed.left[path] = 'output layer; where="*" to include it'
        else:
            sparse = _replace(placed, path, layer)
            weights = layer.weight.numel()
            placed.places.append(Place(path, sparse, weights, layer.in_features))
    if not placed.places:
        raise NotApplicableError(
            Limitation.NO_LAYER,
            "sparsify: the model has no linear layer that can have a threshold",
            got="; ".join(f"{path}: {why}" for path, why in placed.left.items()) or "no nn.Linear",
        )
    return placed


def _reads_tokens(batch: ModelCall) -> bool:
    """Return whether the inputs are whole numbers, as those of language models."""
    return not any(tensor.is_floating_point() for tensor in batch.tensors())


def _called_units(model: nn.Module, batch: ModelCall) -> list[str]:
    """Return the paths of the units with thresholds, in the order of their calls."""
    called: list[str] = []
    handles = []
    for path, module in model.named_modules():
        if isinstance(module, ThresholdedUnit):
            handles.append(module.register_forward_hook(lambda *_, path=path: called.append(path)))
    try:
        with torch.no_grad():
            batch.run(model)
    finally:
        for handle in handles:
            handle.remove()
    return called


def _place_gates(model: nn.Module, batch: ModelCall, where: NameWhere) -> Placed:
    graph = find_sites(model, batch.example, modes=("eval",), units=True)

    def chosen(site: Site) -> bool:
        return site.role in GATED_ROLES and selects(where, site.name)

    if not any(map(chosen, graph)):
        raise NotApplicableError(
            Limitation.NO_GATES,
            "sparsify: the model has no gate between linear layers that can have a threshold",
            got=", ".join(f"{site.name} ({site.role})" for site in graph) or "no activation",
            fix="method='input' puts thresholds on the inputs of linear layers",
        )
    changed = swap(model, "thresholded", batch.example, where=chosen, gates=True, inplace=True)
    placed = Placed(changed, swapped=True)
    layers = linear_layers(changed)
    shared = _shared_weights(changed)
    swapped = []
    for site in sorted(graph, key=lambda site: site.order):
        if site.name in receipt(changed).sites:
            swapped.append(site)
        elif chosen(site):
            placed.left[site.name] = "its activation cannot have a threshold"
    for site, name in zip(swapped, _called_units(changed, batch), strict=True):
        unit = changed.get_submodule(name)
        weights = 0
        for path in site.consumers:
            layer = layers.get(path)
            if layer is None or id(layer.weight) in shared:
                placed.left[path] = "it reads a gate, but is no plain linear layer of its own"
                continue
            sparse = placed.readers.get(path) or _replace(placed, path, layer)
            sparse.threshold = 0.0
            weights += layer.weight.numel()
        placed.places.append(Place(name, unit, weights, site.channels or 1, "gate"))
    return placed


def _replace(placed: Placed, path: str, layer: nn.Linear) -> SparseLinear:
    """Put a layer that can skip inputs in the place of a linear layer."""
    if layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks:
        raise ArgumentError(
            "sparsify: a layer has hooks, which would be lost",
            got=path,
            fix="remove the hooks first, or leave the layer out with where",
        )
    sparse = SparseLinear(layer)
    set_module(placed.model, path, sparse)
    placed.replaced[path] = layer
    placed.readers[path] = sparse
    return sparse


def set_module(model: nn.Module, path: str, module: nn.Module) -> None:
    """Put a module in the place of another, and see to it that it runs.

    ``nn.TransformerEncoderLayer`` has a fast form that reads the weights of its parts and calls
    none of them. It runs only if the layer says that its activation is ReLU or GELU.

    Args:
        model: it is changed.
        path: of the module that is replaced.
        module: in its place.
    """
    parent, _, name = path.rpartition(".")
    if not path:
        raise ArgumentError(
            "sparsify: the model is one linear layer, which cannot be replaced in itself",
            got=type(model).__name__,
            fix="pass nn.Sequential(model)",
        )
    setattr(model.get_submodule(parent), name, module)
    while parent:
        layer = model.get_submodule(parent)
        if isinstance(layer, nn.TransformerEncoderLayer):
            layer.activation_relu_or_gelu = 0
        parent = parent.rpartition(".")[0]


@torch.no_grad()
def called_layers(
    model: nn.Module, batch: ModelCall, layers: Mapping[str, nn.Linear]
) -> tuple[set[str], set[str]]:
    """Return the layers that one run calls, and those whose output the model returns.

    Args:
        model: it runs once.
        batch: what it runs on.
        layers: linear layers of the model, by path.
    """
    outputs: dict[str, Tensor] = {}
    handles = []

    def keep(path: str) -> Any:
        def hook(module: nn.Module, args: Any, output: Tensor) -> None:
            outputs[path] = output

        return hook

    for path, layer in layers.items():
        handles.append(layer.register_forward_hook(keep(path)))
    try:
        returned = tree_leaves(batch.run(model))
    finally:
        for handle in handles:
            handle.remove()
    results = {each.data_ptr() for each in returned if isinstance(each, Tensor)}
    return set(outputs), {path for path, out in outputs.items() if out.data_ptr() in results}


def _shared_weights(model: nn.Module) -> set[int]:
    """Return the ids of parameters that stand at several places of a model."""
    seen: set[int] = set()
    shared: set[int] = set()
    for module in model.modules():
        for parameter in module._parameters.values():
            if parameter is not None:
                (shared if id(parameter) in seen else seen).add(id(parameter))
    return shared
