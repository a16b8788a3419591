"""Theorem 4.1 of paper 002: both computations agree, and the printed bound does not hold."""

import math
from pathlib import Path

import pytest

from gatewise.papers import find_experiment
from gatewise.papers.crelu import theorem4_1


def test_both_computations_agree(tmp_path: Path):
    result = find_experiment("crelu/theorem4_1").run("tiny", 2, tmp_path)
    compared = [row for row in result.findings.rows if row.agrees is not None]
    assert len(compared) == 3 and not result.failed
    assert [claim.verdict.value for claim in result.findings.claims] == ["contradicted"]


def test_the_counter_example_by_hand():
    found = theorem4_1.enumerated([[1.0, -1.0]], width=1)
    assert found["base"] == 1 and found["relu"] == 1
    assert found["crelu"] == pytest.approx(math.sqrt(2))
