"""One figure or table of a paper: the data it needs, its scales, and how it is run and resumed.

Note [How experiments run]. The work of an experiment is a list of cells that the engine of studies
runs: each has a name, plain settings and a function, and its record is written as soon as it ends.
An experiment declares its cells (``cells``) and turns their values into findings (``findings``).
Its work can also be a comparison of gatewise (``comparison``), and it can read what the record of
another experiment keeps of its trained networks. If interrupted, the same command resumes. Finished
cells are kept in the folder ``unfinished`` beside the results, and exported every few minutes to
``unfinished.jsonl``, which is enough to resume from. Both are removed when the results of all seeds
are written: results of fewer seeds leave them for the command that goes on.
"""

import importlib
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

from gatewise.devices import describe_processor
from gatewise.errors import ArgumentError, unknown_name
from gatewise.files import make_folder, read_json
from gatewise.studies import (
    ComparisonStudy,
    FunctionCell,
    FunctionStudy,
    Progress,
    Running,
    StudyFile,
    export_study,
    import_study,
    plain,
    run_comparison,
)
from gatewise.train import RunConfig, find_device, resolve_precision
from gatewise_papers.common.data_notes import (
    KEPT,
    UNFINISHED,
    UNFINISHED_DATA,
    data_of,
    note_data,
    noting_data,
)
from gatewise_papers.common.levels import Level, held_to_levels
from gatewise_papers.common.machines import machine, versions
from gatewise_papers.common.records import Findings, Result
from gatewise_papers.common.trained_networks import (
    NO_NETWORKS,
    TrainedNetworks,
    read_networks,
)
from gatewise_papers.common.writing import RESULT, write_result

COST = "cost.json"  # what the training costs, as timed before it started
MOST_SEEDS = 1000
RUNS = "study.jsonl"  # all runs of a comparison, kept beside the results
EXPORT_SECONDS = 120.0
SHOWN = 3  # failed cells that an error names

Tell = Callable[[str], None]
Trainings = Mapping[str, Sequence[RunConfig]]  # by network, every run that it needs


@dataclass(frozen=True)
class CellValues:
    """What the cells of an experiment returned, by name, with the settings and seeds of the run.

    Attributes:
        settings: of the scale.
        seeds: of the run.
        values: by the name of the cell.
        read: the networks of another experiment, if they are read.
    """

    settings: Any
    seeds: tuple[int, ...]
    values: Mapping[str, Any]
    read: TrainedNetworks = NO_NETWORKS

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def networks(self) -> dict[str, Any]:
        """Measurements by the name of the network: those that are read, and those of all cells."""
        networks = dict(self.read.values)
        for value in self.values.values():
            networks |= value
        return networks

    def measured(self, network: str, what: str) -> Any:
        """Return one measurement of one network.

        Args:
            network: its name.
            what: the measurement.

        Raises:
            ArgumentError: if there is no such measurement.
        """
        kept = self.networks.get(network, {})
        if what not in kept:
            raise ArgumentError(
                f"there is no {what} of the network {network!r}",
                got=sorted(kept),
                fix="if its training diverged, this experiment cannot be run with that seed",
            )
        return kept[what]


@dataclass(frozen=True)
class Experiment:
    """One figure or table; see Note [How experiments run].

    Args:
        name: ``paper/figure``.
        title: in a few words.
        scales: settings by the name of the scale: ``tiny`` (seconds, for tests), ``desk`` (what
            two cores do in hours) and ``full`` (the paper's own).
        findings: turns the values of the cells into findings.
        cells: takes the settings and the seeds and returns the cells.
        comparison: takes the settings and the seeds and returns a plan whose header and records are
            the values, in place of cells.
        seeds: how many, if no other number is asked for.
        seeds_at: how many at a scale, where it is another number.
        needs: data sets.
        trainings: takes the settings and the seeds and returns every training run by network, so
            that its cost can be timed before it is run. None if there are none at any scale.
        read_data: reads the data of declared cells that have their own loop, and returns its
            digests.
        own_loop: whether networks are trained by other code than `gatewise.train.train`, so that
            there is no run to time.
        trained_with: takes the settings and returns those that the record of the networks must
            have, if the settings name an experiment whose networks are read (``networks_of``).
        measures_time: whether its numbers are times, so that cells of another machine, or of
            another number of threads, do not count.
        levels: how well networks must be trained before claims about them are judged.
    """

    name: str
    title: str
    scales: Mapping[str, Any]
    findings: Callable[[CellValues], Findings]
    cells: Callable[[Any, tuple[int, ...]], Sequence[FunctionCell]] = lambda settings, seeds: ()
    comparison: Callable[[Any, tuple[int, ...]], ComparisonStudy] | None = None
    seeds: int = 5
    seeds_at: Mapping[str, int] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    trainings: Callable[[Any, tuple[int, ...]], Trainings] | None = None
    read_data: Callable[[], Sequence[str]] | None = None
    own_loop: bool = False
    trained_with: Callable[[Any], Mapping[str, Any]] = lambda _: {}
    measures_time: bool = False
    levels: tuple[Level, ...] = ()

    def settings_of(self, scale: str) -> Any:
        """Return the settings of a scale.

        Raises:
            UnknownNameError: naming the nearest scale.
        """
        if scale not in self.scales:
            raise unknown_name("scale", scale, self.scales)
        return self.scales[scale]

    def seed_numbers(self, seeds: int | None, scale: str) -> tuple[int, ...]:
        """Return the seeds, from 0 on.

        Args:
            seeds: how many; as many as the experiment has at the scale if None.
            scale: one of ``scales``.

        Raises:
            ArgumentError: if it is no possible number of seeds.
        """
        count = self.seeds_at.get(scale, self.seeds) if seeds is None else seeds
        if not isinstance(count, int) or not 1 <= count <= MOST_SEEDS:
            raise ArgumentError(
                "seeds must be a number of seeds",
                got=seeds,
                allowed=f"1 to {MOST_SEEDS}",
            )
        return tuple(range(count))

    def folder(self, out: str | Path) -> Path:
        """Return the folder of its results.

        Args:
            out: the folder of all experiments.
        """
        return Path(out, *self.name.split("/"))

    def run(
        self,
        scale: str = "desk",
        seeds: int | None = None,
        out: str | Path = "reproduced",
        *,
        tell: Tell = lambda _: None,
        options: Running | None = None,
    ) -> Result:
        """Run the experiment and write its files to the folder ``out``/``name``.

        Args:
            scale: one of ``scales``.
            seeds: how many, from 0 on; as many as the experiment says if None.
            out: the folder of all experiments. If interrupted, the same call resumes.
            tell: called with the name of each cell before it runs.
            options: where cells are run; in this process if not given. Workers use as many
                threads as this process.

        Raises:
            KeyboardInterrupt: if stopped.
            ArgumentError: if a cell failed, with its reason.
        """
        settings = self.settings_of(scale)
        numbers = self.seed_numbers(seeds, scale)
        folder = self.folder(out)
        _refuse_other_scale(folder / RESULT, scale)
        make_folder(folder)
        # Workers get the threads of this process, which the results name.
        running = replace(options or Running(), threads=int(versions()["threads"]))
        work = self._run_cells if self.comparison is None else self._run_comparison
        with noting_data(folder) as read:
            networks = self._read_networks(out, scale, settings, numbers)
            done = work(Path(out), scale, settings, numbers, tell, running)
            findings = self.findings(CellValues(settings, numbers, done.values, networks))
        result = Result(
            experiment=self.name,
            title=self.title,
            scale=scale,
            reduced=settings.reduced,
            seeds=numbers,
            settings=plain(asdict(settings)),
            findings=held_to_levels(self.levels, findings),
            versions=versions(),
            seconds=done.seconds,
            date=date.today().isoformat(),
            data_sha256=dict(sorted(read.items())),
            machine=machine() | done.machines,
        )
        written = write_result(result, folder)
        if scale == "tiny" or len(numbers) >= len(self.seed_numbers(None, scale)):
            shutil.rmtree(folder / UNFINISHED, ignore_errors=True)
            for name in (UNFINISHED_DATA, KEPT, COST):
                (folder / name).unlink(missing_ok=True)
        elif StudyFile(folder / UNFINISHED).path.exists():
            _export(StudyFile(folder / UNFINISHED))
        return written

    def _identity(self) -> dict[str, str]:
        """Return what a finished cell depends on besides its settings.

        A study goes on from its finished cells on any machine and with any versions, but times are
        those of one machine and number of threads.
        """
        known = versions()
        return known if self.measures_time else {"numerics": known["numerics"]}

    def _data_identity(self, settings: Any, seeds: tuple[int, ...]) -> dict[str, Any]:
        """Read the data of the cells, and return its digests.

        Worker processes read the data again. So a finished cell counts only for the content that
        this process has read.
        """
        if self.read_data is not None:
            return {"data": sorted(self.read_data())}
        if self.trainings is None:
            return {}
        configs = [one[0] for one in self.trainings(settings, seeds).values()]
        identity: dict[str, Any] = {"data": sorted({data_of(each).digest for each in configs})}
        if any(each.recipe.precision == "auto" for each in configs):
            identity["precision"] = resolve_precision("auto", find_device())
        return identity

    def _read_networks(
        self, out: str | Path, scale: str, settings: Any, seeds: tuple[int, ...]
    ) -> TrainedNetworks:
        """Return the networks of the experiment that the settings name, and note their data."""
        name = getattr(settings, "networks_of", "")
        if not name:
            return NO_NETWORKS
        found = read_networks(out, name, scale, seeds, self.trained_with(settings))
        for data, digest in found.data.items():
            note_data(data, digest)
        return found

    def _run_cells(
        self,
        out: Path,
        scale: str,
        settings: Any,
        seeds: tuple[int, ...],
        tell: Tell,
        running: Running,
    ) -> "WorkDone":
        """Run the cells that have no record."""
        folder = self.folder(out)
        study = FunctionStudy(
            folder / UNFINISHED,
            name=self.name,
            title=self.title,
            about={"scale": scale, "settings": asdict(settings), "seeds": seeds},
            identity=self._identity() | self._data_identity(settings, seeds),
        )
        cells = self.cells(settings, seeds)
        if not cells:
            return WorkDone({}, [])
        _take_exported(study.file, folder / KEPT)
        watch = _exporting(study.file, tell)
        # Failed cells are run again, because an experiment without them has no findings.
        records = study.run(cells, replace(running, retry_failed=True), watch=watch)
        if records is None:
            _export(study.file)
            raise KeyboardInterrupt
        self._refuse_failed(records)
        values = {name: record["value"] for name, record in records.items()}
        return WorkDone(values, list(records.values()))

    def _run_comparison(
        self,
        out: Path,
        scale: str,
        settings: Any,
        seeds: tuple[int, ...],
        tell: Tell,
        running: Running,
    ) -> "WorkDone":
        """Run the comparison, after taking the runs that another one has made."""
        assert self.comparison is not None  # noqa: S101  run() has looked
        study = self.comparison(settings, seeds)
        data = study.first.model.data
        note_data(data.name, data.digest)
        folder = self.folder(out)
        file = StudyFile(folder / UNFINISHED)
        _take_exported(file, folder / KEPT)
        take_runs_of(out, settings.reads, study, file)
        watch = _exporting(file)
        result = run_comparison(study, folder / UNFINISHED, running, say=tell, watch=watch)
        if result is None:
            _export(file)
            raise KeyboardInterrupt
        failed = [one for one in result.records if one["status"] == "failed"]
        self._refuse_failed({f"{one['unit']}, rate {one['rate']:g}": one for one in failed})
        export_study(folder / RUNS, file.header(), file.records())
        return WorkDone({"header": result.header, "records": result.records}, result.records)

    def _refuse_failed(self, records: Mapping[str, Mapping[str, Any]]) -> None:
        """Raise if cells failed, with the first reasons."""
        failed = [name for name, record in records.items() if record["status"] == "failed"]
        if failed:
            reasons = [f"{name}: {records[name]['error']}" for name in failed[:SHOWN]]
            raise ArgumentError(
                f"{self.name}: {len(failed)} of {len(records)} parts failed",
                got=" | ".join(reasons),
                fix="correct the cause and rerun the same command to resume",
            )


@dataclass(frozen=True)
class WorkDone:
    """What the work of an experiment returned.

    Attributes:
        values: by the name of the cell; header and records of a comparison.
        records: of all cells.
    """

    values: Mapping[str, Any]
    records: Sequence[Mapping[str, Any]]

    @property
    def seconds(self) -> float:
        """The seconds of processor time."""
        return sum(record["processor_seconds"] or 0.0 for record in self.records)

    @property
    def machines(self) -> dict[str, str]:
        """On which processors and in which precision networks were trained."""
        found = set()
        for record in self.records:
            if "precision" in record:
                found.add(f"{record['machine']['processor']}, {record['precision']}")
            elif isinstance(record["value"], Mapping):
                measured = record["value"].values()
                found |= {one["machine"] for one in measured if _names_machine(one)}
        return {"trained on": "; ".join(sorted(found))} if found else {}


def _names_machine(measured: Any) -> bool:
    """Return whether the measurements of a network say on what it was trained."""
    return isinstance(measured, Mapping) and "machine" in measured


def _exporting(file: StudyFile, tell: Tell | None = None) -> Callable[[Progress], None]:
    """Return what exports the finished cells every few minutes, and tells which cell starts."""
    exported = time.monotonic()

    def watch(progress: Progress) -> None:
        nonlocal exported
        if tell is not None and progress.event == "started":
            tell(progress.cell.labels["name"])
        elif progress.record is not None and time.monotonic() - exported > EXPORT_SECONDS:
            _export(file)
            exported = time.monotonic()

    return watch


def _export(file: StudyFile) -> None:
    """Write the finished cells beside the folder of the study."""
    header = {name: value for name, value in file.header().items() if name != "format"}
    export_study(file.path.parent.with_name(KEPT), header, file.records())


def _take_exported(file: StudyFile, kept: Path) -> None:
    """Take the cells that were exported, if the folder of the study is not there."""
    if kept.exists() and not file.path.exists():
        records = import_study(kept)[1]
        with file.driven():
            file.prepare()
            file.take(records)


def take_runs_of(out: Path, name: str, study: ComparisonStudy, file: StudyFile) -> None:
    """Take the runs that another comparison has made of the same networks.

    Args:
        out: the folder of all experiments.
        name: of the file with the runs; none if empty.
        study: the plan.
        file: that takes them.

    Raises:
        ArgumentError: if they are not there, or were made on another kind of processor or in
            another precision.
    """
    if not name:
        return
    path = out / name
    if not path.exists():
        raise ArgumentError(
            "this experiment reads the runs of another comparison, which must be run first",
            got=str(path),
            fix=f"gatewise compare {path.stem}, and keep its study.jsonl as {path}",
        )
    records = import_study(path)[1]
    here = describe_processor(), resolve_precision(study.first.model.recipe.precision, study.device)
    there = {(one["machine"]["processor"], one["precision"]) for one in records.values()}
    if there != {here}:
        raise ArgumentError(
            "runs that are compared need one kind of processor and one precision",
            got=", ".join(here),
            allowed=" or ".join(", ".join(one) for one in sorted(there)),
            fix=f"run it where {path.stem} was run",
        )
    with file.driven():
        file.prepare()
        file.take(records)


def _refuse_other_scale(record: Path, scale: str) -> None:
    """Raise if the record of another scale is there, which is never overwritten."""
    if not record.exists():
        return
    kept = read_json(record)["scale"]
    if kept != scale:
        raise ArgumentError(
            "the folder holds the record of another scale, which is not overwritten",
            got=f"{record}: scale {kept}",
            allowed=f"scale {kept}",
            fix="name another folder with --out",
        )


def experiments_in(package: str, modules: Sequence[str]) -> tuple[Experiment, ...]:
    """Return the ``EXPERIMENT`` of each module of a paper.

    Args:
        package: of the paper.
        modules: one name per figure or table. This is where a new one is registered.
    """
    experiments = []
    for name in modules:
        experiments.append(importlib.import_module(f"{package}.{name}").EXPERIMENT)
    return tuple(experiments)
