"""CIFAR-10 and CIFAR-100: 50,000 images to train on, 10,000 to test on, 32 by 32 in colour.

They are read from the batches for Python.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy
import torch

from gatewise.checks import check_flag
from gatewise.data.catalogue import find_set, register_data_set
from gatewise.data.data_set import DataSet, Split
from gatewise.data.published import Form, Published, data_folder, read_other, read_published
from gatewise.data.sets.cifar_batches import read_batch
from gatewise.data.sets.decoded_files import decoded
from gatewise.errors import DamagedFileError
from gatewise.files import digest

HOME = "https://www.cs.toronto.edu/~kriz/cifar.html"
LICENCE = "none declared by its authors; used for research with citation (Krizhevsky, 2009)"
SIZES = (50_000, 10_000)
SHAPE = (3, 32, 32)
VALUES = 3 * 32 * 32  # of one image
FILES_10 = (
    Published(
        "cifar-10-batches-py/data_batch_1",
        Form("54636561a3ce25bd3e19253c6b0d8538147b0ae398331ac4a2d86c6d987368cd", 31_035_704),
    ),
    Published(
        "cifar-10-batches-py/data_batch_2",
        Form("766b2cef9fbc745cf056b3152224f7cf77163b330ea9a15f9392beb8b89bc5a8", 31_035_320),
    ),
    Published(
        "cifar-10-batches-py/data_batch_3",
        Form("0f00d98ebfb30b3ec0ad19f9756dc2630b89003e10525f5e148445e82aa6a1f9", 31_035_999),
    ),
    Published(
        "cifar-10-batches-py/data_batch_4",
        Form("3f7bb240661948b8f4d53e36ec720d8306f5668bd0071dcb4e6c947f78e9682b", 31_035_696),
    ),
    Published(
        "cifar-10-batches-py/data_batch_5",
        Form("d91802434d8376bbaeeadf58a737e3a1b12ac839077e931237e0dcd43adcb154", 31_035_623),
    ),
    Published(
        "cifar-10-batches-py/test_batch",
        Form("f53d8d457504f7cff4ea9e021afcf0e0ad8e24a91f3fc42091b8adef61157831", 31_035_526),
    ),
)
FILES_100 = (
    Published(
        "cifar-100-python/train",
        Form("735e79b04f092ca3d2e6d07f368c0a7d70d48c48d28865950cc24454cf45129b", 155_249_918),
    ),
    Published(
        "cifar-100-python/test",
        Form("4b67687d9933c4db8f0831104447f15b93774f4f464bd0516f0f0f2ac83b7864"),
    ),
)
AGAIN = "fetch the archive again, and unpack it"


@register_data_set(
    "cifar10",
    title="CIFAR-10, photographs of ten kinds of things",
    home=HOME,
    fetch=f"get cifar-10-python.tar.gz from {HOME} and unpack it in the data folder",
    licence=LICENCE,
    files=FILES_10,
    sizes=SIZES,
    classes=10,
    shape=SHAPE,
    choices=True,
)
def cifar10(*, folder: str | Path | None = None, published: bool = True) -> DataSet:
    """CIFAR-10.

    Args:
        folder: the data folder; the one that ``GATEWISE_DATA`` names unless given.
        published: ``False`` reads other files of the same layout, such as a subset; the name of the
            data set says so.
    """
    return _load("cifar10", b"labels", 10, folder, published)


@register_data_set(
    "cifar100",
    title="CIFAR-100, photographs of a hundred kinds of things",
    home=HOME,
    fetch=f"get cifar-100-python.tar.gz from {HOME} and unpack it in the data folder",
    licence=LICENCE,
    files=FILES_100,
    sizes=SIZES,
    classes=100,
    shape=SHAPE,
    choices=True,
)
def cifar100(
    *, folder: str | Path | None = None, coarse: bool = False, published: bool = True
) -> DataSet:
    """CIFAR-100.

    Args:
        folder: the data folder; the one that ``GATEWISE_DATA`` names unless given.
        coarse: whether labels are the 20 superclasses.
        published: ``False`` reads other files of the same layout, as for CIFAR-10.
    """
    check_flag("data", "coarse", coarse)
    if coarse:
        return _load("cifar100", b"coarse_labels", 20, folder, published)
    return _load("cifar100", b"fine_labels", 100, folder, published)


def _load(
    name: str,
    key: bytes,
    classes: int,
    folder: str | Path | None,
    published: bool,
) -> DataSet:
    """Return the set with the labels called ``key``, from the published or from other files."""
    check_flag("data", "published", published)
    source = find_set(name)
    home = data_folder(folder, fetch=source.fetch)
    paths = [file.path for file in source.files]
    if published:
        digests = [file.forms[file.name].sha256 for file in source.files]
        contents: Iterable[bytes] = (
            read_published(home, file, fetch=source.fetch) for file in source.files
        )
    else:
        contents = [read_other(home, file, fetch=source.fetch) for file in source.files]
        digests = [digest(content) for content in contents]
    data = decoded(
        name,
        sources=[key.decode(), *digests],
        classes=classes,
        home=home,
        decode=lambda: _splits(zip(paths, contents, strict=True), key, classes),
    )
    return data if published else replace(data, name=f"{name} (other files)")


def _splits(files: Iterable[tuple[str, bytes]], key: bytes, classes: int) -> tuple[Split, Split]:
    """Return the training split, of all files but the last, and the test split.

    Args:
        files: names, for messages, and contents.
        key: of the labels.
        classes: number of classes.
    """
    *training, test = (_split(name, data, key, classes) for name, data in files)
    images = torch.cat([batch.images for batch in training])
    labels = torch.cat([batch.labels for batch in training])
    return Split(images, labels), test


def _split(name: str, data: bytes, key: bytes, classes: int) -> Split:
    try:
        batch = read_batch(data)
    except ValueError as problem:
        raise DamagedFileError(
            f"{name} is not a batch of CIFAR",
            got=str(problem),
            fix=AGAIN,
        ) from problem
    images = batch.get(b"data")
    labels = batch.get(key)
    if not isinstance(images, numpy.ndarray) or images.shape[1:] != (VALUES,):
        raise DamagedFileError(
            f"{name} has no images",
            allowed=f"an array 'data' of bytes, (n, {VALUES})",
            fix=AGAIN,
        )
    good = isinstance(labels, list) and len(labels) == len(images)
    if not good or not all(type(label) is int and 0 <= label < classes for label in labels or ()):
        raise DamagedFileError(
            f"{name} has not one label for each image",
            allowed=f"{len(images)} classes of 0 .. {classes - 1} called {key.decode()!r}",
            fix=AGAIN,
        )
    return Split(torch.tensor(images).view(-1, *SHAPE), torch.tensor(labels))
