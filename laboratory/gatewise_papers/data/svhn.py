"""SVHN: 73,257 digits of house numbers to train on and 26,032 to test on, 32 by 32 in colour."""

from io import BytesIO
from pathlib import Path

import torch

from gatewise.data import (
    DataSet,
    Form,
    Published,
    Split,
    data_folder,
    find_set,
    read_published,
    register_data_set,
)
from gatewise.data.sets import decoded
from gatewise.errors import DamagedFileError

HOME = "http://ufldl.stanford.edu/housenumbers/"
FILES = (
    Published(
        "svhn/train_32x32.mat",
        Form("435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8", 182_040_794),
    ),
    Published(
        "svhn/test_32x32.mat",
        Form("cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b", 64_275_384),
    ),
)
SIDE = 32
CLASSES = 10


@register_data_set(
    "svhn",
    title="SVHN, digits of house numbers",
    home=HOME,
    fetch=f"get train_32x32.mat and test_32x32.mat from {HOME} and put them into svhn",
    licence="for non-commercial use (Netzer et al., 2011)",
    files=FILES,
    sizes=(73_257, 26_032),
    classes=CLASSES,
    shape=(3, SIDE, SIDE),
    choices=True,
)
def svhn(*, folder: str | Path | None = None) -> DataSet:
    """The cropped digits of SVHN, without the extra set.

    The digit 0, published as class 10, is class 0 here.
    """
    fetch = find_set("svhn").fetch
    home = data_folder(folder, fetch=fetch)

    def decode() -> tuple[Split, Split]:
        train, test = (
            parse_matlab(file.path, read_published(home, file, fetch=fetch)) for file in FILES
        )
        return train, test

    sources = [file.forms[file.name].sha256 for file in FILES]
    return decoded("svhn", sources=sources, classes=CLASSES, home=home, decode=decode)


def parse_matlab(name: str, data: bytes) -> Split:
    """Return images ``X`` and labels ``y`` of a MATLAB file of version 5, both of bytes.

    The reader of scipy for this version only makes arrays and plain containers of them; functions
    and objects in a file become bytes. It only gets files whose digest is right, and is asked for
    two variables.

    Args:
        name: of the file, for messages.
        data: the bytes of the file.
    """
    from scipy.io import loadmat

    try:
        variables = loadmat(BytesIO(data), variable_names=("X", "y"))
        images = torch.from_numpy(variables["X"])
        labels = torch.from_numpy(variables["y"]).flatten()
    except Exception as problem:  # the parser of scipy may raise anything
        raise DamagedFileError(
            f"{name} is not a MATLAB file of version 5", got=f"{problem!r}"
        ) from problem
    bytes_only = images.dtype == labels.dtype == torch.uint8
    if not bytes_only or images.shape[:3] != (SIDE, SIDE, 3):
        raise DamagedFileError(
            f"{name} holds something else",
            got=f"X {images.dtype} {tuple(images.shape)}, y {labels.dtype}",
            allowed="X uint8 (32, 32, 3, n) and y uint8",
        )
    good = images.shape[3:] == labels.shape and labels.numel() > 0
    if not good or labels.min() < 1 or labels.max() > CLASSES:
        raise DamagedFileError(
            f"{name} has not one label from 1 to 10 for each image",
            got=f"X {tuple(images.shape)}, y {tuple(labels.shape)}",
        )
    # (height, width, channels, n) to (n, channels, height, width); class 10 is the digit 0.
    return Split(images.permute(3, 2, 0, 1).contiguous(), labels.long() % CLASSES)
