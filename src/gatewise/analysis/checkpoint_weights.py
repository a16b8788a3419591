"""Checkpoints of one model: state dicts, models, or files of tensors."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.finite import first_not_finite
from gatewise.errors import ArgumentError, FileError
from gatewise.files import read_tensors

Checkpoint = nn.Module | Mapping[str, Tensor] | str | Path


def fill(analysis: str, model: nn.Module, checkpoint: Any, number: int) -> None:
    """Load the weights of a checkpoint into ``model``.

    Args:
        analysis: The name of the analysis, for messages.
        model: The model, which is changed.
        checkpoint: A model, a state dict, or the path of a safetensors file.
        number: The number of the checkpoint, for messages.

    Raises:
        ArgumentError: The checkpoint does not fit the model, or contains NaN or infinity.
        FileError: The file cannot be read.
    """
    state = _state_of(analysis, checkpoint, number)
    name = f"checkpoint {number}"
    if isinstance(checkpoint, str | Path):
        name += f" ({checkpoint})"
    problem = first_not_finite(state.items())
    if problem is not None:
        raise ArgumentError(
            f"{analysis}: {name} contains NaN or infinity",
            got=problem[1],
            fix="leave it out, or check the training run",
        )
    try:
        with torch.no_grad():
            model.load_state_dict(dict(state))
    except RuntimeError as error:
        raise ArgumentError(
            f"{analysis}: {name} does not fit the model",
            got=str(error).strip().splitlines()[-1].strip(),
        ) from error


def filled(analysis: str, model: nn.Module, checkpoint: Any, number: int) -> nn.Module:
    """Return a copy of ``model`` with the weights of a checkpoint. Arguments as in :func:`fill`."""
    copied = copy.deepcopy(model)
    fill(analysis, copied, checkpoint, number)
    return copied


def _state_of(analysis: str, checkpoint: Any, number: int) -> Mapping[str, Tensor]:
    if isinstance(checkpoint, nn.Module):
        return checkpoint.state_dict()
    if isinstance(checkpoint, str | Path):
        return _read(analysis, Path(checkpoint), number)
    if not isinstance(checkpoint, Mapping):
        raise ArgumentError(
            f"{analysis}: checkpoint {number} is not a checkpoint",
            got=type(checkpoint).__name__,
            allowed="a model, a state dict, or a safetensors file",
        )
    return checkpoint


def _read(analysis: str, path: Path, number: int) -> dict[str, Tensor]:
    """Read a safetensors file of any program."""
    try:
        return read_tensors(path)[0]
    except FileError as error:
        raise FileError(
            f"{analysis}: checkpoint {number} cannot be read",
            got=str(path),
            allowed="a safetensors file",
        ) from error
