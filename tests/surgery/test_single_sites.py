"""Each site by itself: widened by the real installer, equal in float64, and undone."""

import copy
from dataclasses import replace

import pytest
import torch
from surgery.single_sites import MOST, Bench, Row, plan_alone, preserved, rows_of, set_up, tried
from surgery.test_zoo import KNOWN
from zoo import ZOO

from gatewise.graph import Site

SAMPLED = ("hf:RegNet", "hf:Llama", "hf:Swin", "hf:Wav2Vec2", "tv:resnet18")
EACH = 4

pytestmark = [
    pytest.mark.networks,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
    ),
]


def spread(sites: list[Site]) -> list[Site]:
    """A few, from the first to the last."""
    return [
        sites[place * (len(sites) - 1) // max(1, EACH - 1)]
        for place in range(min(EACH, len(sites)))
    ]


def check(rows: list[Row]) -> None:
    assert not [row for row in rows if row.outcome == "wrong"]
    assert all(row.detail for row in rows if row.outcome == "refused")  # no silent skip
    kept = [row for row in rows if row.outcome == "preserved"]
    assert all(max(row.eval_output, row.train_output) <= MOST for row in kept)


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLED)
def test_some_sites_of_a_network_one_at_a_time(name: str):
    rows = list(rows_of(name, spread))
    check(rows)
    assert preserved(rows)[-1] and all(row.live for row in rows if row.outcome == "preserved")


@pytest.mark.slow
@pytest.mark.parametrize("name", ZOO)
def test_every_site_of_a_network_one_at_a_time(name: str):
    rows = list(rows_of(name))
    check(rows)
    assert preserved(rows) == KNOWN[name][1]


@pytest.fixture(scope="module")
def bench() -> Bench:
    return set_up("hf:GPT2")


def test_a_wrong_edit_of_a_single_site_is_seen(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    def wrong(bench: Bench, site: Site, policy: str):
        plan = plan_alone(bench, site, policy)
        edits = [replace(e, index=e.index.flip(0)) if e.fill == "zero" else e for e in plan.edits]
        return replace(plan, edits=tuple(edits))

    assert tried(bench, bench.sites[0], "gates", {}).outcome == "preserved"
    monkeypatch.setattr("surgery.single_sites.plan_alone", wrong)
    found = tried(bench, bench.sites[0], "gates", {})
    assert found.outcome == "wrong" and found.eval_output > 1e-6


def test_the_network_is_the_same_after_a_site_was_tried(bench: Bench):
    before = copy.deepcopy(bench.model.state_dict())
    tried(bench, bench.sites[0], "streams", {})
    after = bench.model.state_dict()
    assert list(after) == list(before) and all(
        torch.equal(after[name], value) for name, value in before.items()
    )
