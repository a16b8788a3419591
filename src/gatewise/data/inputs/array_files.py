"""Arrays of numbers in ``.npy`` and ``.npz`` files. Pickled objects are refused."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.lib.npyio import NpzFile
from torch import Tensor

from gatewise.errors import ArgumentError, FileError
from gatewise.files import show

ENDINGS = (".npy", ".npz")
INPUT_NAMES = ("x", "images", "inputs", "input_ids", "data", "arr_0")
LABEL_NAMES = ("y", "labels", "label", "targets", "arr_1")
MOST_BYTES = 1 << 35  # of an array in a compressed file, which must be read whole


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
        raise ArgumentError("--data: the arrays differ in shape or type", got=shapes)
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
        # Opened here, because numpy leaves the file of a damaged archive open.
        with path.open("rb") as file, NpzFile(file) as archive:
            name = _member(path, archive)
            rows = _checked(path, archive[name])[:count]
            return rows, _labels(archive, name, len(rows))
    except OSError as problem:
        raise FileError(
            "--data: the file cannot be read",
            got=show(path),
            allowed="an array of numbers",
        ) from problem
    except (ValueError, EOFError, zipfile.BadZipFile) as problem:
        if isinstance(problem, ArgumentError):
            raise
        raise ArgumentError(
            f"--data: the file is not an array of numbers ({problem})", got=show(path)
        ) from None


def _member(path: Path, archive: Any) -> str:
    """Return the name of the inputs in an ``.npz`` file: a usual name, or the only one."""
    names = list(archive.files)
    for info in archive.zip.infolist():
        if info.file_size > MOST_BYTES:
            raise ArgumentError(
                "--data: an array is too large", got=f"{show(path)}: {info.filename}"
            )
    known = [name for name in INPUT_NAMES if name in names]
    if known:
        return known[0]
    if len(names) == 1:
        return names[0]
    raise ArgumentError(
        "--data: it is not clear which array of the file holds the inputs",
        got=f"{show(path)}: {', '.join(names[:10]) or 'no array'}",
        allowed=f"one array, or one of the names {', '.join(INPUT_NAMES)}",
        fix="save the inputs under the name x",
    )


def _labels(archive: Any, name: str, rows: int) -> Any:
    """Return the labels of the rows, if the file has integers under a usual name."""
    for label in LABEL_NAMES:
        if label in archive.files and label != name:
            values = archive[label]
            if values.ndim == 1 and values.dtype.kind in "iu" and len(values) >= rows:
                return values[:rows]
    return None


def _checked(path: Path, array: Any) -> Any:
    if array.ndim < 2 or array.dtype.kind not in "fiub" or not len(array):
        raise ArgumentError(
            f"--data: {path.name} must hold rows of inputs",
            got=f"{array.shape} of {array.dtype}",
            allowed="(n, ...) of numbers",
        )
    return array
