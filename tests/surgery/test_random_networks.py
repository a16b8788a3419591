"""Random networks: what is preserved is preserved, undone and idempotent.

Nothing is wrong, nothing is skipped.
"""

from collections import Counter

import pytest
import torch
from surgery.random_networks import RandomNetwork, example
from torch import nn

import gatewise as gw
from gatewise.errors import ArgumentError
from gatewise.surgery import Plan
from gatewise.surgery.proof import SwapFailed

QUICK, FULL = 60, 2000
CHOICES = (
    ("crelu", {"policy": "consumers"}),
    ("crelu", {"policy": "gates"}),
    ("crelu", {"policy": "streams"}),
    ("psc", {}),
)


def network(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return RandomNetwork(seed).eval()


def outputs(model: nn.Module, training: bool) -> torch.Tensor:
    """In float64, on a batch the surgery has not seen, batch statistics included."""
    torch.manual_seed(1)
    x = torch.randn(3, 3, 6, 6, dtype=torch.float64)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    result = model.double().train(training)(x).detach()
    model.float().eval().load_state_dict(state)
    return result


def try_one(seed: int, count: Counter, choice: tuple[str, dict] | None = None) -> None:
    model, (unit, choices) = network(seed), choice or CHOICES[seed % len(CHOICES)]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    want = [outputs(model, training) for training in (False, True)]
    try:
        plan = gw.plan(model, unit, example(), preserve=True, **choices)
    except ArgumentError as problem:
        assert "nothing would change" in str(problem) or "no activation" in str(problem)
        count["nothing"] += 1
        return
    assert all(entry.reason for entry in plan.entries if entry.change != "swap")  # no silent skip
    try:
        changed = plan.apply(model, inplace=False)
    except SwapFailed:
        count["caught"] += 1  # a wrong plan that the proof has found: counted, and bounded below
        return
    for training, expected in zip((False, True), want, strict=True):
        got = outputs(changed, training)
        assert (got - expected).abs().max() <= 1e-11 * expected.abs().max(), (
            f"seed {seed}, training {training}"
        )
    proof = gw.receipt(changed).proof
    count["swapped"] += len(plan.swapped)
    count["put back"] += len(plan.put_back)
    count["live"] += proof.live_edits[0]
    count["edits"] += proof.live_edits[1]
    assert_idempotent(changed, plan, before)
    assert {name: value.shape for name, value in model.state_dict().items()} == {
        n: v.shape for n, v in before.items()
    }


def assert_idempotent(changed: nn.Module, plan: Plan, before: dict[str, torch.Tensor]) -> None:
    """Undoing a swap restores the model, and the plan read from text gives the same swap."""
    with pytest.raises(ArgumentError, match="already"):
        plan.apply(changed)
    after = {name: value.clone() for name, value in changed.state_dict().items()}
    assert_undone(gw.undo(changed), before)
    again = Plan.from_json(plan.to_json()).apply(changed)
    assert_undone(again, after)
    assert_undone(gw.undo(again), before)


def assert_undone(model: nn.Module, before: dict[str, torch.Tensor]) -> None:
    after = model.state_dict()
    assert list(after) == list(before)
    assert all(torch.equal(after[name], value) for name, value in before.items())


def try_many(seeds: range, choice: tuple[str, dict] | None = None) -> Counter:
    count: Counter = Counter()
    for seed in seeds:
        try_one(seed, count, choice)
    assert count["live"] >= 0.75 * count["edits"], count
    assert count["caught"] <= len(seeds) / 100, count
    assert count["swapped"] > len(seeds), count
    return count


@pytest.mark.slow
def test_sixty_random_networks_keep_their_function():
    print(try_many(range(QUICK)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::gatewise.errors.RectifiedInputWarning")  # some are rectified
def test_two_thousand_random_networks_keep_their_function():
    print(try_many(range(QUICK, QUICK + FULL)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::gatewise.errors.RectifiedInputWarning")  # they are rectified
def test_random_networks_keep_their_function_with_activations_put_back():
    assert try_many(range(QUICK // 2), ("psc", {"put_back": True}))["put back"] > QUICK // 10


@pytest.mark.slow
def test_many_random_networks_keep_their_function_with_activations_put_back():
    print(try_many(range(QUICK, QUICK + FULL // 4), ("psc", {"put_back": True})))


@pytest.mark.parametrize("seed", [633, 1413])
def test_calls_that_share_a_unit_have_one_layout(seed: int):
    plan = gw.plan(network(seed), "crelu", example(), preserve=True)
    assert {entry.reason for entry in plan.refused if entry.site.startswith("blocks.0.act")} == {
        "SHARED_CALL"
    }
    plan.apply(network(seed))  # the proof found two layouts for one unit, before
