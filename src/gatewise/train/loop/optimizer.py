"""The optimiser of a recipe, with parameters in two groups.

Drawn to zero by weight decay, and spared.
"""

from collections.abc import Collection, Iterator

import torch
from torch import nn

from gatewise.train.config import Optimiser, Rates, Recipe
from gatewise.units import registered_units

NORMS = (
    nn.LayerNorm,
    nn.GroupNorm,
    nn.LocalResponseNorm,
    nn.RMSNorm,
    nn.modules.batchnorm._NormBase,
)


def make_optimiser(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """An optimiser over all parameters of ``model``.

    Learning rate and decay are set before each step.
    """
    spared = spared_parameters(model, recipe.weight_decay.spare)
    trained = {
        name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad
    }
    groups = [
        {"params": [each for name, each in trained.items() if name not in spared], "decays": True},
        {"params": [each for name, each in trained.items() if name in spared], "decays": False},
    ]
    return _make(recipe.optimiser, [group for group in groups if group["params"]])


def set_rates(optimiser: torch.optim.Optimizer, rates: Rates) -> None:
    """Tell the optimiser what the next step's learning rate and weight decay are."""
    for group in optimiser.param_groups:
        group["lr"] = rates.lr
        group["weight_decay"] = rates.weight_decay if group["decays"] else 0.0


def spared_parameters(model: nn.Module, kinds: Collection[str]) -> set[str]:
    """Names of the parameters that weight decay leaves alone.

    See :class:`gatewise.train.config.recipe.WeightDecay`.
    """
    spared: set[str] = set()
    own_units = tuple(unit.module for unit in registered_units().values())
    for path, module in model.named_modules():
        start = f"{path}." if path else ""
        if "unit" in kinds:
            spared.update(start + name for name in _named_by(module))
            if isinstance(module, own_units):
                spared.update(start + name for name, _ in module.named_parameters())
        if "norm" in kinds and isinstance(module, NORMS):
            spared.update(start + name for name, _ in module.named_parameters(recurse=False))
    for name, parameter in model.named_parameters():
        is_bias = name.rsplit(".", 1)[-1] == "bias"
        if ("bias" in kinds and is_bias) or ("vector" in kinds and parameter.dim() < 2):
            spared.add(name)
    return spared


def _named_by(module: nn.Module) -> Iterator[str]:
    """What the module itself asks to be spared.

    ``no_weight_decay()`` is a convention that other libraries share.
    """
    names = getattr(module, "no_weight_decay", None)
    if callable(names):
        yield from names()  # pyright: ignore[reportGeneralTypeIssues]


def _make(chosen: Optimiser, groups: list[dict]) -> torch.optim.Optimizer:
    betas = (chosen.beta1, chosen.beta2)
    if chosen.name in ("sgd", "nesterov"):
        return torch.optim.SGD(
            groups,
            lr=chosen.lr,
            momentum=chosen.momentum,
            nesterov=chosen.name == "nesterov",
            fused=True,
        )
    if chosen.name == "rmsprop":
        return torch.optim.RMSprop(
            groups, lr=chosen.lr, alpha=chosen.smoothing, eps=chosen.eps, momentum=chosen.momentum
        )
    kind = torch.optim.Adam if chosen.name == "adam" else torch.optim.AdamW
    return kind(groups, lr=chosen.lr, betas=betas, eps=chosen.eps, fused=True)
