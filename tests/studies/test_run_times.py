"""Times of a study: the fastest run of each unit, on one kind of machine."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gatewise.studies import StudyResult, read_study

FOLDER = Path(__file__).parents[2] / "results/units_cifar10"


@pytest.fixture(scope="module")
def kept():
    return read_study(FOLDER)


def with_times(kept: StudyResult, change: Callable[[dict], dict]) -> dict[str, dict]:
    """The costs of the study with changed final records, by unit."""
    records = []
    for record in kept.records:
        is_final = record["role"] == "final"
        records.append({**record, **change(record)} if is_final else record)
    changed = replace(kept, records=tuple(records))
    return {cost["unit"]: cost for cost in changed.costs}


def test_a_time_is_that_of_the_fastest_run(kept):
    costs = with_times(kept, lambda record: {"seconds": 10.0 + 5 * record["seed"]})
    assert {cost["seconds"] for cost in costs.values()} == {10.0}
    assert {cost["slowest"] for cost in costs.values()} == {4.5}
    assert {cost["ratios"]["seconds"] for cost in costs.values()} == {1.0}


def test_a_faster_machine_that_only_some_units_saw_does_not_count(kept):
    def change(record: dict) -> dict:
        is_fast = record["unit"] == "relu" and record["seed"] == 0
        environment = record["environment"] | ({"cpu_capability": "AVX512"} if is_fast else {})
        return {"seconds": 1.0 if is_fast else 100.0, "environment": environment}

    costs = with_times(kept, change)
    assert costs["relu"]["seconds"] == costs["gelu"]["seconds"] == 100.0


def test_of_two_kinds_of_machines_the_one_with_more_runs_counts(kept):
    def change(record: dict) -> dict:
        capability = "AVX512" if record["seed"] < 3 else "AVX2"
        environment = record["environment"] | {"cpu_capability": capability}
        return {"seconds": 1.0 if record["seed"] < 3 else 7.0, "environment": environment}

    assert {cost["seconds"] for cost in with_times(kept, change).values()} == {7.0}


def test_units_that_ran_on_different_machines_have_no_times(kept):
    def change(record: dict) -> dict:
        capability = "AVX512" if record["unit"] == "elu" else "AVX2"
        return {"environment": record["environment"] | {"cpu_capability": capability}}

    costs = with_times(kept, change)
    assert {cost["seconds"] for cost in costs.values()} == {None}
    assert {cost["ratios"]["seconds"] for cost in costs.values()} == {None}


def test_the_answer_says_that_the_machine_was_busy(kept):
    words = "".join(part.text for line in kept.further for part in line)
    assert "Times are of the fastest run of each unit" in words
    calm = replace(kept, records=tuple({**record, "seconds": 1.0} for record in kept.records))
    words = "".join(part.text for line in calm.further for part in line)
    assert "fastest run" not in words
