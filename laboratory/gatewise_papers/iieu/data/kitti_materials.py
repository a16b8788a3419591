"""KITTI-Materials: road scenes with a class of material for every pixel.

Note [Files of KITTI-Materials]. As published: ``KITTI_Materials/train/image_2/NAME.png`` and
``KITTI_Materials/train/semantic/NAME.png``, and for each of two splits a folder ``list_folder1`` or
``list_folder2`` with ``train.txt`` and ``val.txt``, which have one NAME in a line. A mask has one
number of 8 bits for each pixel: a class from 0 to 19, or 255 for pixels that do not count.
"""

from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from gatewise.data import (
    SEGMENTATION,
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
from gatewise_papers.iieu.data.labels import IGNORED

HOME = "KITTI_Materials"
CLASSES = 20
HEIGHT, WIDTH = 320, 1216
LARGEST_SIDE = 4096
SPLITS = (1, 2)
LONGEST_LIST = 1 << 24  # bytes
LONGEST_NAME = 200


@register_data_set(
    "kitti_materials",
    title="KITTI-Materials: materials in road scenes",
    home="https://github.com/kyotovision-public/RGB-Road-Scene-Material-Segmentation",
    fetch="fetch it from its publisher's page and unpack it as KITTI_Materials in the data folder",
    licence="see its publisher's page",
    sizes=None,
    published_sizes=(800, 200),
    classes=CLASSES,
    shape=(3, HEIGHT, WIDTH),
    task=SEGMENTATION,
)
def kitti_materials(
    *,
    folder: str | Path | None = None,
    split: int = 1,
    height: int = HEIGHT,
    width: int = WIDTH,
) -> DataSet:
    """The images of ``KITTI_Materials`` below ``folder``, decoded when they are read.

    Images and masks of another size are resized, masks to the nearest pixel.

    Args:
        folder: has the files, see Note [Files of KITTI-Materials].
        split: 1 or 2, as published.
        height: of the images in pixels.
        width: of the images in pixels.
    """
    if split not in SPLITS or type(split) is not int:
        raise ArgumentError("split must be one of the published ones", got=split, allowed="1, 2")
    for name, side in (("height", height), ("width", width)):
        if type(side) is not int or not 32 <= side <= LARGEST_SIDE:
            raise ArgumentError(
                f"{name} must be a number of pixels", got=side, allowed=f"32 .. {LARGEST_SIDE}"
            )
    home = data_folder(folder, fetch=find_set("kitti_materials").fetch) / HOME
    texts = []
    files: list[Path] = []
    parts = []
    for name in ("train", "val"):
        listing, names = _names(home / f"list_folder{split}" / f"{name}.txt")
        images = [home / "train" / "image_2" / f"{each}.png" for each in names]
        masks = [home / "train" / "semantic" / f"{each}.png" for each in names]
        _check_files(images + masks)
        texts.append(listing)
        files += images + masks
        parts.append(
            StreamedSplit(
                StreamedRows(images, partial(_image, size=(width, height)), (3, height, width)),
                StreamedRows(masks, partial(_mask, size=(width, height)), (height, width)),
            )
        )
    return DataSet(
        name="kitti_materials",
        train=parts[0],
        test=parts[1],
        classes=CLASSES,
        shape=(3, height, width),
        mean=MEAN,
        std=STD,
        digest=streamed_digest([*texts, f"{height} {width}".encode()], files),
    )


def _names(path: Path) -> tuple[bytes, list[str]]:
    """Return the content of a list, and the names in it."""
    if not path.is_file():
        raise FileError(
            "a list of KITTI-Materials is missing",
            got=show(path),
            fix=find_set("kitti_materials").fetch,
        )
    with explained("read", path):
        with path.open("rb") as file:
            content = file.read(LONGEST_LIST + 1)
        names = [line.strip() for line in content.decode().splitlines() if line.strip()]
    plain = all(len(name) <= LONGEST_NAME and Path(name).name == name for name in names)
    if not names or not plain or len(content) > LONGEST_LIST or len(set(names)) < len(names):
        raise DamagedFileError(
            f"{show(path)} is not a list of image names",
            got=f"{len(names)} lines, {len(set(names))} of them different",
            allowed="one different name in each line, without folders and endings",
            fix="fetch it again",
        )
    return content, names


def _check_files(paths: list[Path]) -> None:
    """Raise an error for the first file that is not there."""
    present = {folder: _listed(folder) for folder in {path.parent for path in paths}}
    for path in paths:
        if path.name not in present[path.parent]:
            raise FileError(
                "a file of KITTI-Materials is missing",
                got=show(path),
                fix=find_set("kitti_materials").fetch,
            )


def _listed(folder: Path) -> set[str]:
    """Return the names in a folder; none if it is not there."""
    if not folder.is_dir():
        return set()
    with explained("look at", folder):
        return {path.name for path in folder.iterdir()}


def _image(path: Path, size: tuple[int, int]) -> Tensor:
    """Return one image: (3, height, width), uint8."""
    image = decode_image(path)
    if image.size != size:
        from PIL import Image  # after the error that says how to install it

        image = image.resize(size, Image.Resampling.BILINEAR)
    return rgb_row(image)


def _mask(path: Path, size: tuple[int, int]) -> Tensor:
    """Return the classes of one image: (height, width), uint8."""
    mask = decode_image(path, classes=True)
    if mask.size != size:
        from PIL import Image  # after the error that says how to install it

        mask = mask.resize(size, Image.Resampling.NEAREST)
    pixels = torch.frombuffer(bytearray(mask.tobytes()), dtype=torch.uint8)
    wrong = pixels[(pixels >= CLASSES) & (pixels != IGNORED)]
    if len(wrong):
        raise DamagedFileError(
            f"{show(path)} is not a mask of KITTI-Materials",
            got=f"a pixel of class {int(wrong[0])}",
            allowed=f"0 .. {CLASSES - 1}, or {IGNORED}",
            fix="fetch it again",
        )
    return pixels.view(size[1], size[0])
