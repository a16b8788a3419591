"""Decode a set once, into a file that later runs map into memory.

Note [The decoded file]. It is ``gatewise-decoded/NAME-KEY.safetensors`` in the data folder, or in
the folder that ``GATEWISE_CACHE`` names. KEY is a digest of the set, of the digests of its sources,
and of ``LAYOUT``. The file is written after all sources have been checked and decoded, completely
or not at all. A damaged or different file is made again from the sources. Where it cannot be
written, the set is used from memory and a warning says so. Nothing shows who wrote the file:
protect the folder as you protect your programs.
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

FOLDER_VARIABLE = "GATEWISE_CACHE"
FOLDER = "gatewise-decoded"
LAYOUT = "1"  # increased whenever the same sources would be decoded into other numbers

Decode: TypeAlias = Callable[[], tuple[Split, Split]]


def decoded(name: str, *, sources: list[str], classes: int, home: Path, decode: Decode) -> DataSet:
    """Return a data set from its decoded file; decode it and write the file if there is none.

    Args:
        name: the name of the set.
        sources: digests of the sources.
        classes: the number of classes.
        home: the data folder.
        decode: returns the training and the test split.
    """
    key = digest(json.dumps([LAYOUT, name, *sources]).encode())
    file = f"{name}-{key[:16]}.safetensors"
    mapped = _mapped(home, file, name, key, classes)
    if mapped is not None:
        return mapped
    data = assemble(name, *decode(), classes=classes)
    try:
        path = _place(home, file)
        make_folder(path.parent)
        write_tensors(path, _tensors(data), metadata=_facts(data, key))
    except FileError as problem:
        warnings.warn(
            f"{name} could not be kept in decoded form: {problem}",
            UncachedDataWarning,
            stacklevel=2,
        )
        return data
    return _mapped(home, file, name, key, classes) or data


def _place(home: Path, file: str) -> Path:
    """Return the path of the file; a link that leads out of the data folder is refused."""
    chosen = os.environ.get(FOLDER_VARIABLE)
    if chosen:
        return Path(chosen, file)
    return confine(home, FOLDER) / file


def _mapped(home: Path, file: str, name: str, key: str, classes: int) -> DataSet | None:
    """Return the set from its decoded file; ``None`` if there is no good one."""
    try:
        tensors, facts = map_tensors(_place(home, file))
    except FileError:
        return None
    if facts.get("key") != key:
        return None
    try:
        return _set(name, tensors, facts, classes)
    except (KeyError, ValueError):  # with this key, but of another program
        return None


def _set(name: str, tensors: dict[str, Tensor], facts: dict[str, str], classes: int) -> DataSet:
    train = Split(tensors["train.images"], tensors["train.labels"])
    test = Split(tensors["test.images"], tensors["test.labels"])
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


def _tensors(data: DataSet) -> dict[str, Tensor]:
    return {
        "train.images": data.train.images,
        "train.labels": data.train.labels,
        "test.images": data.test.images,
        "test.labels": data.test.labels,
    }


def _facts(data: DataSet, key: str) -> dict[str, str]:
    return {
        "key": key,
        "digest": data.digest,
        "mean": json.dumps(data.mean),
        "std": json.dumps(data.std),
    }
