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
    """Give one to ``Trainer(callbacks=[...])``.

    Arguments are those of :class:`gatewise.studies.Recorder`.

    ``logged`` says under which names the Trainer's evaluation reports what is recorded, by default
    ``eval_loss`` for ``test_loss`` and ``eval_accuracy`` for ``test_accuracy``. What is compared
    must be evaluated.
    """

    def __init__(
        self, folder: str, *, logged: Mapping[str, str] | None = None, **about: Any
    ) -> None:
        self.recorder, self.logged = Recorder(folder, **about), {**LOGGED, **(logged or {})}

    def on_train_begin(
        self, args: Any, state: Any, control: Any, *, model: Any = None, **rest: Any
    ) -> None:
        """The run begins."""
        if state.is_world_process_zero:
            self.recorder.start(model)

    def on_evaluate(
        self, args: Any, state: Any, control: Any, *, metrics: Any = None, **rest: Any
    ) -> None:
        """The network has been measured."""
        known = {
            name: metrics[theirs]
            for name, theirs in self.logged.items()
            if theirs in (metrics or {})
        }
        if known and state.is_world_process_zero:
            self.recorder.epoch(round(state.epoch or 0), known)

    def on_train_end(
        self, args: Any, state: Any, control: Any, *, model: Any = None, **rest: Any
    ) -> None:
        """The run has ended."""
        if state.is_world_process_zero:
            self.recorder.end(model)
