"""Pairs of methods over blocks, and means over blocks."""

import math

import numpy as np
import pytest
from scipy import stats

from gatewise.errors import ArgumentError
from gatewise.stats import compare_pairs, compare_runs, enough_to_rank, pool_blocks


def by_seed(values) -> dict[int, float]:
    return {seed: float(value) for seed, value in enumerate(values)}


def two_blocks() -> dict[str, dict[str, dict[int, float]]]:
    """Gelu beats silu on one network and loses on the other; relu lies between."""
    random = np.random.default_rng(0)
    shape = {"conv": (0.0, 1.0, -1.0), "mlp": (0.0, -1.0, 1.0)}
    blocks = {}
    for block, gains in shape.items():
        noise = random.normal(0, 0.1, (3, 10))
        blocks[block] = {
            name: by_seed(gain + row)
            for name, gain, row in zip(("relu", "gelu", "silu"), gains, noise, strict=True)
        }
    return blocks


def test_pairs_share_one_level_over_all_blocks() -> None:
    blocks = two_blocks()
    pairs = compare_pairs(blocks)
    assert pairs.comparisons == 6 and len(pairs.pairs) == 6
    for pair in pairs.pairs:
        two = {name: blocks[pair.block][name] for name in (pair.first, pair.second)}
        assert pair.difference == compare_runs(two, pair.second, comparisons=6)[pair.first]
    reversals = {(one.first, one.second) for one, _ in pairs.reversals()}
    assert reversals == {("relu", "gelu"), ("relu", "silu"), ("gelu", "silu")}
    assert pairs.not_shown_beaten("conv") == ["gelu"]
    assert pairs.not_shown_beaten("mlp") == ["silu"]
    lower = compare_pairs(blocks, higher_is_better=False)
    assert lower.not_shown_beaten("conv") == ["silu"]


def test_tuned_pairs_need_their_neighbouring_rates() -> None:
    blocks = {
        block: {name: {0.01: runs} for name, runs in results.items()}
        for block, results in two_blocks().items()
    }
    chosen = {block: dict.fromkeys(results, 0.01) for block, results in blocks.items()}
    assert compare_pairs(blocks, chosen=chosen).reversals()
    assert not compare_pairs(blocks, chosen=chosen, grid=[0.003, 0.01]).reversals()


@pytest.mark.parametrize("count", [3, 5])
def test_the_mean_over_blocks_has_satterthwaites_degrees_of_freedom(count: int) -> None:
    random = np.random.default_rng(count)
    blocks = {}
    gaps = []
    for block in range(count):
        base = random.normal(0, 1, 6)
        gap = random.normal(1 + block, 0.2 + block, 6)
        gaps.append(gap)
        blocks[block] = {"relu": by_seed(base), "gelu": by_seed(base + gap)}
    (row,) = pool_blocks(blocks, "relu")
    variances = np.array([gap.var(ddof=1) / 6 for gap in gaps])
    means = [gap.mean() for gap in gaps]
    error = math.sqrt(variances.sum()) / count
    freedom = variances.sum() ** 2 / (variances**2 / 5).sum()
    half = stats.t.ppf(0.975, freedom) * error
    assert row.interval == pytest.approx((np.mean(means) - half, np.mean(means) + half))
    assert row.blocks == count and row.difference == pytest.approx(np.mean(means))
    if count < 5:
        assert row.new_blocks is None and row.verdict_new_blocks is None
    else:
        over = stats.ttest_1samp(means, 0).confidence_interval(0.95)
        assert row.new_blocks == pytest.approx((over.low, over.high))


def test_two_blocks_are_too_few_for_a_mean() -> None:
    assert pool_blocks(two_blocks(), "relu") == []


def test_a_pooled_tuned_difference_must_be_confirmed_in_every_block() -> None:
    random = np.random.default_rng(1)
    blocks = {}
    for block in range(3):
        base = random.normal(0, 0.1, 8)
        blocks[block] = {
            "relu": {0.01: by_seed(base), 0.03: by_seed(base - 1)},
            "gelu": {0.01: by_seed(base + 1 + random.normal(0, 0.1, 8))},
        }
    chosen = {block: {"relu": 0.01, "gelu": 0.01} for block in blocks}
    (row,) = pool_blocks(blocks, "relu", chosen=chosen, grid=[0.01, 0.03])
    assert row.verdict == "better"
    (row,) = pool_blocks(blocks, "relu", chosen=chosen, grid=[0.003, 0.01, 0.03])
    assert row.verdict == "undecided" and row.reason.startswith("not confirmed")
    # At the rate next to its own the baseline is as good: nothing is shown.
    for block in blocks:
        values = blocks[block]["gelu"][0.01].values()
        blocks[block]["relu"][0.03] = by_seed(np.array(list(values)) + random.normal(0, 0.1, 8))
    (row,) = pool_blocks(blocks, "relu", chosen=chosen, grid=[0.01, 0.03])
    assert row.verdict == "undecided" and row.interval[0] < 0


def test_ranks_need_ten_data_sets() -> None:
    assert not enough_to_rank(["digits"] * 20)
    assert enough_to_rank(range(10)) and not enough_to_rank(range(9))


def test_wrong_blocks_are_refused() -> None:
    for wrong in (None, [], {"conv": 3}):
        with pytest.raises(ArgumentError):
            compare_pairs(wrong)
        with pytest.raises(ArgumentError):
            pool_blocks(wrong, "relu")
