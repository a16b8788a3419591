"""Random numbers are a function of their key, and look random."""

import math

import pytest
import torch

from gatewise.data import STREAMS, below, bits, mix, order, uniform
from gatewise.errors import ArgumentError

WRAP = 2**64 - 1


def reference_mix(x: int) -> int:
    """splitmix64's step and finaliser on integers of any size."""
    x = (x + 0x9E3779B97F4A7C15) & WRAP
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & WRAP
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & WRAP
    return x ^ (x >> 31)


def reference_bits(seed: int, stream: int, epoch: int, index: int, draw: int) -> int:
    key = seed
    for part in (stream, epoch, index, draw):
        key = (reference_mix(key) + part) & WRAP
    return reference_mix(key)


def test_the_mixing_is_that_of_integers_and_of_the_published_generator():
    values = [0, 1, 2, 2**31, 2**62 + 12345, 2**63 - 1]
    assert [n & WRAP for n in mix(torch.tensor(values)).tolist()] == [
        reference_mix(n) for n in values
    ]
    assert (
        mix(torch.tensor(0)).item() & WRAP == 0xE220A8397B1DCDAF
    )  # the first output of splitmix64 from seed 0


def test_bits_are_the_hash_of_the_whole_key():
    index = torch.tensor([0, 7, 123_456_789_012])
    found = bits(index, seed=2**63 - 1, stream="augment", epoch=5, draws=3)
    wanted = [
        [reference_bits(2**63 - 1, STREAMS["augment"], 5, n, draw) for n in index.tolist()]
        for draw in range(3)
    ]
    assert [[n & WRAP for n in row] for row in found.tolist()] == wanted


def test_every_part_of_the_key_matters():
    index = torch.arange(1000)
    base = {"seed": 3, "stream": "augment", "epoch": 4}
    same = bits(index, **base)
    for change in ({"seed": 4}, {"epoch": 3}, {"stream": "order"}):
        other = bits(index, **{**base, **change})
        assert not (same == other).any()
    assert not (bits(index, **base, draws=2)[1] == same[0]).any()
    assert len(torch.unique(bits(index, **base, draws=50))) == 50_000


@pytest.mark.parametrize("count", [2, 3, 10, 256])
def test_integers_are_uniform(count: int):
    n = 200_000
    found = below(bits(torch.arange(n), seed=1, stream="augment")[0], count).bincount(
        minlength=count
    )
    assert len(found) == count
    chi_square = ((found - n / count) ** 2 / (n / count)).sum().item()
    assert abs(chi_square - (count - 1)) < 6 * math.sqrt(2 * (count - 1))


def test_numbers_are_uniform_and_below_one():
    n = 200_000
    for draws in (
        uniform(bits(torch.arange(n), seed=1, stream="augment")[0]),
        uniform(mix(torch.arange(n))),
    ):
        assert 0 <= draws.min() and draws.max() < 1 and draws.dtype == torch.float32
        assert abs(draws.double().mean() - 0.5) < 6 / math.sqrt(12 * n)
        assert abs(torch.corrcoef(torch.stack([draws[:-1], draws[1:]]))[0, 1]) < 6 / math.sqrt(n)
    assert uniform(torch.tensor(-1)) == 1 - 2**-24  # all 64 bits set


def test_draws_of_one_example_do_not_go_together():
    n = 100_000
    draws = uniform(bits(torch.arange(n), seed=0, stream="augment", draws=8))
    away = torch.corrcoef(draws) - torch.eye(8)
    assert away.abs().max() < 6 / math.sqrt(n)


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
def test_what_cannot_be_part_of_a_key_is_refused(wrong: dict):
    with pytest.raises(ArgumentError, match=next(iter(wrong))):
        order(3, **{"seed": 0, "epoch": 0, **wrong})


@pytest.mark.parametrize("count", [-1, 1.5, None])
def test_a_wrong_count_is_refused(count: object):
    with pytest.raises(ArgumentError, match="count"):
        order(count, seed=0, epoch=0)
