"""Fields of a Hugging Face configuration that name the activation function.

If a field says exactly what a swap did, then it is saved with its new value, and transformers
builds the swapped model without gatewise. Whether it does is found out, not assumed: the model is
built on the meta device with the old and with the new value, and the modules that differ must be
those that the swap replaced.
"""

import copy
import importlib
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

import torch
from torch import nn

from gatewise.surgery.planning import PlanData

FIELDS = (
    "hidden_act",
    "hidden_activation",
    "activation_function",
    "activation",
    "act_fn",
    "hidden_activation_function",
    "feed_forward_proj",
    "dense_act_fn",
)
CLOSE = 1e-5  # of two forms of one function, in float32


def fields_for(model: nn.Module, plans: Sequence[PlanData]) -> dict[str, str] | None:
    """The configuration fields that say what ``plans`` did, with their new values.

    Returns:
        ``None`` if no fields say it.
    """
    name = _single_unit(plans)
    config = getattr(model, "config", None)
    functions = importlib.import_module("transformers.activations").ACT2FN
    if name is None or config is None or name not in functions:
        return None
    paths = {entry.path for plan in plans for entry in plan.swapped}
    if not _is_same_function(model, paths, functions[name]):
        return None
    fields = [path for path, value in _values(config) if isinstance(value, str)]
    choices = [tuple(fields), *((path,) for path in fields)] if len(fields) > 1 else [fields]
    for chosen in choices:
        if chosen and _differing(model, dict.fromkeys(chosen, name)) == paths:
            return dict.fromkeys(chosen, name)
    return None


def get_fields(config: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The values that ``config`` has under the dotted names of ``fields``."""
    return {path: attrgetter(path)(config) for path in fields}


def set_fields(config: Any, fields: Mapping[str, Any]) -> None:
    """Set fields of ``config`` by their dotted names."""
    for path, value in fields.items():
        owner, _, name = path.rpartition(".")
        setattr(attrgetter(owner)(config) if owner else config, name, value)


def _single_unit(plans: Sequence[PlanData]) -> str | None:
    """The one unit of plans that replace whole activation modules and change nothing else."""
    names = set()
    for plan in plans:
        if plan.edits or plan.settings or plan.layers or plan.replaced or plan.put_back:
            return None
        for entry in plan.swapped:
            if entry.call is not None or entry.bindings or entry.options:
                return None
            names.add(entry.unit)
    return names.pop() if len(names) == 1 else None


def _is_same_function(model: nn.Module, paths: set[str], other: nn.Module) -> bool:
    """Whether the units at ``paths`` have no weights and compute what ``other`` computes."""
    x = torch.cat((torch.linspace(-30, 30, 3001, device="cpu"), torch.randn(500, device="cpu")))
    expected = other(x)
    for path in paths:
        unit = model.get_submodule(path)
        if any(True for _ in unit.parameters()):
            return False
        if not torch.allclose(copy.deepcopy(unit).cpu()(x), expected, rtol=CLOSE, atol=CLOSE):
            return False
    return True


def _differing(model: nn.Module, fields: Mapping[str, Any]) -> set[str]:
    """The paths of modules that differ if the model is built with other values of ``fields``."""
    kinds = []
    for values in ({}, fields):
        config = copy.deepcopy(model.config)  # pyright: ignore[reportArgumentType]
        set_fields(config, values)
        try:
            with torch.device("meta"):
                built = type(model)(config)
        except Exception:  # the model's code may raise anything, and then the fields say nothing
            return set()
        kinds.append({path: repr_of(module) for path, module in built.named_modules()})
    names = kinds[0].keys() | kinds[1].keys()
    return {name for name in names if kinds[0].get(name) != kinds[1].get(name)}


def repr_of(module: nn.Module) -> tuple[type, str]:
    """The class of a module and what it says about itself, without the modules inside it."""
    return type(module), module.extra_repr()


def _values(config: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Name and value of every field for an activation, also of configurations inside."""
    base = importlib.import_module("transformers").PretrainedConfig
    for name, value in vars(config).items():
        if name in FIELDS:
            yield prefix + name, value
        elif isinstance(value, base):
            yield from _values(value, f"{prefix}{name}.")
