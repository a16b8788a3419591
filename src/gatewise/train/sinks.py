"""Metrics for other programs: TensorBoard and MLflow, each an extra that is imported only when asked for."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gatewise.errors import MissingExtraError, unknown_name
from gatewise.train.result import Result
from gatewise.train.watch import Start, Watcher

SINKS = ("tensorboard", "mlflow")


def make_sink(name: str, folder: str | Path) -> Watcher:
    """The sink called ``name``, which writes into ``folder``/``name``."""
    if name not in SINKS:
        raise unknown_name("sink", name, SINKS)
    return (TensorBoardSink if name == "tensorboard" else MlflowSink)(Path(folder) / name)


class TensorBoardSink(Watcher):
    """Writes the metrics of every epoch as scalars. A resumed run writes its epochs again, with the same values."""

    def __init__(self, folder: str | Path) -> None:
        try:
            from torch.utils.tensorboard.writer import SummaryWriter
        except ImportError as problem:
            raise _missing("tensorboard") from problem
        self._open = lambda: SummaryWriter(str(folder))

    def start(self, start: Start) -> None:
        """Open the file; not before, since the folder of a run must be new."""
        self.writer = self._open()

    def epoch(self, record: Mapping[str, Any]) -> None:
        """Write the numbers of the epoch."""
        for name, value in _numbers(record).items():
            self.writer.add_scalar(name, value, record["epoch"])

    def end(self, result: Result | None) -> None:
        """Close the file."""
        self.writer.close()


class MlflowSink(Watcher):
    """Logs configuration and metrics as one MLflow run, in a store of files below the folder."""

    def __init__(self, folder: str | Path) -> None:
        try:
            import mlflow  # pyright: ignore[reportMissingImports] - an extra
        except ImportError as problem:
            raise _missing("mlflow") from problem
        self.mlflow: Any = mlflow
        self.store = Path(folder).resolve().as_uri()

    def start(self, start: Start) -> None:
        """Begin the run, under the digest of its configuration."""
        self.mlflow.set_tracking_uri(self.store)
        self.mlflow.start_run(run_name=start.config.digest[:12])
        names = {"model": start.config.model, "unit": str(start.config.unit), "data": start.config.data}
        self.mlflow.log_params({**names, "seed": start.config.seed})

    def epoch(self, record: Mapping[str, Any]) -> None:
        """Log the numbers of the epoch."""
        self.mlflow.log_metrics(_numbers(record), step=record["epoch"])

    def end(self, result: Result | None) -> None:
        """End the run, as finished or to be gone on with."""
        self.mlflow.end_run("FINISHED" if result else "KILLED")


def _numbers(record: Mapping[str, Any]) -> dict[str, float]:
    return {name: value for name, value in record.items() if name != "epoch" and value is not None}


def _missing(extra: str) -> MissingExtraError:
    return MissingExtraError(f"{extra} is not installed", fix=f"pip install 'gatewise[{extra}]'")
