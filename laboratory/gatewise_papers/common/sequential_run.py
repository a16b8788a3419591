"""One run of an experiment that asks for its cells one after another, in this process."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gatewise.errors import ArgumentError
from gatewise.files import read_json
from gatewise.studies import FunctionStudy, plain
from gatewise_papers.common.data_notes import note_data
from gatewise_papers.common.writing import RESULT

TRAINING = "training"

Tell = Callable[[str], object]


@dataclass(frozen=True)
class TrainedNetworks:
    """What the record of an experiment keeps of its trained networks, by the name of the cell."""

    values: Mapping[str, Any]
    notes: tuple[str, ...]  # where they come from, and the notes of their training

    def measured(self, cell: str, what: str) -> Any:
        """Return one measurement of one network.

        Args:
            cell: its name.
            what: the measurement.

        Raises:
            ArgumentError: if the record does not have it.
        """
        kept = self.values.get(cell, {})
        if what not in kept:
            raise ArgumentError(
                f"the record does not have {what} of the network {cell!r}",
                got=sorted(kept),
                fix="if its training diverged, this experiment cannot be run with that seed",
            )
        return kept[what]

    def errors(self, cell: str) -> dict[str, Any]:
        """Return the errors of one network on training and test images.

        Args:
            cell: its name.
        """
        return {part: self.measured(cell, part) for part in ("train", "test")}


class Run:
    """One run of an experiment that asks for its cells one after another.

    Args:
        study: the folder in which the cells are kept.
        scale: its name.
        settings: of the scale.
        seeds: of the run.
        tell: called with the name of a cell before it runs.
        out: the folder of all experiments.
    """

    def __init__(
        self,
        study: FunctionStudy,
        scale: str,
        settings: Any,
        seeds: tuple[int, ...],
        tell: Tell,
        out: Path,
    ) -> None:
        self.settings = settings
        self.seeds = seeds
        self.seconds = 0.0
        self._scale = scale
        self._out = out
        self._study = study
        self._tell = tell
        self._depends_on = {"settings": plain(asdict(settings)), "seeds": list(seeds)}

    def training(self, cell: str) -> Path:
        """Return a folder for the training of one cell, so that the training resumes too."""
        key = self._study.cell(f"{TRAINING} {cell}", self._depends_on).key
        return self._study.file.work / key

    def cell(self, name: str, work: Callable[[], Any]) -> Any:
        """Return what ``work`` returns, in plain values; from the record if there is one.

        Args:
            name: of the cell, unique in the experiment.
            work: called if the cell has no record for these settings, seeds and versions.
        """

        def tell_and_work() -> Any:
            self._tell(name)
            return work()

        record = self._study.run_one(name, self._depends_on, tell_and_work)
        self.seconds += record["processor_seconds"] or 0.0
        return record["value"]

    def networks_of(
        self, experiment: str, trained_with: Mapping[str, Any] | None = None
    ) -> TrainedNetworks:
        """Return what the record of another experiment keeps of its trained networks.

        The data of these networks is noted as data of this experiment.

        Args:
            experiment: its name. Its record is in the same folder of all experiments.
            trained_with: settings that its record must have, by name.

        Raises:
            ArgumentError: if there is no such record, or if it has fewer seeds, another scale or
                other settings.
        """
        path = self._out / experiment / RESULT
        record = read_json(path) if path.exists() else None
        if record is None:
            found = "no such file"
        elif record["scale"] != self._scale:
            found = f"scale {record['scale']}"
        elif not set(self.seeds) <= set(record["seeds"]):
            found = f"seeds {record['seeds']}"
        elif not record["findings"].get("networks"):
            found = "a record that keeps nothing of its networks"
        else:
            found = _other_training(record["settings"], trained_with)
        if record is None or found:
            raise ArgumentError(
                f"this experiment reads the networks of {experiment}, which must be run first",
                got=f"{path}: {found}",
                allowed=f"a record of the scale {self._scale} with the seeds {list(self.seeds)}",
                fix=f"gatewise reproduce {experiment} --scale {self._scale} "
                f"--seeds {len(self.seeds)} --out {self._folder_for(record)}",
            )
        for name, content in record["data_sha256"].items():
            note_data(name, content)
        return TrainedNetworks(
            values=record["findings"].get("networks", {}),
            notes=(
                f"The networks are those of {experiment} ({record['date']}; "
                f"{record['reduced'] or 'as in the paper'}), which were not trained again.",
                *record["findings"]["notes"],
            ),
        )

    def _folder_for(self, record: Mapping[str, Any] | None) -> str:
        """Return the folder for a run: another one if the record there has another scale."""
        has_other_scale = record is not None and record["scale"] != self._scale
        return f"{self._out}_{self._scale}" if has_other_scale else str(self._out)


def _other_training(settings: Mapping[str, Any], expected: Mapping[str, Any] | None) -> str:
    """Return the settings that are not as expected; empty if all are."""
    other = []
    for name, value in plain(dict(expected or {})).items():
        if settings.get(name) != value:
            other.append(f"{name} {settings.get(name)} in place of {value}")
    return ", ".join(other)
