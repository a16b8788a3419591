"""Random numbers are a function of seed, stream, epoch and index, and look random."""

import itertools
import math

import pytest
import torch

from gatewise.data import draws, generator, order, shuffled, stream_seed
from gatewise.data.seeds import BLOCK, below
from gatewise.errors import ArgumentError


def test_streams_of_different_names_are_different():
    names = [
        (0, "a"),
        (1, "a"),
        (0, "b"),
        (0, "a", 0),
        (0, "a", "0"),
        (0, "a", 1),
        (10, "a"),
        (0, "a1"),
        (0,),
    ]
    assert len({stream_seed(*name) for name in names}) == len(names)


def test_ten_thousand_streams_have_ten_thousand_seeds_of_64_bits_without_a_bias():
    seeds = [
        stream_seed(seed, "step", step) for seed, step in itertools.product(range(10), range(1000))
    ]
    assert len(set(seeds)) == len(seeds) and 0 <= min(seeds) and max(seeds) < 2**64
    ones = sum(seed.bit_count() for seed in seeds) / 64 / len(seeds)
    assert (
        abs(ones - 0.5) < 4 * 0.5 / (64 * len(seeds)) ** 0.5
    )  # four standard deviations of a fair coin


def test_a_stream_does_not_depend_on_what_was_drawn_before():
    first = torch.rand(3, generator=generator(5, "x"))
    torch.rand(100, generator=generator(5, "y"))
    assert torch.equal(first, torch.rand(3, generator=generator(5, "x")))


def test_numbers_of_an_example_are_those_of_its_block_in_any_batch():
    index = torch.tensor([0, 7, BLOCK - 1, BLOCK, 123_456_789_012])
    found = draws(index, 3, 5, "crop", 2)
    assert found.shape == (3, 5) and found.dtype == torch.float64
    for place, number in enumerate(index.tolist()):
        table = torch.rand(BLOCK, 3, generator=generator(5, "crop", 2, number // BLOCK))
        assert found[:, place].tolist() == table[number % BLOCK].double().tolist()
    mixed = torch.tensor([4, 0, 0, 2])
    assert torch.equal(draws(index[mixed], 3, 5, "crop", 2), found[:, mixed])


def test_every_part_of_the_name_matters():
    index = torch.arange(1000)
    base = draws(index, 2, 3, "crop", 4)
    for names in ((4, "crop", 4), (3, "crop", 5), (3, "shift", 4)):
        assert (draws(index, 2, *names) == base).float().mean() < 0.01
    assert (draws(index + BLOCK, 2, 3, "crop", 4) == base).float().mean() < 0.01
    assert (base[0] == base[1]).float().mean() < 0.01


@pytest.mark.parametrize("count", [2, 3, 10, 256])
def test_integers_are_uniform(count: int):
    n = 200_000
    found = below(draws(torch.arange(n), 1, 1, "crop")[0], count).bincount(minlength=count)
    assert len(found) == count
    chi_square = ((found - n / count) ** 2 / (n / count)).sum().item()
    assert abs(chi_square - (count - 1)) < 6 * math.sqrt(2 * (count - 1))


@pytest.mark.parametrize("count", [1, 3, 1000, 2**24 - 1, 2**28 + 1])
def test_the_largest_number_gives_the_largest_integer(count: int):
    largest = torch.tensor([1 - 2**-24], dtype=torch.float64)
    assert below(largest, count).item() == count - max(1, math.ceil(count * 2**-24))


def test_numbers_of_one_example_and_of_neighbours_do_not_go_together():
    n = 100_000
    found = draws(torch.arange(n), 8, 0, "crop")
    assert 0 <= found.min() and found.max() < 1
    assert (found.mean(1) - 0.5).abs().max() < 6 / math.sqrt(12 * n)
    together = torch.corrcoef(torch.cat([found[:, :-1], found[:, 1:]])) - torch.eye(16)
    assert together.abs().max() < 6 / math.sqrt(n)


def test_a_shuffle_is_a_permutation():
    assert shuffled(1000, 3, "hold out").sort().values.tolist() == list(range(1000))


def test_the_order_is_a_permutation_that_depends_on_seed_and_epoch():
    one = order(1000, seed=1, epoch=2)
    assert sorted(one.tolist()) == list(range(1000)) and one.tolist() != list(range(1000))
    assert torch.equal(one, order(1000, seed=1, epoch=2))
    assert not torch.equal(one, order(1000, seed=1, epoch=3)) and not torch.equal(
        one, order(1000, seed=2, epoch=2)
    )
    assert (one == torch.arange(1000)).sum() < 10  # one is expected
    assert order(0, seed=0, epoch=0).tolist() == []


@pytest.mark.parametrize(
    "wrong", [{"seed": -1}, {"seed": 2**63}, {"seed": 1.0}, {"seed": True}, {"epoch": -1}]
)
def test_what_cannot_be_part_of_a_name_is_refused(wrong: dict):
    with pytest.raises(ArgumentError, match=next(iter(wrong))):
        order(3, **{"seed": 0, "epoch": 0, **wrong})


@pytest.mark.parametrize("count", [-1, 1.5, None])
def test_a_wrong_count_is_refused(count: object):
    with pytest.raises(ArgumentError, match="count"):
        order(count, seed=0, epoch=0)
