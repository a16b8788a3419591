"""One figure or table of a paper.

What it needs, at which scales it can be run, and how it is run and resumed.
"""

import platform
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from importlib import metadata
from json import dumps
from pathlib import Path
from typing import Any, Protocol

from gatewise.errors import ArgumentError, unknown_name
from gatewise.files import Journal, digest, make_folder
from gatewise.papers.common.records import Findings, Result, plain
from gatewise.papers.common.writing import write_result

JOURNAL, TRAINING = "unfinished.jsonl", "unfinished-training"
MOST_SEEDS = 1000

Tell = Callable[[str], object]


class Settings(Protocol):
    """The sizes of an experiment at one scale.

    A dataclass of plain values that says what it makes smaller.
    """

    __dataclass_fields__: Any
    reduced: str


class Run:
    """One run of an experiment: its settings and seeds, and a memory of the cells that are done.

    A cell is a piece of work with a name and a plain result. Its result is in a journal as soon as
    it is there, so that a run that was interrupted goes on where it stopped if it is started again
    with the same versions, settings and seeds.
    """

    def __init__(
        self, name: str, settings: Any, seeds: tuple[int, ...], folder: Path, tell: Tell
    ) -> None:
        self.settings, self.seeds, self._tell = settings, seeds, tell
        make_folder(folder)
        self._journal = Journal(folder / JOURNAL)
        identity = [name, plain(asdict(settings)), list(seeds), versions()]
        self._identity = digest(dumps(identity, sort_keys=True).encode())
        self._done = {
            each["cell"]: each for each in self._journal.read() if each["of"] == self._identity
        }
        self._training = folder / TRAINING
        self.seconds = 0.0

    def training(self, cell: str) -> Path:
        """A folder for the training of one cell, so that a cell that was stopped goes on too.

        Removed at the end.
        """
        return self._training / digest(f"{self._identity}/{cell}".encode())[:16]

    def cell(self, name: str, work: Callable[[], Any]) -> Any:
        """The result of ``work``, a plain value; from the journal if it is there."""
        if name not in self._done:
            self._tell(name)
            start = time.process_time()
            value = plain(work())
            record = {
                "of": self._identity,
                "cell": name,
                "seconds": time.process_time() - start,
                "value": value,
            }
            self._journal.append(record)
            self._done[name] = record
        self.seconds += self._done[name]["seconds"]
        return self._done[name]["value"]

    def forget(self) -> None:
        """Remove the journal, and what was trained: the result is written."""
        shutil.rmtree(self._training, ignore_errors=True)
        for path in (self._journal.path, self._journal.path.with_name(f"{JOURNAL}.lock")):
            path.unlink(missing_ok=True)


@dataclass(frozen=True)
class Experiment:
    """One figure or table."""

    name: str  # paper/figure
    title: str
    scales: Mapping[str, Any]  # name: settings
    measure: Callable[[Run], Findings]
    seeds: int = 5  # as many as the paper has
    needs: tuple[str, ...] = ()  # data sets

    def run(
        self,
        scale: str = "cpu",
        seeds: int | None = None,
        out: str | Path = "reproduced",
        *,
        tell: Tell = lambda _: None,
    ) -> Result:
        """Measure at ``scale`` with seeds 0 to ``seeds`` - 1 (as many as the paper has, if None).

        Files go to the folder ``out``/``name``. ``tell`` is called with the name of each piece of
        work as it begins.
        """
        if scale not in self.scales:
            raise unknown_name("scale", scale, self.scales)
        count = self.seeds if seeds is None else seeds
        if not isinstance(count, int) or not 1 <= count <= MOST_SEEDS:
            raise ArgumentError(
                "seeds must be a number of seeds", got=seeds, allowed=f"1 to {MOST_SEEDS}"
            )
        folder = Path(out, *self.name.split("/"))
        run = Run(self.name, self.scales[scale], tuple(range(count)), folder, tell)
        findings = self.measure(run)
        done = write_result(self._result(scale, run, findings), folder)
        run.forget()
        return done

    def _result(self, scale: str, run: Run, findings: Findings) -> Result:
        return Result(
            experiment=self.name,
            title=self.title,
            scale=scale,
            reduced=run.settings.reduced,
            seeds=run.seeds,
            settings=plain(asdict(run.settings)),
            findings=findings,
            versions=versions(),
            seconds=run.seconds,
            date=date.today().isoformat(),
        )


def versions() -> dict[str, str]:
    """Of everything that decides the numbers."""
    import torch

    found = {name: _version(name) for name in ("gatewise", "torch", "numpy", "scipy")}
    machine = f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
    return {
        **found,
        "python": platform.python_version(),
        "machine": machine,
        "threads": str(torch.get_num_threads()),
    }


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "unknown"  # a source tree can be run without being installed
