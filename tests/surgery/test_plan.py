"""Plans: which sites, why not the others, what it comes to.

Plain data that can be kept and used again.
"""

import json
import re
from pathlib import Path

import pytest
import torch
from surgery.small_networks import Excited, Residual, image, plain, rows
from torch import nn

import gatewise as gw
from gatewise.errors import ArgumentError, UnknownNameError
from gatewise.surgery import Plan, Reason
from gatewise.surgery.propagate import from_runs, to_runs


def network(make=Residual) -> nn.Module:
    torch.manual_seed(0)
    return make().eval()


def swapped(model: nn.Module, x: torch.Tensor, **choices) -> list[str]:
    return [entry.site for entry in gw.plan(model, "silu", x, **choices).swapped]


@pytest.mark.parametrize(
    ("where", "sites"),
    [
        ("act1", ["act1"]),
        ("act*", ["act0", "act1", "act2"]),
        ("re:[12]$", ["act1", "act2"]),
        (re.compile("0"), ["act0"]),
        ("class:ReLU", ["act0", "act1", "act2"]),
        (nn.ReLU, ["act0", "act1", "act2"]),
        ("role:stem", ["act0"]),
        ("role:block-out", ["act2"]),
        ("role:block-inner", ["act1"]),
        ("depth:0.4-1", ["act1", "act2"]),
        (lambda site: site.channels == 8 and site.name.endswith("2"), ["act2"]),
        (["act0", "role:block-out"], ["act0", "act2"]),
    ],
)
def test_sites_are_selected(where, sites: list[str]):
    assert swapped(network(), image(), where=where) == sites


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("layer9.*", "no activation site matches.*fix: a glob"),
        ("act11", "no activation site matches.*did you mean 'act1'"),
        (["atc2"], "no activation site matches.*did you mean 'act2'"),
        ("role:nothing", "role is not allowed"),
        ("re:(", "not a regular expression"),
        ("depth:x", "not a range of depths"),
        (3, "cannot select sites"),
    ],
)
def test_a_selection_that_matches_nothing_or_makes_no_sense_is_our_error(where, words: str):
    with pytest.raises(ArgumentError, match=words):
        gw.plan(network(), "silu", image(), where=where)


def test_gates_are_left_unless_asked_for_and_the_plan_says_so():
    model, x = network(Excited), image()
    left = {
        entry.site: entry.reason
        for entry in gw.plan(model, "silu", x).entries
        if entry.change == "leave"
    }
    assert left == {"(model):sigmoid#1": "GATE"}
    assert "(model):sigmoid#1" in swapped(model, x, gates=True)


@pytest.mark.parametrize(
    ("policy", "reasons"),
    [
        ("consumers", {"act0": "RESIDUAL"}),
        ("gates", {"act0": "RESIDUAL"}),
        ("streams", {"act2": "ALREADY_WIDENED"}),
    ],
)
def test_a_refused_site_has_a_reason_of_the_closed_list(policy: str, reasons: dict[str, str]):
    plan = gw.plan(network(), "crelu", image(), preserve=True, policy=policy)
    assert {entry.site: entry.reason for entry in plan.refused} == reasons
    assert all(Reason[reason].value in str(plan) for reason in reasons.values())


def test_the_gate_of_a_widened_tensor_is_widened_only_if_the_policy_says_so():
    model, x = network(Excited), image()
    assert gw.plan(model, "crelu", x, where="act1", preserve=True).swapped
    with pytest.raises(ArgumentError, match="multiplied by an unwidened tensor"):
        gw.plan(model, "crelu", x, where="act1", preserve=True, policy="consumers")


def test_a_plan_counts_parameters_and_operations_by_hand():
    model = network(lambda: nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)))
    plan = gw.plan(model, "crelu", rows(), preserve=True)
    assert plan.parameters == (35 + 18, 35 + 33)
    assert plan.operations == (2 * 2 * 30 + 2 * 5 + 2 * 2 * 15, 2 * 2 * 30 + 2 * 10 + 2 * 2 * 30)
    changed = plan.apply(model, inplace=False)
    assert sum(p.numel() for p in changed.parameters()) == plan.parameters[1]


@pytest.mark.parametrize(
    ("unit", "choices"), [("crelu", {"preserve": True}), ("psc", {}), ("prelu", {})]
)
@pytest.mark.parametrize("make", [plain, Excited])
def test_a_plan_is_written_read_and_used_on_a_fresh_model(make, unit: str, choices: dict):
    x = image()
    plan = gw.plan(network(make), unit, x, **choices)
    read = Plan.from_json(plan.to_json())
    assert read.to_json() == plan.to_json() and str(read) == str(plan)
    assert json.loads(plan.to_json())["unit"] == unit
    one, other = read.apply(network(make), example=x), plan.apply(network(make))
    assert torch.equal(one(x), other(x))
    assert (
        gw.receipt(read.apply(network(make))).proof is None
    )  # no example, no proof, and it is said
    assert "NOT CHECKED" in str(gw.receipt(read.apply(network(make))))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"gatewise_plan": 2}',
        '{"gatewise_plan": 1}',
        '{"gatewise_plan": 1, "entries": 3}',
    ],
)
def test_text_that_is_no_plan_is_refused(text: str):
    with pytest.raises(ArgumentError, match="not one of ours"):
        Plan.from_json(text)


def test_a_plan_for_another_model_is_refused():
    plan = gw.plan(network(), "crelu", image(), preserve=True)
    with pytest.raises(ArgumentError, match="other parameters"):
        plan.apply(network(Excited))


def test_a_plan_that_changes_nothing_is_an_error_with_the_reasons():
    model = network(lambda: nn.Sequential(nn.Linear(6, 5), nn.GELU()))
    with pytest.raises(ArgumentError, match=r"nothing would change.*not positively homogeneous"):
        gw.plan(model, "psc", rows(), preserve=True)
    with pytest.raises(ArgumentError, match="calls no activation function"):
        gw.plan(nn.Sequential(nn.Linear(6, 5)), "silu", rows())


@pytest.mark.parametrize(
    ("unit", "choices", "error"),
    [
        ("crellu", {}, UnknownNameError),
        ("maxout", {}, ArgumentError),
        ("crelu", {"width": "double"}, UnknownNameError),
        ("crelu", {"width": "half", "preserve": True}, ArgumentError),
        ("crelu", {"policy": "all"}, UnknownNameError),
        ("crelu", {"slope": 1}, ArgumentError),
        ("silu", {"slope": 1}, ArgumentError),
    ],
)
def test_a_wrong_choice_is_our_error(unit: str, choices: dict, error: type):
    with pytest.raises(error):
        gw.swap(network(), unit, image(), **choices)


def test_every_reason_is_one_that_some_planner_gives():
    files = Path(gw.surgery.__file__).parent.rglob("*.py")
    given = set(
        re.findall(r"Reason\.([A-Z]\w+)", "".join(file.read_text("utf-8") for file in files))
    )
    assert given == set(Reason.__members__)


@pytest.mark.parametrize(
    ("wrong", "near"),
    [("pcs", "psc"), ("iieu_d", "iieu_dc"), ("concatact", "concat_act"), ("betas", "beta")],
)
def test_a_wrong_unit_is_told_of_the_swaps_that_are_no_units(wrong: str, near: str):
    with pytest.raises(
        UnknownNameError, match=f"did you mean '{near}'.*concat_act, .*galu, .*iieu_dc, .*psc"
    ):
        gw.plan(nn.Sequential(nn.Linear(6, 6), nn.ReLU()), wrong, rows())


def test_a_receipt_names_what_was_refused_and_says_the_proof_in_words():
    model, x = network(), image()
    receipt = gw.receipt(gw.swap(model, "crelu", x, preserve=True))
    text = receipt.details
    assert receipt.refused and all(
        site in text and why in text for site, why in receipt.refused.items()
    )
    assert "live edits: 2 of 2 new weights have gradients" in text
    before, after = receipt.proof.saved_bytes
    assert f"saved bytes: {before:,} to {after:,}" in text
    with pytest.raises(
        ArgumentError, match=r"nothing would change.*fix: preserve=False, or choose"
    ):
        gw.plan(model, "gelu", x, preserve=True)


def test_the_fix_of_a_refused_plan_is_one_that_works():
    model, x = between_layers(nn.GELU()).eval(), rows()
    with pytest.raises(ArgumentError, match=r"the only site .*fix: hidden='matched', or") as found:
        gw.plan(model, "swiglu", x)
    assert "preserve" not in str(found.value) and "policy" not in str(found.value)
    assert len(gw.plan(model, "swiglu", x, hidden="matched").swapped) == 1
    for other, unit in ((network(), "swiglu"), (model, "situ_glu")):
        with pytest.raises(ArgumentError, match=r"not the gate of a gated linear unit;") as found:
            gw.plan(other.eval(), unit, image() if unit == "swiglu" else x)
        assert "hidden" not in str(found.value)


def between_layers(act: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), act, nn.Linear(8, 2))


class LeakyCall(nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return nn.functional.leaky_relu(super().forward(input), 0.3)


@pytest.mark.parametrize(
    ("unit", "act", "options"),
    [
        ("leaky_relu", nn.LeakyReLU(0.1), {"slope": 0.1}),
        ("leaky_relu", nn.LeakyReLU(), {"slope": 0.01}),
        ("leaky_relu", LeakyCall(8, 8), {"slope": 0.3}),
        ("elu", nn.ELU(0.5), {"alpha": 0.5}),
        ("softplus", nn.Softplus(2.0), {"beta": 2.0}),
    ],
)
def test_the_numbers_of_an_activation_go_to_the_unit_of_its_name(
    unit: str, act: nn.Module, options: dict[str, float]
):
    model, x = between_layers(act), rows()
    plan = gw.plan(model, unit, x, preserve=True)
    assert plan.swapped[0].options == options
    changed = Plan.from_json(plan.to_json()).apply(model, example=x, inplace=False)
    torch.testing.assert_close(changed(3 * x), model(3 * x))  # float32: the unit's own rounding
    assert gw.plan(model, unit, x).swapped[0].options == options
    assert gw.plan(model, unit, x, preserve=False).swapped[0].options == {}


@pytest.mark.parametrize(
    ("wrong", "right", "given", "says"),
    [
        (nn.GELU("tanh"), nn.GELU(), {}, "gelu with approximate='tanh'"),
        (nn.Softplus(1.0, 3.0), nn.Softplus(), {}, "softplus with threshold=3.0"),
        (nn.Softplus(-1.0), nn.Softplus(), {}, "softplus: beta is not allowed"),
        (
            nn.LeakyReLU(0.1),
            nn.LeakyReLU(0.2),
            {"slope": 0.2},
            "leaky_relu with negative_slope=0.1 by slope=0.2",
        ),
    ],
)
def test_numbers_that_the_unit_of_the_same_name_does_not_have_are_refused(
    wrong, right, given, says
):
    unit = {"GELU": "gelu", "Softplus": "softplus", "LeakyReLU": "leaky_relu"}[type(wrong).__name__]
    model = nn.Sequential(*between_layers(wrong), right, nn.Linear(2, 2))
    plan = gw.plan(model, unit, rows(), preserve=True, **given)
    assert [(entry.site, entry.reason) for entry in plan.refused] == [("1", "NOT_PRESERVED")]
    assert says in plan.refused[0].detail and [entry.site for entry in plan.swapped] == ["3"]
    plan.apply(model)


def test_indices_are_written_as_runs_and_read_back():
    for numbers, runs in (
        ([], []),
        ([7], [[7, 0, 1]]),
        ([0, 1, 2, 0, 1, 2], [[0, 1, 3], [0, 1, 3]]),
        ([1, 3, 5, 6], [[1, 2, 3], [6, 0, 1]]),
        ([4, 4, 9, 2, 3], [[4, 0, 2], [9, -7, 2], [3, 0, 1]]),
    ):
        assert to_runs(torch.tensor(numbers, dtype=torch.int64)) == runs
    generator = torch.Generator().manual_seed(0)
    for length in range(40):
        values = torch.randint(3, (length,), generator=generator)
        assert torch.equal(from_runs(to_runs(values)), values)


@pytest.mark.parametrize("options", [{"slop": 0.1}, {"slope": "abc"}], ids=str)
def test_a_wrong_option_of_a_unit_is_an_error_of_the_plan(options: dict) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    with pytest.raises(ArgumentError, match="leaky_relu"):
        gw.plan(model, "leaky_relu", torch.randn(2, 3), preserve=False, **options)
