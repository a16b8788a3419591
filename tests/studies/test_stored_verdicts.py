"""The verdicts of the demo do not reverse when its epochs are doubled: by stored results."""

import json

import pytest
from stored_verdicts import FILE, doubled, verdicts

from gatewise.studies.older import Study

STORED = json.loads(FILE.read_text())


@pytest.mark.parametrize(
    "once, twice",
    list(zip(STORED["once"], STORED["twice"], strict=True)),
    ids=[block["backbone"] for block in STORED["once"]],
)
def test_doubling_the_epochs_reverses_no_verdict(once, twice):
    assert once["backbone"] == twice["backbone"] and twice["epochs"] == 2 * once["epochs"]
    before, after = verdicts(once), verdicts(twice)
    assert before.keys() == after.keys() and len(before) == 7
    for unit, verdict in before.items():
        assert {verdict, after[unit]} != {"better", "worse"}, unit
    # Or there would be nothing to reverse: some verdict is the same with both numbers of epochs.
    assert any(
        verdict == after[unit] and verdict in ("better", "worse")
        for unit, verdict in before.items()
    )
    for block in (once, twice):
        for rates in block["values"].values():
            assert all(len(by_seed) == 10 for by_seed in rates.values())


def test_the_doubled_demo_differs_in_its_epochs_alone():
    once, twice = Study.load("demo").table, doubled().table
    assert [once.recipes_for(one)[0].epochs for one in once.backbones] == [60, 120]
    assert [twice.recipes_for(one)[0].epochs for one in twice.backbones] == [120, 240]
    assert (once.units, once.tune, once.seeds) == (twice.units, twice.tune, twice.seeds)


def test_the_stored_results_are_those_of_the_demo_as_it_is():
    demo = Study.load("demo").table
    labels = {unit.label for unit in demo.units}
    for key, factor in (("once", 1), ("twice", 2)):
        assert [block["backbone"] for block in STORED[key]] == [b.name for b in demo.backbones]
        for block, backbone in zip(STORED[key], demo.backbones, strict=True):
            assert block["epochs"] == factor * demo.recipes_for(backbone)[0].epochs
            assert set(block["values"]) == labels


def test_a_reversed_result_is_seen():
    """The same records, with the unit and the baseline exchanged where a verdict was found."""
    block = json.loads(json.dumps(STORED["once"][1]))
    before = verdicts(block)
    unit = next(unit for unit, verdict in before.items() if verdict == "better")
    for name in ("values", "chosen"):
        table = block[name]
        table["relu"], table[unit] = table[unit], table["relu"]
    assert verdicts(block)[unit] != "better"
