"""One figure or table of a paper: the data it needs, its scales, and how it is run and resumed.

Note [How experiments run]. The work of an experiment is a list of cells that the engine of studies
runs: each has a name, plain settings and a function, and its record is written as soon as it ends.
If interrupted, the same command resumes with the cells that have no record. They are kept in the
folder ``unfinished`` beside the results, which is removed when the results are written. An
experiment declares its cells (``cells``) and turns their values into findings (``findings``).
Declared cells run in several processes. The older form is one function, ``measure``, that asks for
one cell after another. Such an experiment can also read what the record of another experiment keeps
of its trained networks, in place of training them again.
"""

import importlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

from gatewise.errors import ArgumentError, unknown_name
from gatewise.files import make_folder, read_json
from gatewise.studies import FunctionCell, FunctionStudy, Progress, Running, plain
from gatewise.train import RunConfig
from gatewise_papers.common.data_notes import UNFINISHED, UNFINISHED_DATA, data_of, noting_data
from gatewise_papers.common.levels import Level, held_to_levels
from gatewise_papers.common.machines import machine, versions
from gatewise_papers.common.records import Findings, Result
from gatewise_papers.common.sequential_run import Run, Tell
from gatewise_papers.common.writing import RESULT, write_result

COST = "cost.json"  # what the training costs, as timed before it started
MOST_SEEDS = 1000
SHOWN = 3  # failed cells that an error names

Trainings = Mapping[str, Sequence[RunConfig]]  # by network, every run that it needs


@dataclass(frozen=True)
class CellValues:
    """What the cells of an experiment returned, by name, with the settings and seeds of the run."""

    settings: Any
    seeds: tuple[int, ...]
    values: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


@dataclass(frozen=True)
class Experiment:
    """One figure or table; see Note [How experiments run].

    Args:
        name: ``paper/figure``.
        title: in a few words.
        scales: settings by the name of the scale: ``tiny`` (seconds, for tests), ``desk`` (what
            two cores do in hours) and ``full`` (the paper's own).
        measure: takes a :class:`Run` and returns the findings. Not used if there are ``cells``.
        seeds: how many, if no other number is asked for.
        seeds_at: how many at a scale, where it is another number.
        needs: data sets.
        cells: takes the settings and the seeds and returns the cells.
        findings: turns the values of the cells into findings.
        trainings: takes the settings and the seeds and returns every training run by network, so
            that its cost can be timed before it is run. None if there are none at any scale.
        read_data: reads the data of declared cells that have their own loop, and returns its
            digests.
        own_loop: whether networks are trained by other code than `gatewise.train.train`, so that
            there is no run to time.
        measures_time: whether its numbers are times, so that cells of another machine, or of
            another number of threads, do not count.
        levels: how well networks must be trained before claims about them are judged.
    """

    name: str
    title: str
    scales: Mapping[str, Any]
    measure: Callable[[Run], Findings] | None = None
    seeds: int = 5
    seeds_at: Mapping[str, int] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    cells: Callable[[Any, tuple[int, ...]], Sequence[FunctionCell]] | None = None
    findings: Callable[[CellValues], Findings] | None = None
    trainings: Callable[[Any, tuple[int, ...]], Trainings] | None = None
    read_data: Callable[[], Sequence[str]] | None = None
    own_loop: bool = False
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
                threads as this process. Experiments without declared cells always run in this
                process.

        Raises:
            KeyboardInterrupt: if stopped.
            ArgumentError: if a cell failed, with its reason.
        """
        settings = self.settings_of(scale)
        numbers = self.seed_numbers(seeds, scale)
        folder = self.folder(out)
        _refuse_other_scale(folder / RESULT, scale)
        make_folder(folder)
        with noting_data(folder) as read:
            study = FunctionStudy(
                folder / UNFINISHED,
                name=self.name,
                title=self.title,
                about={"scale": scale, "settings": asdict(settings), "seeds": numbers},
                identity=self._identity() | self._data_identity(settings, numbers),
            )
            if self.cells is not None:
                findings, seconds = self._run_cells(study, settings, numbers, tell, options)
            else:
                run = Run(study, scale, settings, numbers, tell, Path(out))
                findings, seconds = self._run_measure(study, run)
        result = Result(
            experiment=self.name,
            title=self.title,
            scale=scale,
            reduced=settings.reduced,
            seeds=numbers,
            settings=plain(asdict(settings)),
            findings=held_to_levels(self.levels, findings),
            versions=versions(),
            seconds=seconds,
            date=date.today().isoformat(),
            data_sha256=dict(sorted(read.items())),
            machine=machine(),
        )
        written = write_result(result, folder)
        shutil.rmtree(study.path, ignore_errors=True)
        for name in (UNFINISHED_DATA, COST):
            (folder / name).unlink(missing_ok=True)
        return written

    def _identity(self) -> dict[str, str]:
        """Return what a finished cell depends on besides its settings.

        A study goes on from its finished cells on any machine and with any versions, but times are
        those of one machine and number of threads.
        """
        known = versions()
        return known if self.measures_time else {"numerics": known["numerics"]}

    def _data_identity(self, settings: Any, seeds: tuple[int, ...]) -> dict[str, Any]:
        """Read the data of declared cells, and return its digests.

        Worker processes read the data again. So a finished cell counts only for the content that
        this process has read.
        """
        if self.cells is None:
            return {}
        if self.read_data is not None:
            return {"data": sorted(self.read_data())}
        if self.trainings is None:
            return {}
        table = self.trainings(settings, seeds)
        return {"data": sorted({data_of(configs[0]).digest for configs in table.values()})}

    def _run_cells(
        self,
        study: FunctionStudy,
        settings: Any,
        seeds: tuple[int, ...],
        tell: Tell,
        options: Running | None,
    ) -> tuple[Findings, float]:
        """Run the declared cells; return the findings and the seconds of processor time."""
        assert self.cells is not None and self.findings is not None  # noqa: S101  run() checked
        # Workers get the threads of this process, which the results name. Failed cells are run
        # again, because an experiment without them has no findings.
        changes: dict[str, Any] = {"threads": int(versions()["threads"]), "retry_failed": True}
        options = replace(options or Running(), **changes)
        cells = list(self.cells(settings, seeds))
        records = self._records(study, cells, tell, options)
        seconds = sum(record["processor_seconds"] or 0.0 for record in records.values())
        return self.findings(CellValues(settings, seeds, _values(records))), seconds

    def _records(
        self,
        study: FunctionStudy,
        cells: Sequence[FunctionCell],
        tell: Tell,
        options: Running,
    ) -> dict[str, dict[str, Any]]:
        """Run the cells that have no record; return the records by name."""

        def watch(progress: Progress) -> None:
            if progress.event == "started":
                tell(progress.cell.labels["name"])

        records = study.run(cells, options, watch=watch)
        if records is None:
            raise KeyboardInterrupt
        failed = [name for name, record in records.items() if record["status"] == "failed"]
        if failed:
            reasons = [f"{name}: {records[name]['error']}" for name in failed[:SHOWN]]
            raise ArgumentError(
                f"{self.name}: {len(failed)} of {len(records)} parts failed",
                got=" | ".join(reasons),
                fix="correct the cause and rerun the same command to resume",
            )
        return records

    def _run_measure(
        self,
        study: FunctionStudy,
        run: Run,
    ) -> tuple[Findings, float]:
        """Run an experiment of the older form; return findings and seconds of processor time."""
        assert self.measure is not None  # noqa: S101  an experiment has one of the two forms
        with study.claimed():
            return self.measure(run), run.seconds


def _values(records: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the values in the records of cells, by name."""
    return {name: record["value"] for name, record in records.items()}


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
