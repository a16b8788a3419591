"""The optimiser of a recipe. Its groups of parameters differ in weight decay and rate."""

from collections.abc import Collection, Iterator

import torch
from torch import nn

from gatewise.errors import ArgumentError
from gatewise.train.config import OPTIMISERS, Optimiser, Rates, Recipe, torch_optimisers
from gatewise.units import MARK, registered_units

NORMS = (
    nn.LayerNorm,
    nn.GroupNorm,
    nn.LocalResponseNorm,
    nn.RMSNorm,
    nn.modules.batchnorm._NormBase,
)


def make_optimiser(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """Return an optimiser over all trainable parameters of ``model``.

    Learning rate and decay are set before each step by :func:`set_rates`.
    """
    spared = spared_parameters(model, recipe.weight_decay.spare)
    scale = recipe.optimiser.norm_lr_scale
    scaled = _norm_parameters(model) if scale != 1 else set()
    groups: dict[tuple[bool, bool], dict] = {}
    for is_scaled, decays in ((False, True), (False, False), (True, True), (True, False)):
        groups[is_scaled, decays] = {"params": [], "decays": decays}
        if is_scaled:
            groups[is_scaled, decays]["lr_scale"] = scale
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            groups[name in scaled, name not in spared]["params"].append(parameter)
    return _make(recipe.optimiser, [group for group in groups.values() if group["params"]])


def set_rates(optimiser: torch.optim.Optimizer, rates: Rates) -> None:
    """Set the learning rate and the weight decay of the next step."""
    for group in optimiser.param_groups:
        scale = group.get("lr_scale", 1.0)
        group["lr"] = rates.lr * scale
        if "decays" in group:  # those of a user's own optimiser are left alone
            group["weight_decay"] = rates.weight_decay / scale if group["decays"] else 0.0


def spared_parameters(model: nn.Module, kinds: Collection[str]) -> set[str]:
    """Return the names of the parameters without weight decay.

    Args:
        model: the network.
        kinds: what is spared; see :class:`gatewise.train.config.recipe.WeightDecay`.
    """
    spared: set[str] = set()
    unit_classes = tuple(unit.module for unit in registered_units().values())
    for path, module in model.named_modules():
        start = f"{path}." if path else ""
        if "unit" in kinds:
            spared.update(start + name for name in _asked_by(module))
            if isinstance(module, unit_classes) or hasattr(module, MARK):
                spared.update(start + name for name, _ in module.named_parameters())
    if "norm" in kinds:
        spared |= _norm_parameters(model)
    for name, parameter in model.named_parameters():
        is_bias = name.rsplit(".", 1)[-1] == "bias"
        if ("bias" in kinds and is_bias) or ("vector" in kinds and parameter.dim() < 2):
            spared.add(name)
    return spared


def _norm_parameters(model: nn.Module) -> set[str]:
    """Return the names of the scales and shifts of normalisation layers."""
    names: set[str] = set()
    for path, module in model.named_modules():
        if isinstance(module, NORMS):
            start = f"{path}." if path else ""
            names.update(start + name for name, _ in module.named_parameters(recurse=False))
    return names


def _asked_by(module: nn.Module) -> Iterator[str]:
    """Yield the names that the module asks to spare, by the convention ``no_weight_decay()``."""
    names = getattr(module, "no_weight_decay", None)
    if callable(names):
        yield from names()  # pyright: ignore[reportGeneralTypeIssues]


def _make(chosen: Optimiser, groups: list[dict]) -> torch.optim.Optimizer:
    """Return the torch optimiser of a recipe."""
    if chosen.name not in OPTIMISERS:
        return _make_by_name(chosen, groups)
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
            groups,
            lr=chosen.lr,
            alpha=chosen.smoothing,
            eps=chosen.eps,
            momentum=chosen.momentum,
        )
    kind = torch.optim.Adam if chosen.name == "adam" else torch.optim.AdamW
    return kind(groups, lr=chosen.lr, betas=betas, eps=chosen.eps, fused=True)


def _make_by_name(chosen: Optimiser, groups: list[dict]) -> torch.optim.Optimizer:
    """Return any optimiser of torch with the options of the recipe."""
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in chosen.options.items()}
    for group in groups:
        if "weight_decay" in options:  # in place of the recipe's
            del group["decays"]
    try:
        return torch_optimisers()[chosen.name](groups, lr=chosen.lr, **options)
    except (TypeError, ValueError, RuntimeError) as problem:
        raise ArgumentError(
            f"recipe: optimiser {chosen.name} cannot be made", got=str(problem).split("\n")[0]
        ) from problem
