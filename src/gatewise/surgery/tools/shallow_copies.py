"""Copies of a module that share its tensors and submodules.

A copy can be changed where the module itself must stay as it is.
"""

import torch
from torch import nn
from torch.nn.utils import parametrize

TABLES = ("_parameters", "_buffers", "_modules")


def shallow_copy(module: nn.Module) -> nn.Module:
    """Return a module of the same class with the same tensors and submodules."""
    return _as_instance(type(module), module)


@torch.no_grad()
def without_parametrizations(module: nn.Module) -> nn.Module:
    """Return the plain layer with the weights that the parametrised ``module`` computes.

    ``torch.nn.utils.parametrize.remove_parametrizations`` is not used: it deletes attributes from
    the class, which deep copies share, and so breaks the copies.
    """
    copy = _as_instance(parametrize.type_before_parametrizations(module), module)
    parametrizations = copy._modules.pop("parametrizations")
    assert isinstance(parametrizations, nn.ModuleDict)  # noqa: S101  torch guarantees it
    weights = {}
    for name, parametrization in parametrizations.items():
        learns = any(parameter.requires_grad for parameter in parametrization.parameters())
        weights[name] = nn.Parameter(getattr(module, name).detach().clone(), learns)
    copy.__dict__["_parameters"] = {**weights, **copy._parameters}
    return copy


def _as_instance(kind: type, module: nn.Module) -> nn.Module:
    """Return an instance of ``kind`` with the attributes of ``module``."""
    copy: nn.Module = object.__new__(kind)
    for name, value in module.__dict__.items():
        copy.__dict__[name] = dict(value) if name in TABLES else value
    return copy
