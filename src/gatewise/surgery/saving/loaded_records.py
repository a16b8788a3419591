"""Records of swaps that were made before weights were loaded."""

from dataclasses import replace

from torch import nn

from gatewise.surgery.rewrite import RECORD, WeightsAtSwap
from gatewise.surgery.saving.swapped_parts import records_of


def settle(model: nn.Module) -> None:
    """Let the records of ``model`` know the weights that were loaded since the swaps.

    A layer that a swap replaced shares its weights with the layer that replaced it. Loading gives
    the new layer other tensors, so the old one gets these, too. Other tensors of before the swaps
    have no values: they are not in the folder.
    """
    records = records_of(model)
    for record in reversed(records):
        for change in record.changes:
            if change.kind == "module" and isinstance(change.old, nn.Module):
                _share(change.old, model.get_submodule(change.path)._modules.get(change.name))
    last = model.__dict__.get(RECORD)
    if last is not None:
        weights = replace(WeightsAtSwap.of(model, ()), loaded=True)
        for record in records:
            record.weights = weights


def _share(old: nn.Module, new: nn.Module | None) -> None:
    """Give ``old`` the parameters of ``new`` that have the same name and shape."""
    if new is None:
        return
    for name, value in old._parameters.items():
        current = new._parameters.get(name)
        if value is not None and current is not None and value.shape == current.shape:
            old._parameters[name] = current
