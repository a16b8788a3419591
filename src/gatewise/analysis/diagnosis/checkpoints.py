"""The moments of a training run that a diagnosis compares.

Its checkpoints, and the model as it is.
"""

import copy
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.checkpoint_weights import fill
from gatewise.analysis.diagnosis.finding import DoesNotApply
from gatewise.errors import ArgumentError

MOST = 8  # moments that are looked at: more do not fit beside each other
NOW = "now"
EPOCH = re.compile(r"weights-(\d{5})", re.ASCII)  # as `gatewise train --keep-weights` names them


@dataclass(frozen=True, eq=False)
class Moments:
    """Weights in the order of training, each with a name; those of the model itself come last."""

    names: tuple[str, ...]
    weights: tuple[Any, ...]  # what :func:`gatewise.analysis.checkpoint_weights.fill` takes
    given: int  # how many there were before they were thinned

    def need_two(self) -> None:
        """Refuse where there is nothing to compare."""
        if len(self.names) < 2:
            raise DoesNotApply("no checkpoints")

    def put_into(self, model: nn.Module, place: int) -> nn.Module:
        """``model`` with the weights of a moment."""
        fill("diagnose", model, self.weights[place], place + 1)
        return model.eval()


def find_moments(model: nn.Module, checkpoints: object) -> Moments:
    """The checkpoints that differ from the one before, thinned with both ends kept.

    Each must fit the model.
    """
    found: list[tuple[str, Any]] = []
    before, now = copy.deepcopy(model), copy.deepcopy(model)
    for number, each in enumerate(_listed(checkpoints), 1):
        fill("diagnose", now, each, number)
        if not found or not _same(before, now):
            found.append((_name(each, number), each))
        before, now = now, before
    if found and not _same(before, model):
        found.append((NOW, model))
    kept = [found[place] for place in _thinned(len(found))]
    return Moments(
        tuple(name for name, _ in kept), tuple(weights for _, weights in kept), len(found)
    )


def _listed(checkpoints: object) -> list[Any]:
    if checkpoints is None:
        return []
    if isinstance(checkpoints, str | Path | Mapping | nn.Module | Tensor) or not isinstance(
        checkpoints, Iterable
    ):
        raise ArgumentError(
            "diagnose: checkpoints are a list, in the order of training",
            got=type(checkpoints).__name__,
            fix="checkpoints=[...]",
        )
    return list(checkpoints)


def _name(checkpoint: Any, number: int) -> str:
    if not isinstance(checkpoint, str | Path):
        return f"checkpoint {number}"
    epoch = EPOCH.fullmatch(Path(checkpoint).stem)
    return f"epoch {int(epoch[1])}" if epoch else Path(checkpoint).stem


def _same(one: nn.Module, other: nn.Module) -> bool:
    theirs = other.state_dict()
    return all(torch.equal(value, theirs[name]) for name, value in one.state_dict().items())


def _thinned(count: int) -> Sequence[int]:
    if count <= MOST:
        return range(count)
    return [round(place * (count - 1) / (MOST - 1)) for place in range(MOST)]
