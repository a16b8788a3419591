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
    """Pass one to ``Trainer(callbacks=[...])``.

    Args:
        folder: of the study.
        logged: names under which the module logs what is recorded; by default ``val_acc`` for
            ``test_accuracy``, ``val_loss`` for ``test_loss``, and ``train_loss``. Names that are
            not logged are left out; the metric compared must be logged.
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

    def on_fit_start(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
    ) -> None:
        """Start the record."""
        if trainer.is_global_zero:
            self.recorder.start(pl_module)

    def on_validation_epoch_end(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
    ) -> None:
        """Record the epoch; Lightning's sanity check before the first epoch does not count."""
        logged: Mapping[str, Tensor] = trainer.callback_metrics
        known = {}
        for name, key in self.logged.items():
            if key in logged:
                known[name] = float(logged[key])
        if known and trainer.is_global_zero and not trainer.sanity_checking:
            self.recorder.epoch(trainer.current_epoch + 1, known)

    def on_fit_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Write the record."""
        if trainer.is_global_zero:
            self.recorder.end(pl_module)

    def on_exception(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        exception: BaseException,
    ) -> None:
        """Write a record of the failure."""
        if trainer.is_global_zero:
            self.recorder.end(pl_module, problem=f"{type(exception).__name__}: {exception}")
