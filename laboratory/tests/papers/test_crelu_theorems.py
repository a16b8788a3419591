"""Theorems 2.2 and 4.1 of paper 002: both computations agree, and claims follow the numbers."""

import math
from pathlib import Path

import numpy as np
import pytest
from gatewise_papers.all_experiments import find_experiment
from gatewise_papers.crelu.experiments import theorem2_2, theorem4_1


@pytest.mark.parametrize(
    ("name", "verdicts"),
    [
        ("crelu/theorem2_2", ["supported", "supported"]),
        ("crelu/theorem4_1", ["contradicted"]),
    ],
)
def test_both_computations_agree(name: str, verdicts: list[str], tmp_path: Path):
    result = find_experiment(name).run("tiny", 2, tmp_path)
    compared = [row for row in result.findings.rows if row.agrees is not None]
    assert len(compared) >= 3 and not result.failed
    assert [claim.verdict.value for claim in result.findings.claims] == verdicts


def test_orthonormal_shifts_lose_nothing_and_their_bound_is_zero():
    shifts = np.eye(4).reshape(2, 2, 4)  # two filters of one number each, two shifts each
    coefficients = np.array([[0.0, 3.0], [-2.0, 0.0]])
    x = np.array([0.0, 3.0, -2.0, 0.0])
    found = theorem2_2.from_matrices(shifts, coefficients, x)
    assert found["ratio"] == pytest.approx(0, abs=1e-12) and found["bound"] == 0
    assert found["tighter_bound"] == 0
    assert found["signs_agree"] and not found["tied"]


def test_equal_responses_of_two_shifts_are_a_tie():
    """The filter (1, 1) at shifts 0 and 2 overlaps (1, 1) at shift 1 alike."""
    shifts = np.array([[[1.0, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]])
    far = theorem2_2.from_matrices(shifts, np.array([[2.0, 0, 0]]), 2 * shifts[0, 0])
    assert not far["tied"]
    x = shifts[0, 0] + shifts[0, 2]
    assert theorem2_2.from_matrices(shifts, np.array([[1.0, 0, 1]]), x)["tied"]


def test_an_input_above_its_bound_contradicts_the_theorem():
    good = {"ratio": 0.5, "bound": 1.0, "tighter_bound": 0.7, "signs_agree": True}
    assert theorem2_2.claim([good]).verdict.value == "supported"
    bad = {"ratio": 1.1, "bound": 1.2, "tighter_bound": 0.9, "signs_agree": False}
    assert theorem2_2.claim([good, bad]).verdict.value == "supported"
    assert theorem2_2.claim([good, bad], "tighter_bound").verdict.value == "contradicted"
    worse = bad | {"bound": 1.0}
    assert theorem2_2.claim([good, worse]).verdict.value == "contradicted"


def test_the_tighter_bound_holds_where_signs_disagree_and_is_nearly_reached():
    """Random filters of few numbers, of which each may have the sign that no response has."""
    generator = np.random.default_rng(3)
    disagree = missing = 0
    nearest = 0.0
    for trial in range(3000):
        sizes = theorem2_2.FilterSizes(1 + trial % 3, 3, 5)
        filters = generator.standard_normal((sizes.filters, sizes.length))
        shifts = theorem2_2.shifted(filters, sizes)
        coefficients = np.zeros(shifts.shape[:2])
        for row in coefficients:
            row[generator.integers(len(row))] = generator.standard_normal()
        x = np.einsum("kn,knd->d", coefficients, shifts)
        found = theorem2_2.from_matrices(shifts, coefficients, x)
        assert found["ratio"] <= found["tighter_bound"] + 1e-7
        assert found["tighter_bound"] <= found["bound"] + 1e-7
        disagree += not found["signs_agree"]
        signs = np.sign(coefficients.sum(1))
        missing += bool((np.max(signs[:, None] * (shifts @ x), axis=1) <= 0).any())
        if found["tighter_bound"] > 0.1:
            nearest = max(nearest, found["ratio"] / found["tighter_bound"])
    assert disagree > 100 and missing > 0 and nearest > 0.8


def test_the_counter_example_by_hand():
    found = theorem4_1.enumerated([[1.0, -1.0]], width=1)
    assert found["base"] == 1 and found["relu"] == 1
    assert found["crelu"] == pytest.approx(math.sqrt(2))
