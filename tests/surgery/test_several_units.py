"""Several units in one plan: each site gets its own, and changes of width agree."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import gatewise as gw
from gatewise.errors import ArgumentError
from gatewise.surgery import Plan, Request


class Network(nn.Module):
    """Two module activations and one functional call."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.act1 = nn.ReLU()
        self.second = nn.Conv2d(8, 8, 3, padding=1)
        self.act2 = nn.ReLU()
        self.third = nn.Conv2d(8, 6, 3, padding=1)
        self.head = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.act1(self.first(x))
        x = self.act2(self.second(x))
        return self.head(F.relu(self.third(x)).mean((2, 3)))


def case() -> tuple[Network, Tensor]:
    torch.manual_seed(0)
    return Network().eval(), torch.randn(2, 3, 6, 6)


def test_each_site_gets_the_unit_of_the_first_pattern_that_matches():
    model, x = case()
    units = {"act1": "mish", "act*": ("elu", {"alpha": 0.5}), "*:relu#0": Request("silu")}
    changed = gw.swap(model, units, x)
    expected = F.mish(model.first(x))
    expected = F.elu(model.second(expected), 0.5)
    expected = model.head(F.silu(model.third(expected)).mean((2, 3)))
    assert torch.allclose(changed(x), expected, atol=1e-6)
    receipt = gw.receipt(changed)
    assert receipt.units == {"act1": "mish", "act2": "elu", "(model):relu#0": "silu"}
    assert receipt.proof is not None and receipt.proof.against_reference <= 1e-6
    assert "elu: act2" in receipt.details


def test_a_printed_plan_and_its_text_name_the_unit_of_each_site():
    model, x = case()
    plan = gw.plan(model, {"act1": "mish", "act2": "elu"}, x)
    assert "relu to mish" in str(plan) and "relu to elu" in str(plan)
    assert plan.unit == "mish, elu"
    again = Plan.from_json(plan.to_json())
    assert again.entries == plan.entries
    changed = again.apply(model, inplace=False)
    assert torch.equal(changed(x), plan.apply(model, inplace=False)(x))
    assert [entry.change for entry in plan.entries] == ["swap", "swap", "leave"]


def test_two_widening_units_are_followed_together_and_preserve_the_function():
    model, x = case()
    plan = gw.plan(model, {"act1": "crelu", "*": "concat_act"}, x, preserve=True)
    assert {entry.site: entry.unit for entry in plan.swapped} == {
        "act1": "crelu",
        "act2": "concat_act",
        "(model):relu#0": "concat_act",
    }
    changed = plan.apply(model, inplace=False)
    assert changed.second.weight.shape == (8, 16, 3, 3)
    assert changed.third.weight.shape == (6, 16, 3, 3)
    assert changed.head.weight.shape == (4, 12)
    assert torch.allclose(changed(x), model(x), atol=1e-5)
    changed.load_state_dict(model.state_dict())
    assert torch.allclose(changed(x), model(x), atol=1e-5)


def test_a_width_of_its_own_for_each_request():
    model, x = case()
    units = {"act1": Request("crelu", width="half"), "act2": Request("crelu", width="same")}
    plan = gw.plan(model, units, x)
    assert plan.width == "mixed"
    changed = plan.apply(model, inplace=False)
    assert changed.first.weight.shape == (4, 3, 3, 3)
    assert changed.second.weight.shape == (8, 8, 3, 3)
    assert changed.third.weight.shape == (6, 16, 3, 3)
    before = changed.first(x)
    hidden = changed.second(torch.cat((before.relu(), (-before).relu()), 1))
    hidden = changed.third(torch.cat((hidden.relu(), (-hidden).relu()), 1))
    expected = changed.head(hidden.relu().mean((2, 3)))
    assert torch.allclose(changed(x), expected, atol=1e-6)


def test_a_phase_selective_layer_next_to_a_widened_one():
    model, x = case()
    plan = gw.plan(model, {"act1": "psc", "act2": "crelu"}, x, preserve=True)
    assert [entry.unit for entry in plan.swapped] == ["psc", "crelu"]
    changed = plan.apply(model, inplace=False)
    assert torch.allclose(changed(x), model(x), atol=1e-5)
    assert changed.second.weight_neg.shape == (8, 8, 3, 3)


class Chain(nn.Module):
    """Two activations in a row, so that the second reads what the first makes."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.act1 = nn.ReLU()
        self.act2 = nn.LeakyReLU(0.1)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.act2(self.act1(self.first(x))))


@pytest.mark.parametrize("unit", ["prelu", "galu", "psc"])
def test_a_unit_whose_channels_another_swap_changes_is_refused(unit: str):
    torch.manual_seed(0)
    plan = gw.plan(Chain().eval(), {"act1": "crelu", "act2": unit}, torch.randn(4, 6), width="same")
    refused = {entry.site: (entry.reason, entry.detail) for entry in plan.refused}
    assert refused == {"act2": ("DIFFERENT", "another swap changes its channels")}
    assert [entry.site for entry in plan.swapped] == ["act1"]


def test_an_elementwise_unit_follows_changed_channels():
    torch.manual_seed(0)
    model, x = Chain().eval(), torch.randn(4, 6)
    changed = gw.swap(model, {"act1": "crelu", "act2": "silu"}, x, width="same")
    hidden = changed.first(x)
    hidden = F.silu(torch.cat((hidden.relu(), (-hidden).relu()), 1))
    assert torch.allclose(changed(x), changed.head(hidden), atol=1e-6)


@pytest.mark.parametrize(
    ("units", "choices", "message"),
    [
        ({}, {}, "not a name or a mapping"),
        ({"act1": 3}, {}, "no unit for where='act1'"),
        ({"act1": ("silu",)}, {}, "no unit for where='act1'"),
        ({"act1": "silu"}, {"where": "act1"}, "has its own sites and options"),
        ({"act1": "silu"}, {"alpha": 1.0}, "has its own sites and options"),
        ({"act1": "silu", "nothing": "elu"}, {}, "no activation site matches"),
        ({"act1": "silo"}, {}, "did you mean"),
        ({"act1": "silu", "act2": "beta"}, {"match": "parameters"}, "cannot be matched"),
        (
            {"act1": "galu", "act2": ("galu", {"gate": "soft"})},
            {},
            "one plan has one gate network",
        ),
    ],
)
def test_what_cannot_be_asked_for_is_our_error(units, choices, message):
    model, x = case()
    with pytest.raises(ArgumentError, match=message):
        gw.plan(model, units, x, **choices)


def test_calls_that_share_a_unit_change_alike_or_not_at_all():
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(5, 5)
            self.act = nn.ReLU()

        def block(self, x: Tensor) -> Tensor:
            return self.act(self.first(x))

        def forward(self, x: Tensor) -> Tensor:
            return self.block(self.block(x))

    torch.manual_seed(0)
    model, x = Twice().eval(), torch.randn(2, 5)
    assert [site.name for site in gw.find_sites(model, x)] == ["act", "act@1"]
    with pytest.raises(ArgumentError, match="serves several layers"):
        gw.plan(model, {"re:^act$": "silu", "act@1": "mish"}, x)
