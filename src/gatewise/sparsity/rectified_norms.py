"""ReLU after norms: the linear layers that read a norm can then skip zeros (arXiv:2310.04564).

Note [Norms]. A norm is a module without submodules whose class name contains ``Norm``, and that
keeps the shape of its input. ReLU is put after it only if nothing but linear layers reads its
output. So the residual stream stays as it is, also in networks with norms after the sum.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from gatewise.batches import ModelCall
from gatewise.checks import NameWhere, selects
from gatewise.sparsity.placing import called_layers, set_module
from gatewise.sparsity.thresholds import linear_layers

# These ask a tensor about itself, and read no number of it: methods and attributes.
QUESTIONS = frozenset(
    "size dim ndimension numel nelement element_size is_floating_point stride is_contiguous "
    "get_device shape dtype device ndim requires_grad is_cuda is_cpu is_meta is_mps layout "
    "is_sparse is_nested is_quantized is_leaf grad_fn itemsize nbytes names".split()
)


class RectifiedNorm(nn.Module):
    """A norm, followed by ReLU.

    Args:
        norm: the norm. Its parameters are those of ``norm`` in this module.
    """

    norm: nn.Module

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm
        self.training = norm.training

    def __getattr__(self, name: str) -> Any:
        """Return what the norm has under a name: some models read its weight or its eps."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("norm"), name)

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """Return the positive part of the norm's output."""
        return torch.relu(self.norm(*args, **kwargs))


class _Readers(TorchFunctionMode):
    """Notes which functions read the outputs of norms.

    Args:
        weights: the path of the linear layer that a weight belongs to, by its id.
    """

    def __init__(self, weights: Mapping[int, str]) -> None:
        super().__init__()
        self.weights = weights
        self.outputs: dict[int, tuple[str, Tensor]] = {}  # the tensors stay alive, so do their ids
        self.layers: dict[str, set[str]] = {}
        self.others: dict[str, str] = {}

    def keep(self, path: str, output: Any) -> None:
        """Follow the output of a norm from here on."""
        self.layers.setdefault(path, set())
        if isinstance(output, Tensor):
            self.outputs[id(output)] = (path, output)
        else:
            self.others[path] = "its output is not one tensor"

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = _name_of(func)
        for each in tree_leaves((args, kwargs)) if name not in QUESTIONS else ():
            if not isinstance(each, Tensor) or id(each) not in self.outputs:
                continue
            path, _ = self.outputs[id(each)]
            layer = self.weights.get(id(args[1])) if func is F.linear and len(args) > 1 else None
            if layer is None:
                self.others[path] = f"{name} reads its output too"
            else:
                self.layers[path].add(layer)
        return func(*args, **kwargs)


@torch.no_grad()
def rectify_norms(
    model: nn.Module, batch: ModelCall, where: NameWhere = None
) -> tuple[list[str], set[str], dict[str, str]]:
    """Put ReLU after the norms of a model that linear layers alone read. See Note [Norms].

    Args:
        model: it is changed.
        batch: the model runs on it.
        where: which norms: patterns of their paths, or a function of a path.

    Returns:
        The paths of these norms, the linear layers that read them, and norms that stay as they
        are, with the reason.
    """
    layers = linear_layers(model)
    _, makes_output = called_layers(model, batch, layers)
    readers = _Readers({id(layer.weight): path for path, layer in layers.items()})
    handles = []
    paths: dict[nn.Module, list[str]] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        if _may_be_norm(module):
            paths.setdefault(module, []).append(path)
    for norm, names in paths.items():
        if selects(where, names[0]):
            hook = _keeping(readers, names[0])
            handles.append(norm.register_forward_hook(hook, with_kwargs=True))
    try:
        with readers:
            returned = tree_leaves(batch.run(model))
    finally:
        for handle in handles:
            handle.remove()
    for each in returned:
        if id(each) in readers.outputs:
            readers.others[readers.outputs[id(each)][0]] = "the model returns its output"
    changed: list[str] = []
    read: set[str] = set()
    left = dict(readers.others)
    for path, found in readers.layers.items():
        if path in left:
            continue
        if not found:
            left[path] = "no linear layer reads its output"
        elif found & makes_output:
            left[path] = "it is read by the layer that makes the scores"
        else:
            norm = model.get_submodule(path)
            rectified = RectifiedNorm(norm)
            for each in paths[norm]:  # a norm that several blocks share
                set_module(model, each, rectified)
            changed.append(path)
            read |= found
    return changed, read, left


def _may_be_norm(module: nn.Module) -> bool:
    is_leaf = next(module.children(), None) is None
    return is_leaf and "Norm" in type(module).__name__


def _keeping(readers: _Readers, path: str) -> Any:
    def hook(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        given = tree_leaves((args, kwargs))
        shapes = [each.shape for each in given if isinstance(each, Tensor)]
        if isinstance(output, Tensor) and output.shape not in shapes:
            readers.layers.setdefault(path, set())
            readers.others[path] = "its output has another shape than its input"
        else:
            readers.keep(path, output)

    return hook


def _name_of(function: Any) -> str:
    """Return the name of a function of torch; of an attribute, its own name."""
    name = getattr(function, "__name__", str(function))
    if name == "__get__":
        return str(getattr(getattr(function, "__self__", None), "__name__", name))
    return name
