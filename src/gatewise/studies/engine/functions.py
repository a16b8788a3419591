"""Studies whose cells call functions: the experiments of papers, or any other repeated work."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from gatewise.errors import ArgumentError
from gatewise.studies.engine.cell import DONE, Cell, CellCall, Record, plain, run_cell
from gatewise.studies.engine.running import Running, Watch, run
from gatewise.studies.engine.study_file import StudyFile
from gatewise.train import StopSignal

FORMAT = "gatewise cells"


@dataclass(frozen=True)
class FunctionCell:
    """One piece of work.

    Args:
        name: unique in the study.
        function: takes a :class:`CellCall` and returns plain values. It stands at the top level
            of a module, so that worker processes can import it.
        settings: plain values that the function reads.
    """

    name: str
    function: Callable[[CellCall], Any]
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class FunctionWork:
    """Calls the function of a cell."""

    functions: Mapping[str, Callable[[CellCall], Any]]

    def __call__(self, call: CellCall) -> dict[str, Any]:
        """Return the value of a cell.

        Args:
            call: of the cell; the function gets its own settings.
        """
        inner = CellCall(call.settings["settings"], call.labels, call.folder, call.stop)
        return {"value": self.functions[call.name](inner)}


@dataclass(frozen=True)
class FunctionStudy:
    """The function cells of one folder. A cell is known by its name and settings, not its function.

    Args:
        path: the folder.
        name: of the study; the folder of another study is refused.
        title: for people.
        about: plain values that are kept in the folder.
        identity: what the results depend on besides settings. It is part of every key.
    """

    path: str | Path
    name: str
    title: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)
    identity: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def file(self) -> StudyFile:
        """The file of the records."""
        return StudyFile(self.path)

    def cell(self, name: str, settings: Mapping[str, Any]) -> Cell:
        """Return a cell as the engine knows it.

        Args:
            name: of the cell.
            settings: plain values that its function reads.
        """
        content = {"name": name, "identity": plain(self.identity), "settings": plain(settings)}
        return Cell(self.name, content, {"name": name})

    def run(
        self,
        cells: Sequence[FunctionCell],
        running: Running | None = None,
        *,
        watch: Watch | None = None,
        stop: StopSignal | None = None,
    ) -> dict[str, Record] | None:
        """Run the cells that have no record.

        Args:
            cells: all cells of the study.
            running: how to run; in this process if not given.
            watch: told what happens.
            stop: ends the run early if a stop is asked for.

        Returns:
            The records by the name of the cell; None if stopped before all have one.
        """
        self._check_name()
        made = {cell.name: self.cell(cell.name, cell.settings) for cell in cells}
        if len(made) < len(cells):
            raise ArgumentError(f"{self.name}: two cells have the same name", got=sorted(made))
        records = run(
            self.file.path,
            lambda _: list(made.values()),
            FunctionWork({cell.name: cell.function for cell in cells}),
            header=self._header,
            running=running,
            watch=watch,
            stop=stop,
        )
        if records is None:
            return None
        return {name: records[cell.key] for name, cell in made.items()}

    def run_one(self, name: str, settings: Mapping[str, Any], work: Callable[[], Any]) -> Record:
        """Run one cell in this process, whose work need not be importable.

        Args:
            name: of the cell.
            settings: plain values on which the result depends.
            work: called if the cell has no record. Its errors pass to the caller.

        Returns:
            The record; its ``value`` is what ``work`` returned, in plain values.
        """
        cell = self.cell(name, settings)
        known = self.file.records(all_plans=True).get(cell.key)
        if known is not None:
            return known
        raised: list[Exception] = []

        def call(_: CellCall) -> dict[str, Any]:
            try:
                return {"value": work()}
            except Exception as problem:
                raised.append(problem)
                raise

        record = run_cell(call, cell, self.file.work / cell.key, StopSignal())
        if raised:
            raise raised[0]
        assert record is not None and record["status"] == DONE  # noqa: S101  nothing was raised
        self.file.ask([cell])
        self.file.write(cell.key, record)
        return record

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Hold the folder for the block, so that no other process runs the same study in it."""
        self._check_name()
        with self.file.driven():
            self.file.prepare()
            self.file.ask([], self._header)
            yield

    @property
    def _header(self) -> dict[str, Any]:
        """What the study says about itself."""
        about = plain(self.about)
        return {"format": FORMAT, "name": self.name, "title": self.title, "about": about}

    def _check_name(self) -> None:
        """Raise if the folder belongs to another study."""
        if not self.file.path.exists() or not self.file.has_header():
            return
        found = self.file.header().get("name")
        if found != self.name:
            raise ArgumentError(
                f"{self.file.path.parent} belongs to another study",
                got=found,
                allowed=self.name,
                fix="choose another folder",
            )
