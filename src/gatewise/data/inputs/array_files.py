"""Arrays of numbers in ``.npy`` and ``.npz`` files. Pickled objects are refused.

What a header says is not believed: no more is read than the rows asked for, and no memory is taken
for numbers that the file does not have.
"""

import math
import os
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.lib import format as npy
from torch import Tensor

from gatewise.errors import ArgumentError, FileError
from gatewise.files import show

ENDINGS = (".npy", ".npz")
INPUT_NAMES = ("x", "images", "inputs", "input_ids", "data", "arr_0")
LABEL_NAMES = ("y", "labels", "label", "targets", "arr_1")
SHARE_OF_MEMORY = 4  # the rows read may take a quarter of the machine's memory


def read_arrays(paths: list[Path], examples: int) -> tuple[Tensor, Tensor | None]:
    """Return the first rows of some arrays, and labels if an ``.npz`` file has them.

    Args:
        paths: The files. Their arrays differ only in their number of rows.
        examples: How many rows to read at most.

    Raises:
        ArgumentError: A file has no rows of numbers, or arrays differ.
        FileError: A file cannot be read.
    """
    tensors: list[Tensor] = []
    labels: list[Tensor] = []
    count = 0
    for path in paths:
        rows, classes = _read(path, examples - count)
        tensors.append(torch.from_numpy(np.array(rows)))
        if classes is not None:
            labels.append(torch.from_numpy(np.array(classes)).long())
        count += len(rows)
    if len({(tensor.shape[1:], tensor.dtype) for tensor in tensors}) > 1:
        pairs = zip(paths, tensors, strict=True)
        shapes = ", ".join(f"{path.name} {tuple(tensor.shape)}" for path, tensor in pairs)
        raise ArgumentError("data: the arrays differ in shape or type", got=shapes)
    whole = torch.cat(tensors)
    if whole.dtype == torch.float64:
        whole = whole.float()
    elif whole.dtype in (torch.int16, torch.int32):  # token numbers
        whole = whole.long()
    return whole, torch.cat(labels) if len(labels) == len(paths) else None


def _read(path: Path, count: int) -> tuple[Any, Any]:
    """Return rows of a file, and their labels or ``None``. Only these rows of ``.npy`` are read."""
    try:
        if path.suffix != ".npz":
            return _checked(path, np.load(path, mmap_mode="r", allow_pickle=False))[:count], None
        with zipfile.ZipFile(path) as archive:
            names = [name[:-4] for name in archive.namelist() if name.endswith(".npy")]
            name = _member(path, names)
            rows = _checked(path, _rows(archive, name, count))
            return rows, _labels(archive, names, name, len(rows))
    except OSError as problem:
        raise FileError(
            "data: the file cannot be read",
            got=show(path),
            allowed="an array of numbers",
        ) from problem
    except (ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as problem:
        if isinstance(problem, ArgumentError):
            raise
        raise ArgumentError(
            f"data: the file is not an array of numbers ({problem})", got=show(path)
        ) from None


def _rows(archive: zipfile.ZipFile, name: str, count: int) -> Any:
    """Return the first ``count`` rows of an array in an ``.npz`` file.

    Raises:
        ArgumentError: if they do not fit into memory.
        ValueError: if the array is not one, or has fewer numbers than it claims.
    """
    with archive.open(f"{name}.npy") as file:
        if npy.read_magic(file) != (1, 0):  # other versions have headers of any length
            raise ValueError(f"{name} is not of version 1.0 of the format")
        shape, by_columns, kind = npy.read_array_header_1_0(file)
        if kind.hasobject:
            raise ValueError(f"{name} holds pickled objects")
        if any(size < 0 for size in shape):
            raise ValueError(f"{name} has the shape {shape}")
        rows = min(count, *shape[:1]) if shape else 1
        wanted = math.prod(shape if by_columns else (rows, *shape[1:])) * kind.itemsize
        if wanted > _most_bytes():
            raise ArgumentError(
                "data: the array does not fit into memory",
                got=f"{name}: {wanted:,} bytes",
                allowed=f"{_most_bytes():,} bytes, a quarter of the memory",
                fix="save it as .npy, of which only the rows needed are read",
            )
        data = file.read(wanted)
    if len(data) < wanted:
        raise ValueError(f"{name} ends early")
    numbers = np.frombuffer(data, kind)
    if by_columns:
        return numbers.reshape(shape, order="F")[:rows]
    return numbers.reshape(rows, *shape[1:]) if shape else numbers.reshape(())


def _most_bytes() -> int:
    """Return how many bytes the rows may take."""
    if not hasattr(os, "sysconf"):
        return 1 << 31
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // SHARE_OF_MEMORY


def _member(path: Path, names: list[str]) -> str:
    """Return the name of the inputs in an ``.npz`` file: a usual name, or the only one."""
    known = [name for name in INPUT_NAMES if name in names]
    if known:
        return known[0]
    if len(names) == 1:
        return names[0]
    raise ArgumentError(
        "data: it is not clear which array of the file holds the inputs",
        got=f"{show(path)}: {', '.join(names[:10]) or 'no array'}",
        allowed=f"one array, or one of the names {', '.join(INPUT_NAMES)}",
        fix="save the inputs under the name x",
    )


def _labels(archive: zipfile.ZipFile, names: list[str], inputs: str, rows: int) -> Any:
    """Return the labels of the rows, if the file has integers under a usual name."""
    for label in LABEL_NAMES:
        if label in names and label != inputs:
            values = _rows(archive, label, rows)
            if values.ndim == 1 and values.dtype.kind in "iu" and len(values) >= rows:
                return values
    return None


def _checked(path: Path, array: Any) -> Any:
    if array.ndim < 2 or array.dtype.kind not in "fiub" or not len(array):
        raise ArgumentError(
            f"data: {path.name} must hold rows of inputs",
            got=f"{array.shape} of {array.dtype}",
            allowed="(n, ...) of numbers",
        )
    return array
