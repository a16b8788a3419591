"""The user's images, one folder for each class, scaled and cut to squares of one size.

Note [Which files]. ``FOLDER/train/CLASS/*`` and ``FOLDER/test/CLASS/*`` (or ``val`` for ``test``),
with the same classes in both, numbered in the order of their names. Names that begin with a dot are
skipped; anything else that is neither a folder of a class nor an image is an error. Four formats
are read, because others make the image library start programs or fetch things. There is no
published digest, so the decoded file is made again when a name, a size or a time of change differs.

Note [Streamed folders]. Images that would take more than 4 GiB are not kept decoded: each is read
from its file whenever a batch needs it. Such a set is normalised by the mean and the standard
deviation of ImageNet, since its own would need all images to be read. Its digest is over the names
and sizes of the files. A file that is no image is found when it is read.
"""

from functools import partial
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor

from gatewise.data.catalogue import find_set, register_data_set
from gatewise.data.data_set import DataSet, Split
from gatewise.data.inputs import FORMATS, decode_image
from gatewise.data.published import data_folder
from gatewise.data.sets.decoded_files import decoded
from gatewise.data.streams import MEAN, STD, StreamedRows, StreamedSplit, streamed_digest
from gatewise.errors import ArgumentError, FileError
from gatewise.files import explained, show

MOST_BYTES = 1 << 35  # of all images decoded
MOST_IN_MEMORY = 1 << 32  # the same, where the user does not say
LARGEST_SIZE = 4096

Listing: TypeAlias = dict[str, list[Path]]  # class: images


@register_data_set(
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
def image_folder(
    *, folder: str | Path | None = None, size: int = 64, stream: bool | None = None
) -> DataSet:
    """The images below ``folder``, scaled and cut to squares.

    Args:
        folder: has the images, see Note [Which files].
        size: of the squares, in pixels. The shorter side of an image is scaled to it.
        stream: whether to read images from their files in every epoch; see Note [Streamed folders].
            Default: if all of them decoded take more than 4 GiB.
    """
    if stream not in (None, True, False):
        raise ArgumentError("stream must be True or False", got=stream, allowed="True, False, None")
    if type(size) is not int or not 1 <= size <= LARGEST_SIZE:
        raise ArgumentError(
            "size must be the side of the decoded images in pixels",
            got=size,
            allowed=f"1 .. {LARGEST_SIZE}",
        )
    home = data_folder(folder, fetch=find_set("image_folder").fetch)
    listings = [_listing(home, names) for names in (("train",), ("test", "val"))]
    classes = _classes(home, *listings)
    count = sum(len(images) for listing in listings for images in listing.values())
    total = 3 * size * size * count
    if stream or (stream is None and total > MOST_IN_MEMORY):
        return _streamed(home, listings, classes, size)
    if total > MOST_BYTES:
        raise ArgumentError(
            "the decoded images take too much memory",
            got=f"{total} bytes",
            allowed=f"{MOST_BYTES} bytes",
            fix="a smaller size, or stream=True",
        )
    sources = [str(size)]
    for listing in listings:
        for name in classes:
            sources += [_mark(home, path) for path in listing[name]]

    def decode() -> tuple[Split, Split]:
        train, test = (_split(listing, classes, size) for listing in listings)
        return train, test

    return decoded("image_folder", sources=sources, classes=len(classes), home=home, decode=decode)


def _streamed(home: Path, listings: list[Listing], classes: list[str], size: int) -> DataSet:
    """Return the set without decoding an image. See Note [Streamed folders]."""
    splits = []
    files: list[Path] = []
    for listing in listings:
        paths = [path for name in classes for path in listing[name]]
        labels = [label for label, name in enumerate(classes) for _ in listing[name]]
        rows = StreamedRows(paths, partial(_decode, size=size), (3, size, size))
        splits.append(StreamedSplit(rows, torch.tensor(labels)))
        files += paths
    names = "\n".join(str(path.relative_to(home)) for path in files)
    return DataSet(
        name="image_folder",
        train=splits[0],
        test=splits[1],
        classes=len(classes),
        shape=(3, size, size),
        mean=MEAN,
        std=STD,
        digest=streamed_digest([str(size).encode(), names.encode()], files),
    )


def _listing(home: Path, names: tuple[str, ...]) -> Listing:
    """Return the images of each class in the first of these folders that exists."""
    with explained("look at", home):
        folder = next((home / name for name in names if (home / name).is_dir()), None)
    if folder is None:
        raise FileError(
            "a split of the image folder is missing",
            got=show(home / names[0]),
            fix=f"create {names[0]}/CLASS",
        )
    listing: Listing = {}
    with explained("look at", folder):
        for path in _visible(folder):
            if not path.is_dir():
                raise FileError(
                    "a split must contain only folders of classes",
                    got=show(path),
                    fix="move this file elsewhere",
                )
            listing[path.name] = _images(path)
    return listing


def _visible(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.iterdir()) if not path.name.startswith(".")]


def _images(folder: Path) -> list[Path]:
    images = _visible(folder)
    for path in images:
        if path.suffix.lower() not in FORMATS or not path.is_file():
            raise FileError(
                "a file is not an image of a known format",
                got=show(path),
                allowed=f"files that end in {', '.join(FORMATS)}",
                fix="move this file elsewhere",
            )
    if not images:
        raise FileError(
            "a class has no images",
            got=show(folder),
            fix="put images there, or remove the folder",
        )
    return images


def _classes(home: Path, train: Listing, test: Listing) -> list[str]:
    if train.keys() != test.keys() or len(train) < 2:
        common = len(train.keys() & test.keys())
        raise FileError(
            f"{show(home)} must have two or more classes, the same in both splits",
            got=f"{len(train)} to train, {len(test)} to test, {common} of them the same",
        )
    return list(train)


def _mark(home: Path, path: Path) -> str:
    """Return what tells whether a file is still the same: its name, size and time of change."""
    with explained("look at", path):
        facts = path.stat()
    return f"{path.relative_to(home)} {facts.st_size} {facts.st_mtime_ns}"


def _split(listing: Listing, classes: list[str], size: int) -> Split:
    images = []
    labels = []
    for label, name in enumerate(classes):
        for path in listing[name]:
            images.append(_decode(path, size))
            labels.append(label)
    return Split(torch.stack(images), torch.tensor(labels))


def _decode(path: Path, size: int) -> Tensor:
    """Return one image: (3, size, size), uint8."""
    image = decode_image(path)
    from PIL import Image, ImageOps  # after the error that says how to install it

    whole = ImageOps.fit(image, (size, size), Image.Resampling.BILINEAR)
    pixels = torch.frombuffer(bytearray(whole.tobytes()), dtype=torch.uint8)
    return pixels.view(size, size, 3).permute(2, 0, 1)
