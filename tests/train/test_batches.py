"""Every example once an epoch, in an order of the seed's.

The same bits whoever makes the batch (T4).
"""

import pytest
import torch

from gatewise.data import Split, load
from gatewise.data.images import Augment
from gatewise.errors import ArgumentError
from gatewise.train.config import HoldOut
from gatewise.train.loop import Batches, held_out


def split(count: int) -> Split:
    return Split(torch.arange(count * 4.0).view(count, 1, 2, 2), torch.arange(count))


@pytest.mark.parametrize(
    "count, size", [(10, 5), (11, 5), (12, 5), (3, 5), (2, 1), (100, 7), (9, 8), (17, 16)]
)
def test_every_example_is_in_exactly_one_batch_and_none_is_alone(count, size):
    batches = Batches(split(count), size=size, augment=Augment(), seed=1)
    found = [batches.get(2, place) for place in range(batches.count)]
    assert torch.cat([batch.index for batch in found]).sort().values.tolist() == list(range(count))
    assert all(len(batch.index) > 1 for batch in found) or size == 1
    assert sum(len(batch.index) != size for batch in found) <= 1
    for batch in found:
        assert torch.equal(batch.labels, batch.index)
        assert torch.equal(batch.images[:, 0, 0, 0], batch.index * 4.0) and batch.whole == len(
            batch.index
        )


def test_every_epoch_and_every_seed_has_an_order_of_its_own():
    orders = [
        tuple(
            Batches(split(50), size=50, augment=Augment(), seed=seed).get(epoch, 0).index.tolist()
        )
        for seed in (0, 1)
        for epoch in (0, 1)
    ]
    assert len(set(orders)) == 4


@pytest.mark.parametrize("augment", [Augment(), Augment(shift=1, rotation=20.0)])
@pytest.mark.parametrize("workers", [1, 4])
def test_batches_have_the_same_bits_with_any_number_of_workers(augment, workers):
    data = load("digits", train=200)
    batches = Batches(
        data.train, size=32, augment=augment.with_normalise(data.mean, data.std), seed=5
    )
    for alone, shared in zip(batches.walk(3, 2), batches.walk(3, 2, workers), strict=True):
        assert torch.equal(alone.images, shared.images) and torch.equal(alone.index, shared.index)


def test_images_made_ready_once_are_those_made_ready_in_the_step():
    data = load("digits", train=100)
    augment = Augment().with_normalise(data.mean, data.std)
    batches = Batches(data.train, size=32, augment=augment, seed=5)
    ready = batches.get(0, 1).images
    batches.ready = None
    assert torch.equal(batches.get(0, 1).images, ready)
    assert abs(augment.plain(data.train.images).mean()) < 1e-5


def test_processes_share_a_batch_without_gap_or_overlap():
    shares = [
        Batches(split(23), size=8, augment=Augment(), seed=0, rank=rank, processes=3)
        for rank in range(3)
    ]
    for place in range(shares[0].count):
        found = torch.cat([share.get(0, place).index for share in shares])
        assert sorted(found.tolist()) == sorted(shares[0].index(0, place).tolist())


def test_a_batch_that_cannot_be_shared_is_refused():
    with pytest.raises(ArgumentError, match="fewer examples than there are processes"):
        Batches(split(18), size=8, augment=Augment(), seed=0, processes=3)


def test_one_example_is_nothing_to_train_on():
    with pytest.raises(ArgumentError, match="too few examples to train on"):
        Batches(split(1), size=8, augment=Augment(), seed=0)


def test_a_worker_that_fails_is_heard_of():
    batches = Batches(split(20), size=4, augment=Augment(crop=(9, 0)), seed=0)
    with pytest.raises(ArgumentError):
        list(batches.walk(0, 0, workers=2))


def test_ten_folds_divide_the_training_set():
    parts = [held_out(split(103), HoldOut(fold=fold, folds=10)) for fold in range(1, 11)]
    held = torch.cat([part[1].labels for part in parts])
    assert sorted(held.tolist()) == list(range(103)) and {len(part[1]) for part in parts} <= {
        10,
        11,
    }
    for rest, fold in parts:
        assert sorted([*rest.labels.tolist(), *fold.labels.tolist()]) == list(range(103))


def test_examples_held_out_can_be_trained_on_again():
    rest, held = held_out(split(50), HoldOut(examples=10))
    again, same = held_out(split(50), HoldOut(examples=10, train_on_them=True))
    assert (len(rest), len(held), len(again)) == (40, 10, 50) and torch.equal(
        held.labels, same.labels
    )


def test_more_than_there_are_cannot_be_held_out():
    with pytest.raises(ArgumentError, match="cannot be held out"):
        held_out(split(5), HoldOut(examples=4))
