"""Loaders as they are: random changes at work, the same for every unit, and streams."""

import random

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from gatewise.errors import ArgumentError
from gatewise.studies.comparison import make_recipe, read_data
from gatewise.studies.comparison.sources import ArraySource, loader_source

RECIPE = make_recipe("adam", 1)
COUNT = 30


class Noisy(Dataset):
    """Noise from all three global generators."""

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        noise = [torch.rand(()).item(), random.random(), np.random.rand()]  # noqa: S311
        return torch.tensor([float(index), *noise]), index


class Secretive(Noisy):
    """Noise from a generator of its own, which cannot be seeded from outside."""

    def __init__(self) -> None:
        self.generator = np.random.default_rng(0)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.tensor([float(index), self.generator.random()]), index


def collate(examples: list) -> dict[str, Tensor]:
    """A collate function of the user, which draws as well."""
    images = torch.stack([image for image, _ in examples])
    labels = torch.tensor([label for _, label in examples])
    return {"images": images + torch.rand(1), "labels": labels}


def epoch_of(source, seed: int, epoch: int, start: int = 0) -> list:
    return [batch.content for batch in source.read(seed, epoch, start)]


def same(left, right) -> bool:
    if isinstance(left, Tensor):
        return torch.equal(left, right)
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    if not isinstance(left, list | tuple):
        return left == right
    return len(left) == len(right) and all(map(same, left, right))


LOADERS = {
    "shuffled": lambda: DataLoader(Noisy(), 8, shuffle=True),
    "in order": lambda: DataLoader(Noisy(), 8),
    "own collate": lambda: DataLoader(Noisy(), 8, shuffle=True, collate_fn=collate),
    "drop last": lambda: DataLoader(Noisy(), 8, shuffle=True, drop_last=True),
    "own generator": lambda: DataLoader(
        Noisy(), 8, shuffle=True, generator=torch.Generator().manual_seed(3)
    ),
    "weighted": lambda: DataLoader(Noisy(), 8, sampler=WeightedRandomSampler([1.0] * COUNT, 20)),
    "replacement": lambda: DataLoader(Noisy(), 8, sampler=RandomSampler(Noisy(), True)),
    "batch sampler": lambda: DataLoader(
        Noisy(), batch_sampler=BatchSampler(RandomSampler(Noisy()), 5, False)
    ),
    "no batching": lambda: DataLoader(Noisy(), batch_size=None),
    "tensors": lambda: DataLoader(
        TensorDataset(torch.arange(COUNT * 2.0).view(-1, 2), torch.arange(COUNT)), 8, shuffle=True
    ),
}


@pytest.mark.parametrize("kind", LOADERS)
def test_every_unit_sees_the_same_batches_and_a_resumed_run_the_rest(kind: str):
    source = loader_source(LOADERS[kind](), "train")
    assert not source.unpaired
    whole = epoch_of(source, 1, 2)
    assert len(whole) == source.count
    again = loader_source(LOADERS[kind](), "train")
    random.seed(5)
    torch.manual_seed(5)
    assert same(epoch_of(again, 1, 2), whole)
    assert again.digest == source.digest
    assert same(epoch_of(source, 1, 2, start=2), whole[2:])


@pytest.mark.parametrize("kind", [kind for kind in LOADERS if kind != "tensors"])
def test_random_changes_differ_between_epochs_and_seeds(kind: str):
    source = loader_source(LOADERS[kind](), "train")
    first = epoch_of(source, 1, 0)
    assert not same(first, epoch_of(source, 1, 1))
    assert not same(first, epoch_of(source, 2, 0))


def test_worker_processes_give_the_batches_of_none():
    alone = loader_source(DataLoader(Noisy(), 8, shuffle=True), "train")
    helped = loader_source(DataLoader(Noisy(), 8, shuffle=True, num_workers=2), "train")
    assert same(epoch_of(alone, 0, 3), epoch_of(helped, 0, 3))


def test_order_is_that_of_the_loader():
    def order(loader, epoch):
        return torch.cat([labels for _, labels in epoch_of(loader_source(loader, "t"), 0, epoch)])

    assert order(DataLoader(Noisy(), 8), 1).tolist() == list(range(COUNT))
    shuffled = order(DataLoader(Noisy(), 8, shuffle=True), 1)
    assert sorted(shuffled.tolist()) == list(range(COUNT))
    assert shuffled.tolist() != list(range(COUNT))


def test_generators_and_epoch_counters_of_the_user_are_left_alone():
    generator = torch.Generator().manual_seed(3)
    before = generator.get_state()
    random_state, torch_state = random.getstate(), torch.get_rng_state()
    source = loader_source(DataLoader(Noisy(), 8, shuffle=True, generator=generator), "train")
    assert torch.equal(generator.get_state(), before)
    assert random.getstate() == random_state
    assert torch.equal(torch.get_rng_state(), torch_state)
    source.first(2)
    assert torch.equal(torch.get_rng_state(), torch_state)


def test_what_cannot_be_seeded_is_used_as_it_is_and_said():
    source = loader_source(DataLoader(Secretive(), 8), "train")
    assert "cannot be seeded" in source.unpaired
    assert len(epoch_of(source, 0, 0)) == source.count

    class Restless(SequentialSampler):
        draws = np.random.default_rng(0)

        def __iter__(self):
            return iter(self.draws.permutation(COUNT).tolist())

    source = loader_source(DataLoader(Noisy(), 8, sampler=Restless(Noisy())), "train")
    assert "sampler cannot be seeded" in source.unpaired


class Stream(IterableDataset):
    def __iter__(self):
        return iter([(torch.tensor([float(i)]), i) for i in range(COUNT)])


def test_stream_counts_its_batches_and_skips_those_done():
    source = loader_source(DataLoader(Stream(), 8), "train")
    assert source.count == 4
    assert source.unpaired
    whole = epoch_of(source, 0, 0)
    assert same(epoch_of(source, 0, 0, start=3), whole[3:])


def test_arrays_are_shuffled():
    content = (torch.arange(21.0).view(-1, 1), torch.arange(21))
    source = ArraySource(content, 5, shuffle=True)
    assert [batch.whole for batch in source.read(0, 0)] == [5, 5, 5, 6]  # none of one example
    labels = torch.cat([labels for _, labels in epoch_of(source, 0, 0)])
    assert sorted(labels.tolist()) == list(range(21))


def test_validation_examples_are_evaluated_too():
    x, y = torch.rand(20, 3), torch.zeros(20).long()
    data = read_data(((x, y), (x, y)), RECIPE, validation=(x[:7], y[:7]))
    assert {name: part.examples for name, part in data.evaluated.items()} == {"val": 7, "test": 20}


def test_iterator_is_refused_with_a_remedy():
    with pytest.raises(ArgumentError, match="read only once"):
        loader_source(iter([(torch.zeros(2, 3), torch.zeros(2))]), "train")
