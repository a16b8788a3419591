"""An optimiser is carried over a swap.

It holds the changed model's parameters, and what it knew of the old entries.
"""

import copy

import pytest
import torch
from surgery.small_networks import image, plain
from torch import nn

import gatewise as gw
from gatewise.errors import ArgumentError


def trained(make=torch.optim.AdamW) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = plain()
    optimizer = make(
        [
            {"params": list(model[0].parameters())},
            {"params": list(model[1:].parameters()), "lr": 0.1},
        ]
    )
    step(model, optimizer)
    return model, optimizer


def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    model(image(4)).square().sum().backward()
    optimizer.step()


def held(optimizer: torch.optim.Optimizer) -> list[set[int]]:
    return [{id(each) for each in group["params"]} for group in optimizer.param_groups]


def test_the_state_of_old_entries_stays_and_that_of_new_ones_starts_at_zero():
    model, optimizer = trained()
    old = optimizer.state[model[9].weight]["exp_avg"].clone()
    gw.swap(model, "crelu", image(), preserve=True, inplace=True, optimizer=optimizer)
    new = optimizer.state[model[9].weight]
    assert (
        torch.equal(new["exp_avg"], torch.cat((old, torch.zeros_like(old)), 1)) and new["step"] == 1
    )
    assert set().union(*held(optimizer)) == {id(each) for each in model.parameters()}
    assert held(optimizer)[0] == {id(each) for each in model[0].parameters()}
    before = model[9].weight.detach().clone()
    step(model, optimizer)
    assert (model[9].weight != before)[:, 10:].any()  # new columns learn


@pytest.mark.parametrize("unit", ["psc", "prelu"])
def test_new_parameters_are_held_once_and_learn(unit: str):
    model, optimizer = trained(lambda groups: torch.optim.SGD(groups, lr=0.01, momentum=0.9))
    gw.swap(model, unit, image(), preserve=unit == "psc", inplace=True, optimizer=optimizer)
    counted = [id(each) for group in optimizer.param_groups for each in group["params"]]
    assert sorted(counted) == sorted(id(each) for each in model.parameters())
    if unit == "psc":
        assert id(model[4].weight_neg) in held(optimizer)[1]  # beside its layer's own weight
    step(model, optimizer)


def test_parameters_that_are_gone_are_let_go():
    model = nn.Sequential(nn.Linear(6, 5), nn.PReLU(5), nn.Linear(5, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.randn(2, 6)).sum().backward()
    optimizer.step()
    gw.swap(model, "silu", torch.randn(2, 6), inplace=True, optimizer=optimizer)
    assert held(optimizer) == [{id(each) for each in model.parameters()}]
    assert {id(each) for each in optimizer.state} == held(optimizer)[0]


@pytest.mark.parametrize("unit", ["crelu", "psc", "prelu"])
@pytest.mark.parametrize("trained_since", [False, True])
def test_undo_gives_the_optimiser_back_bit_by_bit(unit: str, trained_since: bool):
    model, optimizer = trained(torch.optim.Adam)
    before = copy.deepcopy(optimizer.state_dict())
    parameters = list(model.parameters())
    groups = [list(group["params"]) for group in optimizer.param_groups]
    gw.swap(model, unit, image(), preserve=unit != "prelu", inplace=True, optimizer=optimizer)
    replaced = [not any(each is one for one in model.parameters()) for each in parameters]
    if trained_since:
        step(model, optimizer)
    gw.undo(model, weights="original" if trained_since else None, optimizer=optimizer)
    after = optimizer.state_dict()
    assert all(a is b for a, b in zip(parameters, model.parameters(), strict=True))
    assert [[id(each) for each in group["params"]] for group in optimizer.param_groups] == [
        [id(each) for each in group] for group in groups
    ]
    assert (
        before["param_groups"] == after["param_groups"]
        and before["state"].keys() == after["state"].keys()
    )
    for number, state in before["state"].items():
        if replaced[number] or not trained_since:  # the others are the same weights, trained on
            assert all(
                torch.equal(value, after["state"][number][name]) for name, value in state.items()
            )
    assert any(replaced) == (unit == "crelu")
    step(model, optimizer)


def test_undo_gives_back_the_state_of_parameters_that_were_let_go():
    model = nn.Sequential(nn.Linear(6, 5), nn.PReLU(5), nn.Linear(5, 3))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(2, 6)).sum().backward()
    optimizer.step()
    old = optimizer.state[model[1].weight]["exp_avg_sq"].clone()
    gw.swap(model, "silu", torch.randn(2, 6), inplace=True, optimizer=optimizer)
    gw.undo(model, optimizer=optimizer)
    assert torch.equal(optimizer.state[model[1].weight]["exp_avg_sq"], old)


def test_undo_refuses_an_optimiser_that_was_not_carried_over_and_leaves_the_model():
    model, optimizer = trained()
    gw.swap(model, "crelu", image(), preserve=True, inplace=True, optimizer=optimizer)
    for other in ("adam", copy.copy(optimizer), torch.optim.SGD(model.parameters(), lr=0.1)):
        with pytest.raises(ArgumentError, match="carried over"):
            gw.undo(model, optimizer=other)
    assert gw.receipt(model).unit == "crelu"


@pytest.mark.parametrize(
    ("optimizer", "inplace"),
    [
        ("sgd", True),
        (torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1), True),
        (None, False),
    ],
)
def test_an_optimiser_of_something_else_is_refused(optimizer, inplace: bool):
    model, own = trained()
    with pytest.raises(ArgumentError, match="optimizer"):
        gw.swap(model, "silu", image(), inplace=inplace, optimizer=optimizer or own)
