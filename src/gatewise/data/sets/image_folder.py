"""A folder of one's own images, one folder for each class, decoded once to squares of one size.

Note [Which files]

``FOLDER/train/CLASS/*`` and ``FOLDER/test/CLASS/*`` (or ``val`` for ``test``), the same classes in
both, numbered in the order of their names. Names that begin with a dot are passed over; anything
else that is no folder of a class and no image is an error. Four formats are read, because others
make the library behind them start programs or fetch things. There is no published digest, so the
decoded file is made anew when a name, a size or a time of change is another.
"""

import warnings
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor

from gatewise.data.catalogue import data_set, find_set
from gatewise.data.data_set import DataSet, Split
from gatewise.data.published import data_folder
from gatewise.data.sets.decoded_files import decoded
from gatewise.errors import ArgumentError, DamagedFileError, FileError, MissingExtraError
from gatewise.files import explained, show

FORMATS = {".jpg": "JPEG", ".jpeg": "JPEG", ".png": "PNG", ".ppm": "PPM", ".bmp": "BMP"}
EIGHT_BIT = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "LAB")
MOST_PIXELS = 100_000_000  # of one image: a small file can claim to have more than fit into memory
MOST_BYTES = 1 << 35  # of all images decoded
LARGEST_SIZE = 4096

Listing: TypeAlias = dict[str, list[Path]]  # class: images


@data_set(
    "image_folder",
    title="Your own images, one folder for each class",
    home="your own files: FOLDER/train/CLASS/IMAGE and FOLDER/test/CLASS/IMAGE",
    fetch="make train and test below the folder, and in them one folder for each class",
    licence="your own",
    sizes=None,
    classes=None,
    shape=None,
    choices=True,
)
def image_folder(*, folder: str | Path | None = None, size: int = 64) -> DataSet:
    """The images below ``folder``, scaled so that the shorter side is ``size`` and cut to the square in the centre."""
    if type(size) is not int or not 1 <= size <= LARGEST_SIZE:
        raise ArgumentError(
            "size is the side of the decoded images in pixels",
            got=size,
            allowed=f"1 .. {LARGEST_SIZE}",
        )
    home = data_folder(folder, fetch=find_set("image_folder").fetch)
    listings = [_listing(home, names) for names in (("train",), ("test", "val"))]
    classes = _classes(home, *listings)
    total = 3 * size * size * sum(len(images) for each in listings for images in each.values())
    if total > MOST_BYTES:
        raise ArgumentError(
            "the decoded images take too much room",
            got=f"{total} bytes",
            fix="choose a smaller size",
        )
    sources = [
        str(size),
        *(_mark(home, path) for each in listings for name in classes for path in each[name]),
    ]

    def decode() -> tuple[Split, Split]:
        train, test = (_split(each, classes, size) for each in listings)
        return train, test

    return decoded("image_folder", sources=sources, classes=len(classes), home=home, decode=decode)


def _listing(home: Path, names: tuple[str, ...]) -> Listing:
    """The images of each class in the first of these folders that is there."""
    with explained("look at", home):
        found = next((home / name for name in names if (home / name).is_dir()), None)
    if found is None:
        raise FileError(
            "a split of the image folder is missing",
            got=show(home / names[0]),
            fix=f"make {names[0]}/CLASS",
        )
    with explained("look at", found):
        folders = [each for each in sorted(found.iterdir()) if not each.name.startswith(".")]
        for each in folders:
            if not each.is_dir():
                raise FileError(
                    "here are folders of classes, and nothing else",
                    got=show(each),
                    fix="move it away",
                )
        return {each.name: _images(each) for each in folders}


def _images(folder: Path) -> list[Path]:
    found = [each for each in sorted(folder.iterdir()) if not each.name.startswith(".")]
    for each in found:
        if each.suffix.lower() not in FORMATS or not each.is_file():
            allowed = f"files that end in {', '.join(FORMATS)}"
            raise FileError(
                "a file is not an image that is read",
                got=show(each),
                allowed=allowed,
                fix="move it away",
            )
    if not found:
        raise FileError(
            "a class has no images", got=show(folder), fix="put images there, or remove the folder"
        )
    return found


def _classes(home: Path, train: Listing, test: Listing) -> list[str]:
    if train.keys() != test.keys() or len(train) < 2:
        got = f"{len(train)} to train, {len(test)} to test, {len(train.keys() & test.keys())} of them the same"
        raise FileError(
            f"{show(home)} has not two or more classes, the same in both splits", got=got
        )
    return list(train)


def _mark(home: Path, path: Path) -> str:
    """What is looked at to see whether a file is still the same."""
    with explained("look at", path):
        facts = path.stat()
    return f"{path.relative_to(home)} {facts.st_size} {facts.st_mtime_ns}"


def _split(listing: Listing, classes: list[str], size: int) -> Split:
    images = [_decode(path, size) for name in classes for path in listing[name]]
    labels = [label for label, name in enumerate(classes) for _ in listing[name]]
    return Split(torch.stack(images), torch.tensor(labels))


def _decode(path: Path, size: int) -> Tensor:
    """One image. Shape: ``(3, size, size)``, uint8."""
    try:
        from PIL import Image, ImageOps
    except ImportError as problem:
        fix = 'pip install "gatewise[images]"'
        raise MissingExtraError(
            "reading images needs pillow, which is not installed", fix=fix
        ) from problem
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about odd files that can be read all the same
            with (
                path.open("rb") as file,
                Image.open(file, formats=sorted(set(FORMATS.values()))) as image,
            ):
                if image.width * image.height > MOST_PIXELS:
                    raise ValueError(f"{image.width} by {image.height} pixels")
                if image.mode not in EIGHT_BIT:  # converting would cut every value above 255 off
                    raise ValueError(f"mode {image.mode}, not one of 8 bits a channel")
                whole = ImageOps.fit(image.convert("RGB"), (size, size), Image.Resampling.BILINEAR)
    except Exception as problem:  # pillow raises whatever its parsers stumble over
        raise DamagedFileError(
            f"{show(path)} cannot be read as an image",
            got=f"{problem!r}",
            fix="mend it, or move it away",
        ) from problem
    return (
        torch.frombuffer(bytearray(whole.tobytes()), dtype=torch.uint8)
        .view(size, size, 3)
        .permute(2, 0, 1)
    )
