"""Copies of a module that share its tensors and submodules, to be changed where the module itself must not be."""

import torch
from torch import nn
from torch.nn.utils import parametrize

TABLES = ("_parameters", "_buffers", "_modules")


def shallow_copy(module: nn.Module) -> nn.Module:
    """A module of the same class with the same tensors and submodules, in tables of its own."""
    made = type(module).__new__(type(module))
    made.__dict__.update({name: dict(held) if name in TABLES else held for name, held in module.__dict__.items()})
    return made


@torch.no_grad()
def without_parametrizations(module: nn.Module) -> nn.Module:
    """The plain layer with the weights that the parametrised ``module`` computes.

    Torch's own way back deletes from the class, which deep copies share, and would break all of them.
    """
    plain = parametrize.type_before_parametrizations(module)
    made = plain.__new__(plain)
    made.__dict__.update({name: dict(held) if name in TABLES else held for name, held in module.__dict__.items()})
    held = made._modules.pop("parametrizations")
    weights = {name: getattr(module, name).detach().clone() for name in held}  # type: ignore[union-attr]
    trained = {name: any(each.requires_grad for each in held[name].parameters()) for name in weights}  # type: ignore[index]
    parameters = {name: nn.Parameter(value, trained[name]) for name, value in weights.items()}
    made.__dict__["_parameters"] = {**parameters, **made._parameters}
    return made
