"""A model can be swapped again; each undo takes back one swap."""

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import gatewise as gw
from gatewise.errors import ArgumentError
from gatewise.surgery import SwapFailed, applying
from gatewise.surgery.swaps import twin_of


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.act = nn.ReLU()
        self.second = nn.Conv2d(8, 8, 3, padding=1)
        self.third = nn.Conv2d(8, 8, 3, padding=1)
        self.head = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.first(x))
        x = F.relu(self.second(x))
        return self.head(F.relu(self.third(x)).mean((2, 3)))


def case() -> tuple[Network, Tensor]:
    torch.manual_seed(0)
    return Network().eval(), torch.randn(2, 3, 6, 6)


def by_hand(model: nn.Module, x: Tensor, *functions) -> Tensor:
    first, second, third = functions
    x = second(model.second(first(model.first(x))))
    return model.head(third(model.third(x)).mean((2, 3)))


def paired(x: Tensor) -> Tensor:
    return torch.cat((x.relu(), (-x).relu()), 1)


def state(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def assert_state(model: nn.Module, expected: dict[str, Tensor]) -> None:
    actual = model.state_dict()
    assert list(actual) == list(expected)
    assert all(torch.equal(actual[name], value) for name, value in expected.items())


def test_units_of_a_swap_are_sites_of_the_next_one():
    model, x = case()
    first = gw.swap(model, "silu", x)
    plan = gw.plan(first, "gelu", x)
    assert [entry.site for entry in plan.swapped] == ["act", "gw.s0", "gw.s1"]
    assert {entry.op for entry in plan.swapped} == {"silu"}
    second = plan.apply(first, inplace=False)
    assert torch.allclose(second(x), by_hand(model, x, F.gelu, F.gelu, F.gelu), atol=1e-6)
    assert torch.allclose(first(x), by_hand(model, x, F.silu, F.silu, F.silu), atol=1e-6)
    assert gw.receipt(second).earlier == 1 and gw.receipt(first).earlier == 0
    assert "earlier swaps of this model: 1" in gw.receipt(second).details


def test_calls_that_the_first_swap_left_are_rewritten_beside_its_own():
    model, x = case()
    first = gw.swap(model, "silu", x, where="*:relu#1")
    second = gw.swap(first, "mish", x, where="*:relu#0")
    expected = by_hand(model, x, torch.relu, F.mish, F.silu)
    assert torch.allclose(second(x), expected, atol=1e-6)
    assert torch.allclose(gw.undo(second)(x), by_hand(model, x, F.relu, F.relu, F.silu), atol=1e-6)
    assert torch.equal(gw.undo(second)(x), model(x)) and type(second) is Network


@pytest.mark.parametrize("width", ["half", "same"])
def test_a_unit_becomes_one_with_two_outputs(width: str):
    model, x = case()
    second = gw.swap(gw.swap(model, "silu", x), "crelu", x, width=width)
    assert torch.allclose(second(x), by_hand(second, x, paired, paired, paired), atol=1e-6)
    assert second.second.weight.shape == ((4, 8, 3, 3) if width == "half" else (8, 16, 3, 3))


PAIRS = [
    ("silu", "prelu"),
    ("prelu", "silu"),
    ("prelu", "crelu"),
    ("silu", "galu"),
    ("psc", "silu"),
    ("beta", "concat_act"),
    ("silu", "iieu_b"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), PAIRS)
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_each_undo_takes_back_one_swap_of_a_copy_too(first: str, second: str, copied):
    model, x = case()
    once = gw.swap(model, first, x)
    twice = copied(gw.swap(once, second, x))
    gw.undo(twice)
    assert_state(twice, state(once))
    assert torch.equal(twice(x), once(x)) and gw.receipt(twice).unit == first
    gw.undo(twice)
    assert_state(twice, state(model))
    assert torch.equal(twice(x), model(x)) and type(twice) is Network
    assert not twice._forward_hooks and not twice._load_state_dict_pre_hooks
    with pytest.raises(ArgumentError, match="no units were put into it"):
        gw.undo(twice)


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_checkpoints_of_every_stage_load(first: str, second: str):
    model, x = case()
    once = gw.swap(model, first, x)
    twice = gw.swap(once, second, x)
    own = state(twice)
    for checkpoint in (state(model), state(once)):
        twice.load_state_dict(checkpoint)
    twice.load_state_dict(own)
    assert_state(twice, own)


def test_an_original_checkpoint_goes_through_both_widenings():
    model, x = case()
    once = gw.swap(model, "crelu", x, where="act", preserve=True)
    twice = gw.swap(once, "crelu", x, where="*:relu#0", preserve=True)
    torch.manual_seed(1)
    other = Network().eval()
    twice.load_state_dict(other.state_dict())
    assert torch.allclose(twice(x), other(x), atol=1e-5)
    once.load_state_dict(other.state_dict())
    twice.load_state_dict(once.state_dict())
    assert torch.allclose(twice(x), other(x), atol=1e-5)


@pytest.mark.slow
def test_a_failure_of_the_second_swap_leaves_the_first(monkeypatch: pytest.MonkeyPatch):
    model, x = case()
    once = gw.swap(model, "prelu", x)
    before, output, receipt = state(once), once(x), gw.receipt(once)
    kind = type(once)

    def fail(*_):
        raise SwapFailed("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(applying, "prove", fail)
        for unit in ("crelu", "silu", "galu", "iieu_b"):
            with pytest.raises(SwapFailed, match="stopped"):
                gw.swap(once, unit, x, inplace=True)
            assert_state(once, before)
            assert torch.equal(once(x), output)
            assert gw.receipt(once) is receipt and type(once) is kind
    once.load_state_dict(model.state_dict())
    assert torch.equal(gw.undo(once)(x), model(x))


def test_an_optimizer_follows_both_swaps_and_both_undos():
    model, x = case()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(x).sum().backward()
    optimizer.step()
    held = [id(parameter) for parameter in optimizer.param_groups[0]["params"]]
    for unit, where in (("crelu", "act"), ("prelu", "*:relu#0")):
        gw.swap(model, unit, x, where=where, inplace=True, optimizer=optimizer)
        parameters = {id(parameter) for parameter in model.parameters()}
        assert parameters == {id(each) for each in optimizer.param_groups[0]["params"]}
    gw.undo(model, optimizer=optimizer)
    gw.undo(model, optimizer=optimizer)
    assert [id(parameter) for parameter in optimizer.param_groups[0]["params"]] == held
    assert all(parameter in optimizer.state for parameter in model.parameters())


def test_a_plan_is_for_one_state_of_the_model():
    model, x = case()
    plan = gw.plan(model, "silu", x)
    once = plan.apply(model, inplace=False)
    with pytest.raises(ArgumentError, match="already, after the plan was made"):
        plan.apply(once)
    later = gw.plan(once, "gelu", x)
    with pytest.raises(ArgumentError, match="after earlier swaps"):
        later.apply(model)


def test_what_is_inside_a_unit_or_a_gate_network_is_refused_by_site():
    model, x = case()
    once = gw.swap(model, "crelu", x, where="act", width="same")
    refused = {entry.site: entry.reason for entry in gw.plan(once, "silu", x).refused}
    assert refused == {"act": "OTHER_WIDTH"}
    gated = gw.swap(model, "galu", x, where="act")
    plan = gw.plan(gated, "silu", x)
    assert {entry.reason for entry in plan.refused} == {"GATE"}
    assert len(plan.swapped) == 2


def test_a_second_gate_network_takes_the_first_one_along():
    model, x = case()
    once = gw.swap(model, "galu", x, where="act", preserve=True)
    twice = gw.swap(once, "galu", x, where="*:relu#0", preserve=True)
    assert torch.allclose(twice(x), model(x), atol=1e-6)
    with torch.no_grad():
        twice.second.weight.mul_(-1)  # the gates stay where they were
    hidden = model.act(model.first(x))
    hidden = twice.second(hidden) * (model.second(hidden) > 0)
    expected = model.head(F.relu(model.third(hidden)).mean((2, 3)))
    assert torch.allclose(twice(x), expected, atol=1e-6)
    gw.undo(twice, weights="trained")
    assert len(twice._forward_pre_hooks) == 1 and isinstance(twice_network(twice), Network)


def twice_network(model: nn.Module) -> nn.Module:
    return twin_of(model)


def test_a_shared_unit_of_an_earlier_swap_is_replaced_once():
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(5, 5)

        def block(self, x: Tensor) -> Tensor:
            return F.relu(self.first(x))

        def forward(self, x: Tensor) -> Tensor:
            return self.block(self.block(x))

    torch.manual_seed(0)
    model, x = Twice().eval(), torch.randn(2, 5)
    once = gw.swap(model, "silu", x)
    twice = gw.swap(once, "mish", x)
    expected = F.mish(model.first(F.mish(model.first(x))))
    assert torch.allclose(twice(x), expected, atol=1e-6)
    assert torch.equal(gw.undo(gw.undo(twice))(x), model(x))


def test_a_unit_with_more_outputs_is_one_site_that_where_selects():
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()
    x = torch.randn(3, 8)
    once = gw.swap(model, "crelu", x, preserve=True)
    (site,) = gw.find_sites(once, x)
    assert (site.name, site.op, site.channels) == ("1", "crelu", 32)
    (found,) = gw.identify(once, x).sites
    assert found.function == "crelu"
    with pytest.raises(ArgumentError, match=r"the only site .* \(gw.undo\(model\) takes back"):
        gw.plan(once, "relu", x, where=["re:^1$"])
    assert len(gw.plan(gw.undo(once), "relu", x, where=["re:^1$"]).swapped) == 1
