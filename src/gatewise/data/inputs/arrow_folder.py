"""A Hugging Face data set in a folder: Arrow or Parquet files, read without running its code."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gatewise.data.inputs.image_files import HELD_OUT, decode_image, sample_places
from gatewise.errors import ArgumentError, FileError, MissingExtraError, install_extra
from gatewise.files import show

MARKS = ("dataset_dict.json", "dataset_info.json", "state.json")
ENDINGS = (".arrow", ".parquet")
IMAGE_NAMES = ("image", "img", "pixel_values", "x")
TOKEN_NAMES = ("input_ids",)
TEXT_NAMES = ("text", "content", "sentence")
LABEL_NAMES = ("label", "labels", "fine_label", "y")


def is_arrow_folder(folder: Path) -> bool:
    """Return whether a folder is a data set that Hugging Face's library wrote."""
    if any((folder / name).is_file() for name in MARKS):
        return True
    return bool(_tables(folder))


def read_arrow_folder(folder: Path, examples: int) -> tuple[str, Any, Tensor | None]:
    """Return a random sample of the rows of a data set.

    Args:
        folder: What ``save_to_disk`` wrote, or a folder of Parquet files. Of several splits, a
            held-out one is used.
        examples: How many rows to read at most.

    Returns:
        The kind, ``images``, ``tokens``, ``text`` or ``numbers``; the values: images of pillow, a
        list of lists of token numbers, a list of strings, or a tensor; and the labels or ``None``.

    Raises:
        FileError: A file cannot be read.
        ArgumentError: No column holds inputs.
    """
    try:
        import pyarrow as arrow
    except ImportError as problem:
        raise MissingExtraError(
            "reading a Hugging Face data set needs pyarrow, which is not installed",
            fix=install_extra("tables"),
        ) from problem
    home = _split(folder)
    try:
        table = _table(home)
        names = table.column_names
        chosen = table.take(sorted(sample_places(len(table), examples)))
        labels = _labels(chosen, names)
        for kind, known in (
            ("images", IMAGE_NAMES),
            ("tokens", TOKEN_NAMES),
            ("text", TEXT_NAMES),
        ):
            name = next((name for name in known if name in names), None)
            if name is not None:
                return _values(kind, chosen.column(name).to_pylist(), name, labels)
    except (OSError, arrow.ArrowException) as problem:
        raise FileError(
            "data: the data set cannot be read", got=f"{show(home)}: {problem}"
        ) from problem
    raise ArgumentError(
        "data: no column of the data set holds inputs",
        got=", ".join(names),
        allowed=", ".join((*IMAGE_NAMES, *TOKEN_NAMES, *TEXT_NAMES)),
        fix="save the inputs as an .npy file",
    )


def _split(folder: Path) -> Path:
    """Return the folder of one split: a held-out one if there is one."""
    listed = folder / "dataset_dict.json"
    if not listed.is_file():
        return folder
    try:
        names = json.loads(listed.read_text("utf-8"))["splits"]
        for name in (*HELD_OUT, *names):
            # A name that is not a plain folder name could lead elsewhere.
            if name in names and Path(name).name == name:
                return folder / name
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as problem:
        raise FileError(
            "data: the data set cannot be read", got=f"{show(listed)}: {problem}"
        ) from problem
    raise FileError("data: the data set has no split", got=show(folder))


def _tables(folder: Path) -> list[Path]:
    """Return the Arrow or Parquet files of a folder, those of a held-out split if it is named."""
    for home in (folder, folder / "data"):
        paths = sorted(path for path in home.glob("*") if path.suffix in ENDINGS)
        held_out = [path for path in paths if path.name.startswith(HELD_OUT)]
        if paths:
            return held_out or paths
    return []


def _table(folder: Path) -> Any:
    """Return all rows of a split. Arrow files are mapped, not read."""
    import pyarrow as arrow
    from pyarrow import parquet

    paths = _tables(folder)
    if not paths:
        raise FileError("data: the data set has no file of rows", got=show(folder))
    tables = []
    for path in paths:
        if path.suffix == ".parquet":
            tables.append(parquet.read_table(path))
        else:
            tables.append(arrow.ipc.open_stream(arrow.memory_map(str(path))).read_all())
    return arrow.concat_tables(tables)


def _labels(table: Any, names: Sequence[str]) -> Tensor | None:
    for name in LABEL_NAMES:
        if name in names:
            values = table.column(name).to_pylist()
            if all(isinstance(value, int) for value in values):
                return torch.tensor(values)
    return None


def _values(
    kind: str,
    values: list[Any],
    name: str,
    labels: Tensor | None,
) -> tuple[str, Any, Tensor | None]:
    """Return the values of a column in the form that its kind has."""
    if not values:
        raise ArgumentError("data: the data set has no rows", got="0 rows")
    if kind != "images":
        return kind, values, labels
    if not isinstance(values[0], dict):
        return "numbers", torch.tensor(values), labels
    images = []
    for place, value in enumerate(values):
        data = value.get("bytes")
        if not isinstance(data, bytes):
            raise ArgumentError(
                "data: the images are not in the data set, only their paths",
                got=f"row {place} of {name}",
                fix="name the folder of the images instead",
            )
        images.append(decode_image(data, f"row {place} of {name}"))
    return kind, images, labels
