"""A callback of Lightning that records a run as the cell of a study."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from gatewise.errors import MissingExtraError
from gatewise.studies.recorders.recorder import Recorder

try:
    import lightning.pytorch as lightning
except ImportError as problem:
    raise MissingExtraError(
        "lightning is not installed", fix="pip install 'gatewise[lightning]'"
    ) from problem

LOGGED = {"train_loss": "train_loss", "test_loss": "val_loss", "test_accuracy": "val_acc"}


class LightningRecorder(lightning.Callback):
    """Give one to ``Trainer(callbacks=[...])``.

    Arguments are those of :class:`gatewise.studies.Recorder`.

    ``logged`` says under which names the module logs what is recorded, by default ``val_acc`` for
    ``test_accuracy``, ``val_loss`` for ``test_loss`` and ``train_loss``. What is not logged is left
    out; the metric compared must be.
    """

    def __init__(
        self, folder: str, *, logged: Mapping[str, str] | None = None, **about: Any
    ) -> None:
        self.recorder, self.logged = Recorder(folder, **about), {**LOGGED, **(logged or {})}

    def on_fit_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        """The run begins."""
        if trainer.is_global_zero:
            self.recorder.start(pl_module)

    def on_validation_epoch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        """An epoch has been measured; the look before the first epoch is none."""
        found: Mapping[str, Tensor] = trainer.callback_metrics
        known = {
            name: float(found[theirs]) for name, theirs in self.logged.items() if theirs in found
        }
        if known and trainer.is_global_zero and not trainer.sanity_checking:
            self.recorder.epoch(trainer.current_epoch + 1, known)

    def on_fit_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """The run has ended."""
        if trainer.is_global_zero:
            self.recorder.end(pl_module)

    def on_exception(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        exception: BaseException,
    ) -> None:
        """The run has failed."""
        if trainer.is_global_zero:
            self.recorder.end(pl_module, problem=f"{type(exception).__name__}: {exception}")
