"""Record runs of other training loops as cells of a study; runs as objectives of Optuna."""

from typing import TYPE_CHECKING

from gatewise.studies.recorders.optuna_objective import OptunaObjective as OptunaObjective
from gatewise.studies.recorders.recorder import Recorder as Recorder
from gatewise.studies.recorders.recorder import read_recorded as read_recorded
from gatewise.studies.recorders.recorder import recorded_runs as recorded_runs

if TYPE_CHECKING:
    from gatewise.studies.recorders.lightning_recorder import LightningRecorder as LightningRecorder
    from gatewise.studies.recorders.transformers_recorder import (
        TransformersRecorder as TransformersRecorder,
    )


def __getattr__(name: str) -> object:
    """Load the recorders of other libraries when they are first used: each needs an extra."""
    if name == "LightningRecorder":
        from gatewise.studies.recorders.lightning_recorder import LightningRecorder

        return LightningRecorder
    if name == "TransformersRecorder":
        from gatewise.studies.recorders.transformers_recorder import TransformersRecorder

        return TransformersRecorder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
