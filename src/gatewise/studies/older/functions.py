"""Studies whose cells call functions: the experiments of papers, or any other repeated work.

Note [Function cells]. A cell has a name, plain settings and a function at the top level of a
module. Its key is the digest of all three and of the study's identity (for example the versions of
the libraries), so a changed setting runs a new cell and an interrupted study resumes with the cells
that have no record. The folder, the journal, the executors and the status are those of every study.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from json import dumps
from pathlib import Path
from typing import Any

from gatewise.errors import ArgumentError
from gatewise.files import digest
from gatewise.studies.older.cell_work import (
    CellCall,
    Task,
    attempt_cell,
    plain,
    value_content,
)
from gatewise.studies.older.cells import KEY
from gatewise.studies.older.folder import CELLS, StudyFolder
from gatewise.studies.older.runner import (
    CellRunner,
    RunOptions,
    Watch,
    thread_share,
)
from gatewise.train import StopSignal

Record = dict[str, Any]


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

    @property
    def reference(self) -> str:
        """The function as ``package.module:name``."""
        name = getattr(self.function, "__qualname__", "")
        if not name.isidentifier():
            raise ArgumentError(
                f"cell {self.name!r}: its function cannot be imported by a worker",
                got=name or self.function,
                allowed="a function at the top level of a module",
            )
        return f"{self.function.__module__}:{name}"


@dataclass(frozen=True)
class FunctionStudy:
    """A folder of function cells; see Note [Function cells].

    Args:
        path: the folder.
        name: of the study; the folder of another study is refused.
        title: for people.
        about: plain values that are kept in the folder.
        identity: what the results depend on besides settings and function. It is part of every
            key.
    """

    path: str | Path
    name: str
    title: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)
    identity: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def folder(self) -> StudyFolder:
        """The files of the study."""
        return StudyFolder(self.path)

    def run(
        self,
        cells: Sequence[FunctionCell],
        options: RunOptions | None = None,
        *,
        watch: Watch | None = None,
        stop: StopSignal | None = None,
    ) -> dict[str, Record] | None:
        """Run the cells that have no record.

        Args:
            cells: all cells of the study.
            options: how to run; in this process if not given.
            watch: called with the progress whenever something happens.
            stop: ends the run early if a stop is asked for.

        Returns:
            The records by the name of the cell; None if stopped before all have one.
        """
        options = options or RunOptions(on="here")
        stop = stop or StopSignal()
        keys = {cell.name: self.key(cell.name, cell.reference, cell.settings) for cell in cells}
        if len(keys) < len(cells):
            raise ArgumentError(f"{self.name}: two cells have the same name", got=sorted(keys))
        tasks = []
        for cell in cells:
            content = {"key": keys[cell.name], "name": cell.name, "settings": plain(cell.settings)}
            place = str((self.folder.path / CELLS).resolve())
            tasks.append(Task(content, place, function=cell.reference))
        threads = options.threads or thread_share(options)
        with self.claimed(options.shard), stop.listening():
            self._write([task.cell for task in tasks])
            done = CellRunner(self.folder, options, stop, watch).run(tasks, threads)
        if not done:
            return None
        return {name: self.folder.record(key) or {} for name, key in keys.items()}

    def run_one(self, name: str, settings: Mapping[str, Any], work: Callable[[], Any]) -> Record:
        """Run one cell in this process, whose work need not be importable.

        Args:
            name: of the cell.
            settings: plain values on which the result depends.
            work: called if the cell has no record. Its errors pass to the caller.

        Returns:
            The record; its ``value`` is what ``work`` returned, in plain values.
        """
        key = self.key(name, "", settings)
        task = Task(
            {"key": key, "name": name},
            str((self.folder.path / CELLS).resolve()),
            function="",
        )
        attempt_cell(task, StopSignal(), lambda stop: value_content(work()))
        return self.folder.record(key) or {}

    @contextmanager
    def claimed(self, shard: str | None = None) -> Iterator[None]:
        """Hold the folder for the block, so that no other process runs the same study in it.

        Args:
            shard: the part of this process, if several share the work.
        """
        self.folder.check(self.name)
        with self.folder.claimed(shard=shard):
            if self.folder.find() is None:
                self._write([])
            yield

    def key(self, name: str, reference: str, settings: Mapping[str, Any]) -> str:
        """Return the key of a cell: the digest of what its result depends on."""
        parts = [plain(self.identity), name, reference, plain(settings)]
        return digest(dumps(parts, sort_keys=True).encode())[:KEY]

    def _write(self, cells: Sequence[Mapping[str, Any]]) -> None:
        """Write ``study.json``."""
        content = {
            "name": self.name,
            "title": self.title,
            "study": plain(self.about),
            "identity": plain(self.identity),
            "cells": list(cells),
        }
        self.folder.write(content)
