"""Orthogonal weights on chosen layers.

Exact or as a penalty, and the layers that cannot are named.
"""

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

import gatewise as gw
from gatewise.errors import ArgumentError


def case() -> tuple[nn.Sequential, torch.Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 40, 3),
        nn.ReLU(),
        nn.Conv2d(40, 12, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(12 * 16, 5),
    )
    return model, torch.randn(2, 3, 8, 8)


def gram_error(weight: torch.Tensor) -> float:
    rows = weight.detach().flatten(1).double()
    return float((rows @ rows.T - torch.eye(len(rows))).abs().max())


def test_chosen_layers_are_orthonormal_and_those_that_cannot_be_are_named():
    model, x = case()
    made = gw.surgery.orthogonalize(model, x)
    receipt = gw.receipt(made)
    assert receipt.sites == ("2", "5")
    assert "40 filters of 27 weights" in receipt.refused["0"]
    assert max(gram_error(made[2].weight), gram_error(made[5].weight)) <= 1e-6
    assert torch.equal(made[0].weight, model[0].weight)
    moved = (made(x) - model(x)).abs().max() / model(x).abs().max()
    assert receipt.proof.output_float32 == pytest.approx(moved.item(), rel=1e-6)


def test_they_stay_orthonormal_when_trained():
    model, x = case()
    made = gw.surgery.orthogonalize(model, layers="2")
    optimiser = torch.optim.SGD(made.parameters(), lr=0.1)
    for _ in range(3):
        optimiser.zero_grad()
        made(x).square().mean().backward()
        optimiser.step()
    assert gram_error(made[2].weight) <= 1e-6
    assert not parametrize.is_parametrized(made[5])


def test_with_gain_filters_keep_their_lengths():
    model, _ = case()
    made = gw.surgery.orthogonalize(model, layers=["5"], gain=True)
    assert torch.allclose(made[5].weight.norm(dim=1), model[5].weight.norm(dim=1), rtol=1e-5)


def test_the_penalty_is_the_sum_over_the_chosen_layers_and_changes_nothing():
    model, x = case()
    made = gw.surgery.orthogonalize(
        model, layers=lambda path, module: path != "0", exact=False, weight=0.5
    )
    assert torch.equal(made(x), model(x)) and not parametrize.is_parametrized(made[2])
    total = 0.0
    for weight in (made[2].weight, made[5].weight):
        rows = weight.detach().flatten(1).double()
        total += float((rows @ rows.T).fill_diagonal_(0).square().sum())
    penalty = gw.receipt(made).penalty(made)
    assert penalty.item() == pytest.approx(0.5 * total, rel=1e-5)
    penalty.backward()
    assert made[2].weight.grad.any() and made[0].weight.grad is None


def test_undo_gives_the_very_parameters_back_and_deploy_bakes_them():
    model, x = case()
    weight, wanted = model[2].weight, model(x)
    state = copy.deepcopy(model.state_dict())
    assert gw.surgery.orthogonalize(model, x, inplace=True) is model
    baked = gw.surgery.deploy(model, x)
    assert set(gw.receipt(baked).baked) == {"2", "5"} and list(baked.state_dict()) == list(state)
    assert torch.allclose(baked(x), model.eval()(x), atol=1e-6)
    gw.undo(model)
    assert model[2].weight is weight and list(model.state_dict()) == list(state)
    assert torch.equal(model(x), wanted)


def test_tied_weights_and_choices_of_nothing_are_refused():
    tied = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    tied[2].weight = tied[0].weight
    with pytest.raises(ArgumentError, match="tied"):
        gw.surgery.orthogonalize(tied)
    model, _ = case()
    with pytest.raises(ArgumentError, match="no layer matches"):
        gw.surgery.orthogonalize(model, layers="nothing*")
    with pytest.raises(ArgumentError, match="at most 27 can be orthogonal"):
        gw.surgery.orthogonalize(model, layers="0")
    with pytest.raises(ArgumentError, match="method"):
        gw.surgery.orthogonalize(model, method="magic", inplace=True)
    assert not parametrize.is_parametrized(model[2])


def test_an_example_that_does_not_fit_is_our_error_and_nothing_is_changed():
    model, x = case()
    with pytest.raises(
        ArgumentError,
        match=r"example: the model cannot be run on it .*got: .*float32 \(2, 2, 8, 8\)",
    ):
        gw.surgery.orthogonalize(model, x[:, :2], inplace=True)
    assert not any(parametrize.is_parametrized(each) for each in model)
