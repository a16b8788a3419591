"""Repeat the swaps of a file on a new model."""

from pathlib import Path

from torch import nn

from gatewise.checks import check_kind, check_path
from gatewise.errors import ArgumentError
from gatewise.surgery.rewrite import RECORD
from gatewise.surgery.saving.pretrained import follow_transformers
from gatewise.surgery.saving.swaps_file import SavedSwaps


def load_swaps(model: nn.Module, file: str | Path) -> nn.Module:
    """Repeat the swaps of a file on ``model``, in place and without running it.

    Do so before weights of the swapped model are loaded: ``model.load_state_dict(...)`` then fits.
    A model on the meta device can be swapped, too.

    Args:
        model: a model of the kind that was swapped, built in the same way.
        file: what :func:`gatewise.save_swaps` wrote.

    Returns:
        The model. Its receipt says that nothing was proved.

    Raises:
        ArgumentError: the model does not fit, or was swapped before.
    """
    check_kind("load_swaps", "model", model, nn.Module)
    check_path("load_swaps", "file", file)
    if RECORD in model.__dict__:
        raise ArgumentError("model: units were put into it already", fix="build a new model")
    SavedSwaps.read(file).apply(model)
    follow_transformers(model)
    return model
