"""The verdicts of the demo do not reverse when its epochs are doubled: by stored results."""

import json

import pytest
from stored_verdicts import FILE, doubled, verdicts

from gatewise.studies.engine import Study

STORED = json.loads(FILE.read_text()) if FILE.exists() else {"once": [], "twice": []}


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
    decided = {"better", "worse"}.intersection(before.values())
    assert decided  # or there would be nothing to reverse
    for block in (once, twice):
        for rates in block["values"].values():
            assert all(len(by_seed) == 10 for by_seed in rates.values())


def test_the_doubled_demo_differs_in_its_epochs_alone():
    once, twice = Study.load("demo").table, doubled().table
    assert [once.recipes_for(one)[0].epochs for one in once.backbones] == [60, 120]
    assert [twice.recipes_for(one)[0].epochs for one in twice.backbones] == [120, 240]
    assert (once.units, once.tune, once.seeds) == (twice.units, twice.tune, twice.seeds)
