"""The checkpoints of a training run that a diagnosis compares."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.checkpoint_weights import fill
from gatewise.analysis.diagnosis.words import thinned
from gatewise.errors import ArgumentError
from gatewise.graph import copied

MOST = 8  # checkpoints that are used: more do not fit next to each other on a page
NOW = "now"
EPOCH = re.compile(r"weights-(\d{5})", re.ASCII)  # weights kept during training


@dataclass(frozen=True, eq=False)
class Checkpoints:
    """Weights in the order of training. Those of the model itself come last.

    Attributes:
        names: The name of each checkpoint, e.g. ``epoch 10``.
        weights: What :func:`gatewise.analysis.checkpoint_weights.fill` accepts.
        given: The number of different checkpoints before they were thinned out.
    """

    names: tuple[str, ...]
    weights: tuple[Any, ...]
    given: int

    def load_into(self, model: nn.Module, place: int) -> nn.Module:
        """Load the weights of one checkpoint into ``model`` and return the model in eval mode."""
        fill("diagnose", model, self.weights[place], place + 1)
        return model.eval()


NONE = Checkpoints((), (), 0)


def find_checkpoints(model: nn.Module, checkpoints: object) -> Checkpoints:
    """Return the checkpoints that differ from the one before, and the model if it differs too.

    If there are more than :data:`MOST`, they are thinned out evenly; the first and last are kept.

    Args:
        model: The model. Each checkpoint must fit it.
        checkpoints: A list of checkpoints in the order of training.

    Raises:
        ArgumentError: ``checkpoints`` is not a list, or one does not fit the model.
    """
    different: list[tuple[str, Any]] = []
    # Two copies take turns, so that each checkpoint is loaded and compared only once.
    before = copied(model)
    current = copied(model)
    for number, checkpoint in enumerate(_listed(checkpoints), 1):
        fill("diagnose", current, checkpoint, number)
        if not different or not _same(before, current):
            different.append((_name(checkpoint, number), checkpoint))
        before, current = current, before
    if different and not _same(before, model):
        different.append((NOW, model))
    names: list[str] = []
    weights: list[Any] = []
    for place in thinned(len(different), MOST):
        name, checkpoint = different[place]
        names.append(name)
        weights.append(checkpoint)
    return Checkpoints(tuple(names), tuple(weights), len(different))


def _listed(checkpoints: object) -> list[Any]:
    """Return the checkpoints as a list. A single checkpoint is an error, though some iterate."""
    single = isinstance(checkpoints, str | Path | Mapping | nn.Module | Tensor)
    if single or not isinstance(checkpoints, Iterable):
        raise ArgumentError(
            "diagnose: checkpoints must be a list, in the order of training",
            got=type(checkpoints).__name__,
            fix="checkpoints=[...]",
        )
    return list(checkpoints)


def _name(checkpoint: Any, number: int) -> str:
    """Return the epoch in the name of a file, the name itself, or a number."""
    if not isinstance(checkpoint, str | Path):
        return f"checkpoint {number}"
    epoch = EPOCH.fullmatch(Path(checkpoint).stem)
    return f"epoch {int(epoch[1])}" if epoch else Path(checkpoint).stem


def _same(one: nn.Module, other: nn.Module) -> bool:
    """Whether two models of one architecture have the same parameters and buffers."""
    weights = other.state_dict()
    return all(torch.equal(value, weights[name]) for name, value in one.state_dict().items())
