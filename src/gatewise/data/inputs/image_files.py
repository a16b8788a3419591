"""Images in any folder: flat or nested, with or without classes."""

import io
import os
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gatewise.errors import DamagedFileError, FileError, MissingExtraError, install_extra
from gatewise.files import explained, show

# Formats by the end of the file name.
FORMATS = {".jpg": "JPEG", ".jpeg": "JPEG", ".png": "PNG", ".ppm": "PPM", ".bmp": "BMP"}
# Modes of pillow with 8 bits per channel or fewer.
EIGHT_BIT = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "LAB")
MOST_PIXELS = 100_000_000  # of one image: a small file can claim to have more than fit into memory
MOST_FILES = 2_000_000
HELD_OUT = ("test", "val", "valid", "validation")  # splits that are preferred to all others


@dataclass(frozen=True)
class ImageFiles:
    """The images below a folder.

    Attributes:
        paths: The images, sorted by name.
        labels: The class of each image, by the folder that it is in; ``None`` without classes.
        classes: The names of the classes.
        skipped: The number of other files.
        split: The name of the split that was used, e.g. ``test``; empty if there are none.
    """

    paths: tuple[Path, ...]
    labels: tuple[int, ...] | None
    classes: tuple[str, ...]
    skipped: int
    split: str


def find_images(folder: str | Path) -> ImageFiles:
    """Return all images below ``folder``, however deep.

    If the folder has a split such as ``test`` or ``val``, only that is used. The folders directly
    below it are classes, if there are two or more and every image is in one of them. Hidden files
    and links to other folders are left out.

    Args:
        folder: The folder.

    Raises:
        FileError: There is no image.
    """
    home = Path(folder)
    with explained("look at", home):
        split = next((name for name in HELD_OUT if (home / name).is_dir()), "")
        paths: list[Path] = []
        others: Counter[str] = Counter()
        for path in _files(home / split if split else home):
            if path.suffix.lower() in FORMATS:
                paths.append(path)
            else:
                others[path.suffix.lower() or path.name] += 1
    if not paths:
        kinds = ", ".join(name for name, _ in others.most_common(5))
        raise FileError(
            "there is no image below the folder",
            got=f"{show(home)} ({sum(others.values()):,} other files: {kinds or 'none'})",
            allowed=f"files that end in {', '.join(FORMATS)}",
        )
    paths.sort()
    top = home / split
    first = [path.relative_to(top).parts[0] for path in paths if path.parent != top]
    classes = tuple(sorted(set(first)))
    labels = None
    if len(first) == len(paths) and len(classes) > 1:
        labels = tuple(classes.index(name) for name in first)
    return ImageFiles(tuple(paths), labels, classes if labels else (), sum(others.values()), split)


def _files(folder: Path) -> list[Path]:
    """Return all files below a folder that are not hidden. Links to folders are not followed."""
    files: list[Path] = []
    for home, names, here in os.walk(folder):
        names[:] = sorted(name for name in names if not name.startswith("."))
        files += [Path(home) / name for name in here if not name.startswith(".")]
        if len(files) > MOST_FILES:
            raise FileError(
                "the folder has too many files",
                got=show(folder),
                allowed=f"{MOST_FILES:,}",
            )
    return files


def sample_places(count: int, wanted: int) -> list[int]:
    """Return ``wanted`` of ``count`` places at random, the same on every call.

    The first ones may all be of one class.
    """
    return torch.randperm(count, generator=torch.Generator().manual_seed(0))[:wanted].tolist()


def decode_image(source: Path | bytes, name: str = "", *, classes: bool = False) -> Any:
    """Return one image of pillow, in red, green and blue.

    Args:
        source: The path of a file, or its bytes.
        name: What to call the bytes in messages.
        classes: Whether its pixels are numbers of classes, which are not converted to colours.

    Raises:
        DamagedFileError: The file cannot be read.
    """
    try:
        from PIL import Image
    except ImportError as problem:
        raise MissingExtraError(
            "reading images needs pillow, which is not installed",
            fix=install_extra("images"),
        ) from problem
    try:
        data = source if isinstance(source, bytes) else source.read_bytes()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about odd files that can be read
            # Other formats make pillow start programs or fetch things.
            with Image.open(io.BytesIO(data), formats=sorted(set(FORMATS.values()))) as image:
                if image.width * image.height > MOST_PIXELS:
                    raise ValueError(f"{image.width} by {image.height} pixels")
                if image.mode not in EIGHT_BIT:  # a conversion would cut off values above 255
                    raise ValueError(f"mode {image.mode}, not one of 8 bits a channel")
                if classes and image.mode not in ("L", "P"):
                    raise ValueError(f"mode {image.mode}, not one number of 8 bits for each pixel")
                return image.copy() if classes else image.convert("RGB")
    except Exception as problem:  # the parsers of pillow may raise anything
        path = show(source) if isinstance(source, Path) else name
        raise DamagedFileError(
            f"{path} cannot be read as an image",
            got=f"{problem!r}",
            fix="repair this file, or move it elsewhere",
        ) from problem
