"""MNIST and Fashion-MNIST: 60,000 images to train on, 10,000 to test on, 28 by 28 grey values.

They are read from idx files.
"""

from pathlib import Path
from typing import Literal, TypeAlias

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
from gatewise.errors import DamagedFileError, unknown_name
from gatewise_papers.data.idx import parse_idx

Files: TypeAlias = dict[tuple[str, str], Published]

FILES: Files = {
    ("train", "images"): Published(
        "MNIST/raw/train-images-idx3-ubyte",
        Form("ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db", 47_040_016),
        Form("440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609", 9_912_422),
    ),
    ("train", "labels"): Published(
        "MNIST/raw/train-labels-idx1-ubyte",
        Form("65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5", 60_008),
        Form("3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c", 28_881),
    ),
    ("test", "images"): Published(
        "MNIST/raw/t10k-images-idx3-ubyte",
        Form("0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7", 7_840_016),
        Form("8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6", 1_648_877),
    ),
    ("test", "labels"): Published(
        "MNIST/raw/t10k-labels-idx1-ubyte",
        Form("ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2", 10_008),
        Form("f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6", 4_542),
    ),
}
FASHION_FILES: Files = {
    ("train", "images"): Published(
        "FashionMNIST/raw/train-images-idx3-ubyte",
        packed=Form("3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84", 26_421_880),
    ),
    ("train", "labels"): Published(
        "FashionMNIST/raw/train-labels-idx1-ubyte",
        packed=Form("a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
    ),
    ("test", "images"): Published(
        "FashionMNIST/raw/t10k-images-idx3-ubyte",
        packed=Form("346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073", 4_422_102),
    ),
    ("test", "labels"): Published(
        "FashionMNIST/raw/t10k-labels-idx1-ubyte",
        packed=Form("67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5", 5_148),
    ),
}
SIZES = (60_000, 10_000)
CLASSES = 10
SHAPE = (1, 28, 28)


@register_data_set(
    "mnist",
    title="MNIST, handwritten digits",
    home="http://yann.lecun.com/exdb/mnist/",
    fetch="get the four .gz files from http://yann.lecun.com/exdb/mnist/ or a mirror, "
    "and put them into MNIST/raw",
    licence="CC BY-SA 3.0, as usually stated (LeCun, Cortes and Burges)",
    files=tuple(FILES.values()),
    sizes=SIZES,
    classes=CLASSES,
    shape=SHAPE,
    choices=True,
)
def mnist_set(*, folder: str | Path | None = None) -> DataSet:
    """MNIST; ``classes=(4, 7)`` is the Binary-MNIST of the paper on deep gated networks."""
    return _load("mnist", FILES, folder)


@register_data_set(
    "fashion_mnist",
    title="Fashion-MNIST, pieces of clothing",
    home="https://github.com/zalandoresearch/fashion-mnist",
    fetch=(
        "get the four .gz files from https://github.com/zalandoresearch/fashion-mnist "
        "(data/fashion) or the Debian package dataset-fashion-mnist, and put them into "
        "FashionMNIST/raw"
    ),
    licence="MIT (Zalando SE)",
    files=tuple(FASHION_FILES.values()),
    sizes=SIZES,
    classes=CLASSES,
    shape=SHAPE,
    choices=True,
)
def fashion_mnist_set(*, folder: str | Path | None = None) -> DataSet:
    """Fashion-MNIST."""
    return _load("fashion_mnist", FASHION_FILES, folder)


def mnist(split: Literal["train", "test"] = "train", *, folder: str | Path | None = None) -> Split:
    """Return one split of MNIST without its channel, images (n, 28, 28), from the published files.

    Args:
        split: ``"train"`` or ``"test"``.
        folder: the data folder; the one that ``GATEWISE_DATA`` names unless given.
    """
    if split not in ("train", "test"):
        raise unknown_name("split", split, ("train", "test"))
    home = data_folder(folder, fetch=find_set("mnist").fetch)
    whole = _read_split("mnist", FILES, split, home)
    return Split(whole.images.squeeze(1), whole.labels)


def _load(name: str, files: Files, folder: str | Path | None) -> DataSet:
    home = data_folder(folder, fetch=find_set(name).fetch)
    sources = [file.forms[file.name].sha256 for file in files.values()]
    return decoded(
        name,
        sources=sources,
        classes=CLASSES,
        home=home,
        decode=lambda: (
            _read_split(name, files, "train", home),
            _read_split(name, files, "test", home),
        ),
    )


def _read_split(name: str, files: Files, split: str, home: Path) -> Split:
    fetch = find_set(name).fetch
    tensors = []
    for part in ("images", "labels"):
        file = files[split, part]
        tensors.append(parse_idx(file.path, read_published(home, file, fetch=fetch)))
    images, labels = tensors
    if images.dim() != 3 or labels.dim() != 1 or len(images) != len(labels):
        raise DamagedFileError(
            f"{name}: images and labels do not belong together",
            got=f"images {tuple(images.shape)}, labels {tuple(labels.shape)}",
        )
    return Split(images.unsqueeze(1), labels.long())
