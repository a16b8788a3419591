"""The published files themselves: what everyone who has seen the sets knows of them."""

from pathlib import Path

import pytest
import torch
from gatewise_papers.data import mnist

from gatewise.data import load, state

pytestmark = pytest.mark.data


@pytest.fixture(autouse=True)
def kept_here(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GATEWISE_CACHE", str(tmp_path_factory.getbasetemp() / "decoded"))


def test_mnist_is_complete(data_folder: Path):
    found = load("mnist", folder=data_folder)
    assert (len(found.train), len(found.test)) == (60_000, 10_000)
    assert found.train.labels[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert found.mean == pytest.approx((0.1307,), abs=5e-5) and found.std == pytest.approx(
        (0.3081,), abs=5e-5
    )
    assert found.digest == "731c02e50f07a2fc93cc2c9b0df709507fc27cba0aff0ee3592e75b0849b602e"
    train = mnist("train", folder=data_folder)
    assert torch.equal(train.images, found.train.images[:, 0]) and torch.equal(
        train.labels, found.train.labels
    )
    assert len(train.of_classes(4, 7)) == 5842 + 6265


def test_binary_mnist_is_that_of_the_paper(data_folder: Path):
    found = load("mnist", folder=data_folder, classes=(4, 7))
    assert found.train.labels.bincount().tolist() == [
        5842,
        6265,
    ] and found.test.labels.bincount().tolist() == [
        982,
        1028,
    ]


@pytest.mark.slow
def test_cifar10_is_complete(data_folder: Path):
    found = load("cifar10", folder=data_folder)
    assert (
        found.train.labels.bincount().tolist() == [5000] * 10
        and found.test.labels.bincount().tolist() == [1000] * 10
    )
    assert found.train.labels[:5].tolist() == [6, 9, 9, 4, 1] and found.test.labels[
        :5
    ].tolist() == [3, 8, 8, 0, 6]
    assert found.mean == pytest.approx((0.4914, 0.4822, 0.4465), abs=5e-5)
    assert found.std == pytest.approx((0.2470, 0.2435, 0.2616), abs=5e-5)
    assert found.digest == "612671e6bb37e8b15ec4552378c264385574c06bf77b146df22c121b3b667b99"
    assert state("cifar10", folder=data_folder).word == "present"
