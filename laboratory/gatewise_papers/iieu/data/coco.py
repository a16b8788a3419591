"""COCO: photographs with boxes of 80 classes.

Note [Files of COCO]. As published in 2017: ``annotations/instances_train2017.json`` and
``annotations/instances_val2017.json``, with the images in ``train2017`` and ``val2017``. Any other
set in this layout can be read too. Classes are numbered in the order of their identifiers. As is
usual, training images without an object are left out, and so are boxes with a side below one pixel.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gatewise.data import (
    DETECTION,
    DataSet,
    StreamedSplit,
    data_folder,
    decode_image,
    find_set,
    register_data_set,
)
from gatewise.data.streams import MEAN, STD, StreamedRows, rgb_row, streamed_digest
from gatewise.errors import ArgumentError, DamagedFileError, FileError
from gatewise.files import explained, show
from gatewise_papers.iieu.data.labels import fill_up

SIZE = 1344
SIZES = (64, 4096)
SMALLEST_SIDE = 1  # of a box that counts


@dataclass
class ImageEntry:
    """An image of an annotation file.

    Attributes:
        file: its name.
        width: in pixels.
        height: in pixels.
        objects: boxes (left, top, width, height), classes, areas and crowd marks.
    """

    file: str
    width: int
    height: int
    objects: list[tuple[list[float], int, float, int]] = field(default_factory=list)


@register_data_set(
    "coco_detection",
    title="COCO 2017: photographs with boxes",
    home="https://cocodataset.org",
    fetch="fetch train2017, val2017 and the annotations from cocodataset.org and unpack them as "
    "folders of these names in the data folder",
    licence="see its publisher's page: annotations CC BY 4.0, images by their owners",
    sizes=None,
    published_sizes=(117_266, 5_000),
    classes=80,
    shape=(3, SIZE, SIZE),
    task=DETECTION,
)
def coco_detection(
    *, folder: str | Path | None = None, year: int = 2017, size: int = SIZE
) -> DataSet:
    """The images of COCO below ``folder``, decoded when they are read.

    The longer side of an image is scaled to ``size``, and what is missing to a square is black, on
    the right or below.

    Args:
        folder: has the files, see Note [Files of COCO].
        year: in the names of the files.
        size: of the squares in pixels.
    """
    if type(size) is not int or not SIZES[0] <= size <= SIZES[1]:
        raise ArgumentError(
            "size must be the side of the squares in pixels",
            got=size,
            allowed=f"{SIZES[0]} .. {SIZES[1]}",
        )
    if type(year) is not int:
        raise ArgumentError("year must be a number", got=year, allowed="such as 2017")
    home = data_folder(folder, fetch=find_set("coco_detection").fetch)
    texts = []
    files: list[Path] = []
    parts = []
    names: list[list[str]] = []
    for part in ("train", "val"):
        path = home / "annotations" / f"instances_{part}{year}.json"
        content = _read(path)
        entries, classes = _entries(path, content)
        if part == "train":
            entries = [entry for entry in entries if entry.objects]
        paths = _image_paths(home / f"{part}{year}", entries)
        texts.append(content)
        files += paths
        names.append(classes)
        scales = [_scale(entry.width, entry.height, size) for entry in entries]
        rows = [_rows(entry, scale) for entry, scale in zip(entries, scales, strict=True)]
        images = StreamedRows(paths, partial(_square, size=size), (3, size, size))
        parts.append(StreamedSplit(images, fill_up(rows, scales)))
    if names[0] != names[1]:
        raise DamagedFileError(
            "the annotations to train and to test have different classes",
            got=f"{len(names[0])} and {len(names[1])} classes",
            fix="fetch both files again",
        )
    return DataSet(
        name="coco_detection",
        train=parts[0],
        test=parts[1],
        classes=len(names[0]),
        shape=(3, size, size),
        mean=MEAN,
        std=STD,
        digest=streamed_digest([*texts, str(size).encode()], files),
    )


def _read(path: Path) -> bytes:
    """Return the content of an annotation file."""
    if not path.is_file():
        raise FileError(
            "a file of annotations is missing",
            got=show(path),
            fix=find_set("coco_detection").fetch,
        )
    with explained("read", path):
        return path.read_bytes()


def _entries(path: Path, content: bytes) -> tuple[list[ImageEntry], list[str]]:
    """Return the images with their objects, and the names of the classes."""
    try:
        table = json.loads(content)
        classes = {}
        for each in sorted(table["categories"], key=lambda each: int(each["id"])):
            classes[int(each["id"])] = (len(classes), str(each["name"]))
        images = {}
        for each in table["images"]:
            entry = ImageEntry(str(each["file_name"]), int(each["width"]), int(each["height"]))
            _check_entry(entry)
            images[int(each["id"])] = entry
        for each in table["annotations"]:
            _add(images[int(each["image_id"])], each, classes[int(each["category_id"])][0])
        if not images or not classes:
            raise ValueError("no images or no classes")
    except (ValueError, KeyError, TypeError, RecursionError) as problem:
        raise DamagedFileError(
            f"{show(path)} is not a file of annotations",
            got=f"{type(problem).__name__}: {problem}"[:200],
            allowed="images, categories and annotations as COCO writes them",
            fix="fetch it again",
        ) from problem
    return list(images.values()), [name for _, name in classes.values()]


def _check_entry(entry: ImageEntry) -> None:
    """Raise unless an image has a plain name and a size."""
    if Path(entry.file).name != entry.file or min(entry.width, entry.height) < 1:
        raise ValueError(f"image {entry.file!r} of {entry.width} by {entry.height} pixels")


def _add(entry: ImageEntry, annotation: Mapping[str, Any], kind: int) -> None:
    """Add an object to its image, unless its box is too small inside the image."""
    left, top, width, height = (float(number) for number in annotation["bbox"])
    right, bottom = min(left + width, entry.width), min(top + height, entry.height)
    left, top = max(left, 0.0), max(top, 0.0)
    if not min(right - left, bottom - top) >= SMALLEST_SIDE:
        return
    crowd = int(annotation.get("iscrowd", 0))
    area = float(annotation["area"])
    entry.objects.append(([left, top, right, bottom], kind, area, crowd))


def _rows(entry: ImageEntry, scale: float) -> list[Sequence[float]]:
    """Return the rows of an image; see Note [Labels of boxes]."""
    rows = []
    for box, kind, area, crowd in entry.objects:
        rows.append((*(scale * edge for edge in box), kind, area, crowd, scale))
    return rows


def _image_paths(folder: Path, entries: Sequence[ImageEntry]) -> list[Path]:
    """Return the files of the images; raise an error for the first that is not there."""
    present: set[str] = set()
    if folder.is_dir():
        with explained("look at", folder):
            present = {path.name for path in folder.iterdir()}
    for entry in entries:
        if entry.file not in present:
            raise FileError(
                "an image of the annotations is missing",
                got=show(folder / entry.file),
                fix=find_set("coco_detection").fetch,
            )
    return [folder / entry.file for entry in entries]


def _scale(width: int, height: int, size: int) -> float:
    """Return the factor by which an image is scaled."""
    return size / max(width, height)


def _square(path: Path, size: int) -> Tensor:
    """Return one image, scaled and filled up with black: (3, size, size), uint8."""
    image = decode_image(path)
    from PIL import Image  # after the error that says how to install it

    scale = _scale(image.width, image.height, size)
    sides = [max(1, round(scale * side)) for side in image.size]
    scaled = rgb_row(image.resize((sides[0], sides[1]), Image.Resampling.BILINEAR))
    square = torch.zeros(3, size, size, dtype=torch.uint8)
    square[:, : sides[1], : sides[0]] = scaled
    return square
