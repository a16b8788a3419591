"""The cost of a large study on docs/scale.md is what the script computes."""

import importlib
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def cost():
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield importlib.import_module("study_cost")
    finally:
        sys.path.remove(str(BENCHMARKS))


def test_the_page_has_the_table_of_the_script(cost):
    assert cost.page_table() == cost.table()


def test_the_table_by_hand(cost):
    # 8 units: 5 rates once, the best 3 twice, the best 2 twice, 10 seeds, 7 units at 2 more rates.
    assert cost.stages(8, 1) == [40, 48, 32, 80, 140]
    # 1e12 operations forward, three passes, 1e15 a second: 3 ms an image.
    assert cost.run_days(1e12, 1000) == pytest.approx(90 * 1_281_167 * 0.003 / 86400)
    row = cost.rows(1e12, 1000)[0]
    one = cost.run_days(1e12, 1000)
    assert (row.gpus, row.runs) == (8, 340) and row.gpu_days == pytest.approx(340 * one)
    assert row.days == pytest.approx((5 + 6 + 4 + 10 + 18) * one)  # 140 runs take 18 rounds of 8
    assert cost.rows(1e12, 1000)[1].most_at_once == 140
