"""MNIST: handwritten digits, 60,000 to train on and 10,000 to test on, 28 by 28 grey values."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torch import Tensor

from gatewise.data._idx import parse_idx
from gatewise.data._published import Published, data_folder, read_published
from gatewise.errors import ArgumentError, unknown_name

# LeCun, Cortes and Burges, as published: path, size and sha256 unpacked, size and sha256 as .gz
FILES = {
    ("train", "images"): Published(
        "MNIST/raw/train-images-idx3-ubyte",
        47_040_016, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        9_912_422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    ),
    ("train", "labels"): Published(
        "MNIST/raw/train-labels-idx1-ubyte",
        60_008, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        28_881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    ),
    ("test", "images"): Published(
        "MNIST/raw/t10k-images-idx3-ubyte",
        7_840_016, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        1_648_877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    ),
    ("test", "labels"): Published(
        "MNIST/raw/t10k-labels-idx1-ubyte",
        10_008, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        4_542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
}  # fmt: skip

Split = Literal["train", "test"]


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """Images and their classes, in the published order."""

    images: Tensor  # (n, height, width) uint8
    labels: Tensor  # (n,) int64

    def __len__(self) -> int:
        return len(self.labels)

    def of_classes(self, *classes: int) -> "LabelledImages":
        """Only the images of these classes, in the same order, with their labels as they were."""
        known = set(self.labels.tolist())
        for each in classes:
            if each not in known:
                raise ArgumentError("no image is of that class", got=each, allowed=sorted(known))
        wanted = sum((self.labels == each for each in set(classes)), start=self.labels != self.labels)
        return LabelledImages(self.images[wanted], self.labels[wanted])

    def first(self, count: int) -> "LabelledImages":
        """The first ``count`` images."""
        return LabelledImages(self.images[:count], self.labels[:count])


def mnist(split: Split = "train", *, folder: str | Path | None = None) -> LabelledImages:
    """Read one split from ``folder``/MNIST/raw, the files as published (.gz or unpacked), their sha256 checked.

    ``folder`` is by default the one that ``GATEWISE_DATA`` names. Nothing is downloaded and nothing is executed.
    """
    if split not in ("train", "test"):
        raise unknown_name("split", split, ("train", "test"))
    home = data_folder(folder)
    images, labels = (_read(home, FILES[split, kind]) for kind in ("images", "labels"))
    return LabelledImages(images, labels.long())


def _read(home: Path, file: Published) -> Tensor:
    return parse_idx(file.path, read_published(home, file))
