"""Which data an experiment reads, with digests.

A record and the finished cells beside it belong to one content of a data set. Another content is
refused before anything is trained.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from gatewise.data import DataSet, load
from gatewise.errors import ArgumentError
from gatewise.files import read_json, write_json
from gatewise.studies import StudyFile
from gatewise.train import RunConfig
from gatewise_papers.common.writing import RESULT

UNFINISHED = "unfinished"  # the folder of finished cells, until the results are written
UNFINISHED_DATA = "unfinished_data.json"  # beside the results, until they are written
KEPT = "unfinished.jsonl"  # the finished cells, exported from that folder


class DataNotes:
    """What the running experiment has read, and what was read before in its folder.

    Args:
        folder: of the experiment.
    """

    def __init__(self, folder: Path) -> None:
        self.read: dict[str, str] = {}
        self._path = folder / UNFINISHED_DATA
        self._before: dict[str, str] = {}
        if (folder / RESULT).exists():
            self._before.update(read_json(folder / RESULT).get("data_sha256", {}))
        if self._path.exists() and _has_cells(folder):
            self._before.update(read_json(self._path))

    def note(self, name: str, digest: str) -> None:
        """Note a data set before a cell is made with it; see :func:`note_data`."""
        before = self._before.get(name, digest)
        if before != digest:
            raise ArgumentError(
                f"the data set {name} is not the one of the record and cells in the folder",
                got=f"sha256 {digest}",
                allowed=f"sha256 {before}",
                fix="let GATEWISE_DATA name the folder with that data, or name another folder with "
                "--out",
            )
        if name not in self.read:
            self.read[name] = digest
            write_json(self._path, self._before | self.read)


_RUNNING: list[DataNotes] = []  # of the experiments that this process runs


def _has_cells(folder: Path) -> bool:
    """Return whether an experiment has finished cells in its folder."""
    file = StudyFile(folder / UNFINISHED)
    if not file.path.exists():
        return (folder / KEPT).exists()
    return file.has_header() and bool(file.records(all_plans=True))


@contextmanager
def noting_data(folder: Path) -> Iterator[dict[str, str]]:
    """Yield the digests of the data that is read in the block, by name.

    Args:
        folder: of the experiment.
    """
    notes = DataNotes(folder)
    _RUNNING.append(notes)
    try:
        yield notes.read
    finally:
        _RUNNING.remove(notes)


def note_data(name: str, digest: str) -> None:
    """Note that the running experiment reads a data set; its record names it.

    Worker processes run no experiment and note nothing: the process that started them has read the
    same data.

    Args:
        name: of the data set, with its options.
        digest: the sha256 of its content.

    Raises:
        ArgumentError: if the record or the finished cells in the folder have another content.
    """
    if _RUNNING:
        _RUNNING[-1].note(name, digest)


def data_of(config: RunConfig) -> DataSet:
    """Return the data of a run, read once per process, and note it.

    Args:
        config: the run.
    """
    options = json.dumps(config.data_options)
    data = _load(config.data, options, os.environ.get("GATEWISE_DATA"))
    note_data(config.data if options == "{}" else f"{config.data} {options}", data.digest)
    return data


@lru_cache(maxsize=4)
def _load(name: str, options: str, folder: str | None) -> DataSet:
    """Load a data set; the arguments are hashable so that it can be cached."""
    return load(name, folder=folder, **json.loads(options))
