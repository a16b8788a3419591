"""The default set: 1,797 handwritten digits of 8 by 8 pixels, which gatewise ships."""

from pathlib import Path

import torch

from gatewise.checks import check_count
from gatewise.data.catalogue import register_data_set
from gatewise.data.choice import shifted
from gatewise.data.data_set import DataSet, Split, assemble
from gatewise.data.published import Form, Published, read_published
from gatewise.data.seeds import shuffled

HERE = Path(__file__).parent
FILE = Published(
    "digits.csv",
    packed=Form("09f66e6debdee2cd2b5ae59e0d6abbb73fc2b0e0185d2e1957e9ebb51e23aa22", 57_523),
)
COUNT = 1_797
SIDE = 8
BRIGHTEST = 16
TRAIN = 1_437  # four fifths


@register_data_set(
    "digits",
    title="Handwritten digits, 8 by 8",
    home="https://archive.ics.uci.edu/dataset/80",
    fetch="nothing to fetch: gatewise ships it",
    licence="CC BY 4.0 (Alpaydin and Kaynak, 1998)",
    sizes=(TRAIN, COUNT - TRAIN),
    classes=10,
    shape=(1, SIDE, SIDE),
)
def digits(*, folder: str | Path | None = None, train: int = TRAIN, shift_test: int = 0) -> DataSet:
    """The digits in one fixed random order: the first ``train`` to train on, the others to test on.

    Images are float32 from 0 to 1 in sixteenths.

    Args:
        folder: not used: gatewise ships the file.
        train: number of training examples.
        shift_test: moves each test image by up to so many pixels in each direction, always in the
            same way.
    """
    check_count("data", "train", train, most=COUNT - 1)
    rows = torch.tensor(_table(), dtype=torch.int64)[shuffled(COUNT, 0, "split")]
    images = (rows[:, :-1].float() / BRIGHTEST).view(-1, 1, SIDE, SIDE)
    whole = Split(images, rows[:, -1].contiguous())
    in_train = torch.arange(COUNT) < train
    test = shifted(whole.take(~in_train), shift_test)
    train_split = whole.take(in_train)
    return assemble("digits", train_split, test, classes=10, test_shift=shift_test)


def _table() -> list[list[int]]:
    """Return 64 grey values and the class of each digit."""
    text = read_published(HERE, FILE, fetch="install gatewise again").decode()
    return [[int(float(value)) for value in line.split(",")] for line in text.splitlines()]
