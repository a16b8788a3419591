"""A callback of the Hugging Face Trainer that steps a monitor."""

from typing import Any

from gatewise.errors import MissingExtraError, install_extra

try:
    from transformers import TrainerCallback
except ImportError as problem:
    raise MissingExtraError("transformers is not installed", fix=install_extra("hf")) from problem


class TransformersMonitor(TrainerCallback):
    """Steps a monitor after each step of the optimizer, in the first process.

    Args:
        monitor: A :class:`gatewise.GateMonitor`.
    """

    def __init__(self, monitor: Any) -> None:
        self.monitor = monitor

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Step the monitor."""
        if state.is_world_process_zero:
            self.monitor.step(state.global_step)

    def on_train_end(
        self,
        args: Any,
        state: Any,
        control: Any,
        **rest: Any,
    ) -> None:
        """Close the monitor."""
        self.monitor.close()
