"""Copies of a module that share its tensors and submodules, to be changed where the module itself must not be."""

import torch
from torch import nn
from torch.nn.utils import parametrize

TABLES = ("_parameters", "_buffers", "_modules")


def shallow_copy(module: nn.Module) -> nn.Module:
    """A module of the same class with the same tensors and submodules, in tables of its own."""
    return _as_instance(type(module), module)


@torch.no_grad()
def without_parametrizations(module: nn.Module) -> nn.Module:
    """The plain layer with the weights that the parametrised ``module`` computes.

    Torch's own way back deletes from the class, which deep copies share, and would break all of
    them.
    """
    made = _as_instance(parametrize.type_before_parametrizations(module), module)
    held = made._modules.pop("parametrizations")
    assert isinstance(held, nn.ModuleDict)  # noqa: S101  torch's own
    weights = {
        name: nn.Parameter(getattr(module, name).detach().clone(), _learns(held[name]))
        for name in held
    }
    made.__dict__["_parameters"] = {**weights, **made._parameters}
    return made


def _learns(module: nn.Module) -> bool:
    return any(parameter.requires_grad for parameter in module.parameters())


def _as_instance(kind: type, module: nn.Module) -> nn.Module:
    made: nn.Module = object.__new__(kind)
    made.__dict__.update(
        {name: dict(held) if name in TABLES else held for name, held in module.__dict__.items()}
    )
    return made
