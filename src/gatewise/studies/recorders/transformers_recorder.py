"""A callback of the Hugging Face Trainer that records a run as the cell of a study."""

from collections.abc import Mapping
from typing import Any

from gatewise.errors import MissingExtraError
from gatewise.studies.recorders.recorder import Recorder

try:
    from transformers import TrainerCallback
except ImportError as problem:
    raise MissingExtraError(
        "transformers is not installed", fix="pip install 'gatewise[hf]'"
    ) from problem

LOGGED = {"test_loss": "eval_loss", "test_accuracy": "eval_accuracy"}


class TransformersRecorder(TrainerCallback):
    """Pass one to ``Trainer(callbacks=[...])``.

    Args:
        folder: of the study.
        logged: names under which the Trainer's evaluation reports what is recorded; by default
            ``eval_loss`` for ``test_loss`` and ``eval_accuracy`` for ``test_accuracy``. The metric
            compared must be evaluated.
        labels: the other arguments of :class:`gatewise.studies.Recorder`.
    """

    def __init__(
        self,
        folder: str,
        *,
        logged: Mapping[str, str] | None = None,
        **labels: Any,
    ) -> None:
        self.recorder = Recorder(folder, **labels)
        self.logged = {**LOGGED, **(logged or {})}

    def on_train_begin(
        self,
        args: Any,
        state: Any,
        control: Any,
        *,
        model: Any = None,
        **rest: Any,
    ) -> None:
        """Start the record."""
        if state.is_world_process_zero:
            self.recorder.start(model)

    def on_evaluate(
        self,
        args: Any,
        state: Any,
        control: Any,
        *,
        metrics: Any = None,
        **rest: Any,
    ) -> None:
        """Record the metrics of an evaluation."""
        known = {}
        for name, key in self.logged.items():
            if key in (metrics or {}):
                known[name] = metrics[key]
        if known and state.is_world_process_zero:
            self.recorder.epoch(round(state.epoch or 0), known)

    def on_train_end(
        self,
        args: Any,
        state: Any,
        control: Any,
        *,
        model: Any = None,
        **rest: Any,
    ) -> None:
        """Write the record."""
        if state.is_world_process_zero:
            self.recorder.end(model)
