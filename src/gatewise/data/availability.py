"""Check whether the files of a data set are there and are the published ones."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gatewise.data.catalogue import find_set
from gatewise.data.published import data_folder, find, read_published
from gatewise.errors import DamagedFileError, FileError


@dataclass(frozen=True)
class State:
    """Whether a data set can be loaded.

    Attributes:
        word: ``"built in"``: nothing has to be fetched; ``"your own"``: the user names its folder;
            else the state of the files.
        detail: the error that loading would raise.
    """

    word: Literal["built in", "your own", "present", "missing", "damaged"]
    detail: str = ""


def state(name: str, *, folder: str | Path | None = None) -> State:
    """Return the state of a data set, with all its files compared with their digests.

    Args:
        name: the name of the set.
        folder: the data folder; the one that ``GATEWISE_DATA`` names unless given.
    """
    source = find_set(name)
    if not source.files:
        return State("built in" if source.sizes else "your own")
    try:
        home = data_folder(folder, fetch=source.fetch)
        absent = [file for file in source.files if find(home, file) is None]
        for file in absent or source.files:
            read_published(home, file, fetch=source.fetch)
    except DamagedFileError as problem:
        return State("damaged", str(problem))
    except FileError as problem:
        return State("missing" if problem.errno is None else "damaged", str(problem))
    return State("present")
