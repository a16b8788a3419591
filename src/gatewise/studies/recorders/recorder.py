"""Record runs of other training loops, one file a run, and compare them.

Note [One file a run]. Every recorder writes a file of its own when its run ends, so that runs of
many processes and machines need only a common folder. A run can be recorded again only if the first
one did not finish.
"""

import json
import math
import time
from collections.abc import Mapping
from pathlib import Path

from torch import nn

from gatewise.checks import LARGEST_COUNT, check_choice, check_count, is_number
from gatewise.errors import ArgumentError, DamagedFileError
from gatewise.files import digest, make_folder, read_json, write_json
from gatewise.graph import parameter_count
from gatewise.studies.answer import ComparisonResult
from gatewise.studies.engine import DONE, FAILED, Record
from gatewise.studies.records import compare_records
from gatewise.train import environment

METRICS = ("test_accuracy", "test_loss", "test_bits_per_byte", "test_iou", "test_map")
FORMAT = "gatewise run"
ENDING = ".run.json"
KEY = 16  # hex digits of a digest that name a file


class Recorder:
    """Records one run: call :meth:`start`, :meth:`epoch` after each epoch, :meth:`end`.

    Args:
        folder: of the whole study; runs of all units and seeds share it.
        unit: label of the unit in this run.
        seed: of this run.
        baseline: the unit that others are compared with.
        backbone: label of the network. Runs are compared if backbone, data and recipe agree.
        data: label of the data set.
        recipe: label of the way of training.
        rate: the learning rate, if units are compared at several.
        metric: ``"test_accuracy"``, ``"test_loss"`` or ``"test_bits_per_byte"``: the metric
            compared, by the name that :meth:`epoch` is given.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        unit: str,
        seed: int,
        baseline: str = "relu",
        backbone: str = "model",
        data: str = "data",
        recipe: str = "recipe",
        rate: float | None = None,
        metric: str = "test_accuracy",
    ) -> None:
        place = {"unit": unit, "backbone": backbone, "data": data, "recipe": recipe}
        for name, value in {**place, "baseline": baseline}.items():
            if not isinstance(value, str) or not 1 <= len(value) <= 100:
                raise ArgumentError(f"{name}: a name of 1 to 100 letters is needed", got=value)
        check_count("recorder", "seed", seed, least=0, most=LARGEST_COUNT)
        self.metric = check_choice("recorder", "metric", metric, METRICS)
        self.baseline = baseline
        self.labels = {**place, "rate": rate, "seed": seed}
        key = digest(json.dumps(self.labels, sort_keys=True).encode())[:KEY]
        self.path = Path(folder) / f"{key}{ENDING}"
        self.curve: list[dict[str, float | None]] = []
        self.begun: float | None = None

    def start(self, network: nn.Module) -> None:
        """Begin the run. Call this before training begins.

        Raises:
            ArgumentError: if the run is already recorded, or runs of the folder have another
                baseline or metric.
        """
        self.curve = []
        self.begun = time.monotonic()
        self.begun_process = time.process_time()
        for path, record in _records(self.path.parent).items():
            if path == self.path and record["status"] == DONE:
                raise ArgumentError(
                    "recorder: this run is recorded already",
                    got=self._name,
                    fix="another folder, seed or label",
                )
            found = record.get("baseline"), record.get("metric")
            if found != (self.baseline, self.metric):
                raise ArgumentError(
                    f"recorder: the study in {self.path.parent} has another baseline or metric",
                    got=(self.baseline, self.metric),
                    allowed=found,
                )

    def epoch(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Keep the numbers of an epoch.

        Args:
            epoch: its number.
            metrics: ``train_loss``, ``test_loss``, ``test_accuracy`` (0 to 1), and any others.
        """
        self._check_started()
        line: dict[str, float | None] = {"epoch": epoch}
        for name, value in metrics.items():
            if not is_number(value):
                raise ArgumentError(f"recorder: {name} is not a number", got=value)
            number = float(value)
            if "accuracy" in name and number > 1:
                raise ArgumentError(
                    f"recorder: {name} must be a share",
                    got=number,
                    allowed="0 to 1",
                    fix="divide it by 100",
                )
            line[name] = number if math.isfinite(number) else None
        self.curve.append(line)

    def end(self, network: nn.Module, *, problem: str | None = None) -> None:
        """Write the record of the run.

        Args:
            network: after training; its parameters are counted.
            problem: why the run failed, if it did.
        """
        begun = self._check_started()
        last = self.curve[-1] if self.curve else {}
        error = problem
        if error is None and last.get(self.metric) is None:
            metrics = ", ".join(last) or "nothing"
            error = f"no finite {self.metric} was recorded, only: {metrics}"
        record = {
            "format": FORMAT,
            **self.labels,
            "baseline": self.baseline,
            "metric": self.metric,
            "status": DONE if error is None else FAILED,
            "error": error,
            "value": last.get(self.metric) if error is None else None,
            "metrics": last,
            "curve": self.curve,
            "seconds": round(time.monotonic() - begun, 3),
            "processor_seconds": round(time.process_time() - self.begun_process, 3),
            "parameters": parameter_count(network),
            "machine": environment(),
        }
        make_folder(self.path.parent)
        write_json(self.path, record)

    def _check_started(self) -> float:
        """Return when the run began; raise if it has not."""
        if self.begun is None:
            raise ArgumentError(
                "recorder: the run has not begun",
                got=self._name,
                fix="call start(network) first",
            )
        return self.begun

    @property
    def _name(self) -> str:
        """The run in words."""
        labels = self.labels
        return f"{labels['unit']} in {labels['backbone']}, seed {labels['seed']}"


def recorded_runs(folder: str | Path) -> list[Record]:
    """Return the records of the runs in a folder, by unit and seed.

    Args:
        folder: that recorders wrote to.
    """
    records = _records(Path(folder)).values()
    return sorted(records, key=lambda record: (record["unit"], record["seed"], str(record["rate"])))


def read_recorded(folder: str | Path, *, title: str = "") -> ComparisonResult:
    """Compare the runs that recorders wrote; a failed run counts as missing.

    Args:
        folder: that recorders wrote to.
        title: of the page.
    """
    records = recorded_runs(folder)
    if not records:
        raise ArgumentError("there are no recorded runs in this folder", got=str(folder))
    rows = []
    for record in records:
        task = ", ".join(record[name] for name in ("backbone", "data", "recipe"))
        row = {"method": record["unit"], "task": task, "seed": record["seed"]}
        if record["rate"] is not None:
            row["rate"] = record["rate"]
        if record["status"] == DONE:
            rows.append({**row, "value": record["value"]})
    return compare_records(
        rows,
        method="method",
        task="task",
        seed="seed",
        value="value",
        rate="rate" if all("rate" in row for row in rows) else None,
        metric=records[0]["metric"],
        baseline=records[0]["baseline"],
        title=title,
    )


def _records(folder: Path) -> dict[Path, Record]:
    """Return the records in a folder by their files."""
    found = {}
    for path in sorted(folder.glob(f"*{ENDING}")):
        record = read_json(path)
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            raise DamagedFileError("a file is not a recorded run", got=str(path))
        found[path] = record
    return found
