"""Studies whose cells call functions: the experiments of papers, or any other repeated work."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from gatewise.errors import ArgumentError
from gatewise.studies.engine.cell import Cell, CellCall, Record, plain
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
            header={
                "format": FORMAT,
                "name": self.name,
                "title": self.title,
                "about": plain(self.about),
            },
            running=running,
            watch=watch,
            stop=stop,
        )
        if records is None:
            return None
        return {name: records[cell.key] for name, cell in made.items()}

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
