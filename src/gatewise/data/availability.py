"""Whether a set can be loaded: its files are there and are the published ones."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gatewise.data.catalogue import find_set
from gatewise.data.published import data_folder, find, read_published
from gatewise.errors import DamagedFileError, FileError


@dataclass(frozen=True)
class State:
    """``built in``: nothing has to be fetched; ``your own``: you name its folder.

    Else what was found on the disc.
    """

    word: Literal["built in", "your own", "present", "missing", "damaged"]
    detail: str = ""  # the error that loading it would raise


def state(name: str, *, folder: str | Path | None = None) -> State:
    """The state of the set called ``name``, with every byte of its files compared with the published digests."""
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
