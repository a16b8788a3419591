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


def changed(kept: StudyResult, change: Callable[[dict], dict]) -> StudyResult:
    """The study with changed records."""
    return replace(kept, records=tuple({**record, **change(record)} for record in kept.records))


def costs(kept: StudyResult, change: Callable[[dict], dict]) -> dict[str, dict]:
    """The costs of the study with changed records, by unit."""
    return {cost["unit"]: cost for cost in changed(kept, change).costs}


def in_environment(record: dict, **facts: object) -> dict:
    return {"environment": record["environment"] | facts}


def seconds_of(found: dict[str, dict]) -> set[float | None]:
    return {cost["seconds"] for cost in found.values()}


def test_a_time_is_the_processor_time_of_the_fastest_final_run(kept):
    def change(record: dict) -> dict:
        if record["role"] == "final":
            return {"seconds": 99.0, "process_seconds": 10.0 + 5 * record["seed"]}
        return {"seconds": 1.0, "process_seconds": 1.0}

    found = costs(kept, change)
    assert seconds_of(found) == {10.0}
    assert {cost["slowest"] for cost in found.values()} == {4.5}
    assert {cost["ratios"]["seconds"] for cost in found.values()} == {1.0}


@pytest.mark.parametrize(
    "fact",
    [{"starts": 2}, {"device": "cuda:0 (some GPU)"}, {"threads": 2}, {"processes": 2}],
    ids=str,
)
def test_it_is_wall_time_if_one_run_was_interrupted_or_had_several_threads(kept, fact):
    # Processor time counts the last start alone, adds up threads, and leaves out a GPU.
    def change(record: dict) -> dict:
        times = {"seconds": 9.0, "process_seconds": 3.0}
        if "starts" in fact or "device" in fact:
            return times | fact
        return times | in_environment(record, **fact)

    assert seconds_of(costs(kept, change)) == {9.0}


@pytest.mark.parametrize(
    "fact",
    [
        {"cpu_capability": "AVX512"},
        {"threads": 2},
        {"processes": 2},
        {"units": "plain"},
        {"device": "cuda:0 (A100)"},
    ],
    ids=str,
)
def test_a_faster_machine_that_only_some_units_saw_does_not_count(kept, fact):
    def change(record: dict) -> dict:
        if record["unit"] == "relu" and record["seed"] == 0:
            return {"process_seconds": 1.0, "seconds": 1.0} | in_environment(record, **fact)
        return {"process_seconds": 100.0, "seconds": 100.0}

    found = costs(kept, change)
    assert found["relu"]["seconds"] == found["gelu"]["seconds"] == 100.0


def test_of_two_kinds_of_machines_the_one_with_more_runs_counts(kept):
    def change(record: dict) -> dict:
        is_fast = record["seed"] < 3
        machine = in_environment(record, cpu_capability="AVX512" if is_fast else "AVX2")
        return machine | {"process_seconds": 1.0 if is_fast else 7.0}

    assert seconds_of(costs(kept, change)) == {7.0}


def test_units_that_ran_on_different_machines_have_no_times(kept):
    def change(record: dict) -> dict:
        capability = "AVX512" if record["unit"] == "elu" else "AVX2"
        return in_environment(record, cpu_capability=capability)

    found = costs(kept, change)
    assert seconds_of(found) == {None}
    assert {cost["ratios"]["seconds"] for cost in found.values()} == {None}


def test_two_devices_of_one_kind_are_one_kind_of_machine(kept):
    def change(record: dict) -> dict:
        device = f"cuda:{record['unit'] == 'elu':d} (A100)"
        return in_environment(record, device=device) | {"device": device, "seconds": 5.0}

    assert seconds_of(costs(kept, change)) == {5.0}


def test_a_unit_without_times_does_not_hide_those_of_the_others(kept):
    def change(record: dict) -> dict:
        seconds = None if record["unit"] == "elu" else 4.0
        return {"seconds": seconds, "process_seconds": seconds}

    found = costs(kept, change)
    assert found["elu"]["seconds"] is None and found["gelu"]["seconds"] == 4.0


@pytest.mark.parametrize(("slowest", "is_said"), [(1.4, False), (1.6, True)])
def test_the_answer_says_that_times_are_rough(kept, slowest: float, is_said: bool):
    def change(record: dict) -> dict:
        longer = 2.0 if record["unit"] == "maxout" else 1.0  # a time that is worth a word
        return {"process_seconds": longer * (slowest if record["seed"] else 1.0)}

    words = "".join(part.text for line in changed(kept, change).further for part in line)
    assert "maxout 2.00×" in words
    assert (f"The slowest took {slowest} times as long" in words) == is_said
