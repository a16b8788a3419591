"""A callback of Lightning that steps a monitor."""

from typing import Any

from gatewise.errors import MissingExtraError, install_extra

try:
    import lightning.pytorch as lightning
except ImportError as problem:
    raise MissingExtraError(
        "lightning is not installed", fix=install_extra("lightning")
    ) from problem


class LightningMonitor(lightning.Callback):
    """Steps a monitor after each batch that the optimizer stepped on, in the first process.

    Args:
        monitor: A :class:`gatewise.GateMonitor`.
    """

    def __init__(self, monitor: Any) -> None:
        self.monitor = monitor

    def on_train_batch_end(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Step the monitor."""
        if trainer.is_global_zero:
            self.monitor.step(trainer.global_step)

    def on_train_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        """Record the last step and close the monitor."""
        self.monitor.close()

    def teardown(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, stage: str
    ) -> None:
        """Close the monitor when training has failed."""
        if stage == "fit":
            self.monitor.close(last=False)
