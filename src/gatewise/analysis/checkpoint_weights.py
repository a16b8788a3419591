"""Weights of one model at moments of its training: state dicts, models, or files of tensors."""

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


def state_of(what: str, checkpoint: Any, number: int) -> Mapping[str, Tensor]:
    """The weights of checkpoint ``number``.

    A file may be ours, whose seal is then checked, or anyone's.
    """
    if isinstance(checkpoint, nn.Module):
        return checkpoint.state_dict()
    state = (
        _read(what, Path(checkpoint), number) if isinstance(checkpoint, str | Path) else checkpoint
    )
    if not isinstance(state, Mapping):
        raise ArgumentError(
            f"{what}: checkpoint {number} is not one",
            got=type(checkpoint).__name__,
            allowed="a model, a state dict, or a file of tensors",
        )
    return state


def fill(what: str, model: nn.Module, checkpoint: Any, number: int) -> None:
    """Put the weights of checkpoint ``number`` into ``model``; they must fit it, and be numbers."""
    state = state_of(what, checkpoint, number)
    found = first_not_finite(state.items())
    if found is not None:
        fix = "leave it out, or look at the training run"
        raise ArgumentError(
            f"{what}: {_called(checkpoint, number)} holds NaN or infinity", got=found[1], fix=fix
        )
    try:
        with torch.no_grad():
            model.load_state_dict(dict(state))
    except RuntimeError as problem:
        raise ArgumentError(
            f"{what}: {_called(checkpoint, number)} does not fit the model",
            got=str(problem).strip().splitlines()[-1].strip(),
        ) from problem


def filled(what: str, model: nn.Module, checkpoint: Any, number: int) -> nn.Module:
    """A copy of ``model`` with the weights of checkpoint ``number``."""
    made = copy.deepcopy(model)
    fill(what, made, checkpoint, number)
    return made


def _called(checkpoint: Any, number: int) -> str:
    """``checkpoint 2``, and which file it is."""
    return (
        f"checkpoint {number} ({checkpoint})"
        if isinstance(checkpoint, str | Path)
        else f"checkpoint {number}"
    )


def _read(what: str, path: Path, number: int) -> dict[str, Tensor]:
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import load_file

    try:
        with safe_open(path, "pt") as file:
            sealed = "sha256" in (file.metadata() or {})
        if not sealed:
            return load_file(path)
    except (OSError, SafetensorError) as problem:
        raise FileError(
            f"{what}: checkpoint {number} cannot be read",
            got=str(path),
            allowed="a safetensors file",
        ) from problem
    return read_tensors(path)[0]
