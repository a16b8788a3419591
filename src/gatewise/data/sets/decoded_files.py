"""Sets are decoded once, into a sealed file that later runs map into memory.

Note [The decoded file]

``gatewise-decoded/NAME-KEY.safetensors`` in the data folder, or in the folder that
``GATEWISE_CACHE`` names. KEY is a digest of what the file was made from: the set, the digests of
its sources, and ``LAYOUT``. It is written when all sources have been checked and decoded, never
before, and whole or not at all. One that is damaged or foreign is made again from the sources.
Where it cannot be written, the set is used from memory, and a warning says so. Its seal shows that
it is as it was written, not who wrote it: keep the folder as safe as your programs.
"""

import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from torch import Tensor

from gatewise.data.data_set import DataSet, Split, assemble
from gatewise.errors import FileError, UncachedDataWarning
from gatewise.files import confine, digest, make_folder, map_tensors, write_tensors

FOLDER_VARIABLE, FOLDER = "GATEWISE_CACHE", "gatewise-decoded"
LAYOUT = "1"  # raised whenever the same sources would be decoded into other numbers

Decode: TypeAlias = Callable[[], tuple[Split, Split]]


def decoded(name: str, *, sources: list[str], classes: int, home: Path, decode: Decode) -> DataSet:
    """The set that ``decode`` gives, from the decoded file if there is a good one.

    ``sources`` are digests.
    """
    key = digest(json.dumps([LAYOUT, name, *sources]).encode())
    file = f"{name}-{key[:16]}.safetensors"
    found = _mapped(home, file, name, key, classes)
    if found is not None:
        return found
    made = assemble(name, *decode(), classes=classes)
    try:
        path = _place(home, file)
        make_folder(path.parent)
        write_tensors(path, _tensors(made), metadata=_facts(made, key))
    except FileError as problem:
        warnings.warn(
            f"{name} could not be kept in decoded form: {problem}",
            UncachedDataWarning,
            stacklevel=2,
        )
        return made
    return _mapped(home, file, name, key, classes) or made


def _place(home: Path, file: str) -> Path:
    """Where the file goes; a link that leads out of the data folder is refused."""
    chosen = os.environ.get(FOLDER_VARIABLE)
    return Path(chosen, file) if chosen else confine(home, FOLDER) / file


def _mapped(home: Path, file: str, name: str, key: str, classes: int) -> DataSet | None:
    """The set from its decoded file; None where that is not there, damaged or not of this key."""
    try:
        tensors, facts = map_tensors(_place(home, file))
    except FileError:
        return None
    if facts.get("key") != key:
        return None
    try:
        return _set(name, tensors, facts, classes)
    except (KeyError, ValueError):  # sealed with this key, but not by us
        return None


def _set(name: str, tensors: dict[str, Tensor], facts: dict[str, str], classes: int) -> DataSet:
    train, test = (
        Split(tensors[f"{split}.images"], tensors[f"{split}.labels"]) for split in ("train", "test")
    )
    channels, height, width = train.images.shape[1:]
    return DataSet(
        name=name,
        train=train,
        test=test,
        classes=classes,
        shape=(channels, height, width),
        mean=tuple(json.loads(facts["mean"])),
        std=tuple(json.loads(facts["std"])),
        digest=facts["digest"],
    )


def _tensors(made: DataSet) -> dict[str, Tensor]:
    splits = (("train", made.train), ("test", made.test))
    return {
        f"{name}.{part}": getattr(split, part)
        for name, split in splits
        for part in ("images", "labels")
    }


def _facts(made: DataSet, key: str) -> dict[str, str]:
    return {
        "key": key,
        "digest": made.digest,
        "mean": json.dumps(made.mean),
        "std": json.dumps(made.std),
    }
