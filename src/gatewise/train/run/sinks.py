"""Send metrics to TensorBoard or MLflow; each is an extra, imported only if it is used."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gatewise.errors import MissingExtraError, install_extra, unknown_name
from gatewise.train.loop import Result, Start, Watcher

SINKS = ("tensorboard", "mlflow")
EXPERIMENT = "0"  # MLflow's default one


def make_sink(name: str, folder: str | Path) -> Watcher:
    """Return the sink called ``name``, which writes into ``folder``/``name``."""
    if name not in SINKS:
        raise unknown_name("sink", name, SINKS)
    sink = TensorBoardSink if name == "tensorboard" else MlflowSink
    return sink(Path(folder) / name)


class TensorBoardSink(Watcher):
    """Writes the metrics of every epoch as scalars.

    A resumed run writes its epochs again, with the same values.
    """

    def __init__(self, folder: str | Path) -> None:
        try:
            from torch.utils.tensorboard.writer import SummaryWriter
        except ImportError as problem:
            raise _missing("tensorboard") from problem
        self._open = lambda: SummaryWriter(str(folder))

    def start(self, start: Start) -> None:
        """Open the file; not earlier, because the folder of a run must be new."""
        self.writer = self._open()

    def epoch(self, record: Mapping[str, Any]) -> None:
        """Write the numbers of the epoch."""
        for name, value in _numbers(record).items():
            self.writer.add_scalar(name, value, record["epoch"])

    def end(self, result: Result | None) -> None:
        """Close the file."""
        self.writer.close()


class MlflowSink(Watcher):
    """Logs configuration and metrics as one MLflow run, in a store of files below the folder.

    A run that is resumed begins a second MLflow run, with the remaining epochs.
    """

    def __init__(self, folder: str | Path) -> None:
        try:
            from mlflow import MlflowClient  # pyright: ignore[reportMissingImports] - an extra
        except ImportError as problem:
            raise _missing("mlflow") from problem
        self._connect: Callable[[], Any] = lambda: MlflowClient(Path(folder).resolve().as_uri())

    def start(self, start: Start) -> None:
        """Begin the run, under the digest of its configuration."""
        # Otherwise MLflow 3 asks for a database or a server.
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        # A client, because MLflow's module functions allow one run per process.
        self.client = self._connect()
        config = start.config
        self.run = self.client.create_run(EXPERIMENT, run_name=config.digest[:12]).info.run_id
        parameters = {
            "model": config.model,
            "unit": str(config.unit),
            "data": config.data,
            "seed": config.seed,
        }
        for name, value in parameters.items():
            self.client.log_param(self.run, name, value)

    def epoch(self, record: Mapping[str, Any]) -> None:
        """Log the numbers of the epoch."""
        for name, value in _numbers(record).items():
            self.client.log_metric(self.run, name, value, step=record["epoch"])

    def end(self, result: Result | None) -> None:
        """End the run, as finished or killed."""
        self.client.set_terminated(self.run, "FINISHED" if result else "KILLED")


def _numbers(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics that have a value."""
    return {name: value for name, value in record.items() if name != "epoch" and value is not None}


def _missing(extra: str) -> MissingExtraError:
    """Return the error of a library that is not installed."""
    return MissingExtraError(f"{extra} is not installed", fix=install_extra(extra))
