"""Callbacks of a run: a progress line, a sink for metrics, or a hook of the user."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn

    from gatewise.train.config import RunConfig
    from gatewise.train.loop.run_result import Result


@dataclass(frozen=True)
class Start:
    """A run begins, or resumes at ``step``."""

    config: RunConfig
    model: nn.Module
    step: int
    epoch: int
    epochs: int
    steps_per_epoch: int
    examples: int  # in an epoch


@dataclass(frozen=True)
class Step:
    """A step was taken; the first is number 1. ``index`` names its examples."""

    step: int
    epoch: int
    index: Tensor
    loss: float
    lr: float


class Watcher:
    """Base class of callbacks. A watcher must not change the model or torch's random state."""

    def start(self, start: Start) -> None:
        """Called before the first step of this process."""

    def step(self, step: Step) -> None:
        """Called after every step."""

    def epoch(self, record: Mapping[str, Any]) -> None:
        """Called after every epoch, with its metrics."""

    def end(self, result: Result | None) -> None:
        """Called at the end; with None if the run was stopped and can be resumed."""


class AtEpochs(Watcher):
    """Calls a function with the model, in evaluation mode, after chosen epochs.

    Args:
        epochs: after which the function is called.
        question: takes the model; what it returns is kept in ``answers`` by epoch.

    >>> norms = AtEpochs([1, 3], lambda model: sum(p.norm().item() for p in model.parameters()))
    """

    def __init__(self, epochs: Iterable[int], question: Any) -> None:
        self.epochs = set(epochs)
        self.question = question
        self.answers: dict[int, Any] = {}
        self._model: nn.Module | None = None

    def start(self, start: Start) -> None:
        """Remember the model."""
        self._model = start.model

    def epoch(self, record: Mapping[str, Any]) -> None:
        """Call the function if this is one of the epochs."""
        import torch

        if record["epoch"] not in self.epochs or self._model is None:
            return
        mode = self._model.training
        self._model.eval()
        with torch.no_grad():
            self.answers[record["epoch"]] = self.question(self._model)
        self._model.train(mode)
