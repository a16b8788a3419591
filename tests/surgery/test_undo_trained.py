"""Undoing a swap after training: what comes back is said, and nothing is mixed silently."""

import copy
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import gatewise as gw
from gatewise.errors import ArgumentError, LostTrainingWarning
from gatewise.surgery.rewrite import trained_weights


def dense():
    return nn.Sequential(
        nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3)
    )


def convolutional():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 6, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.LazyLinear(3),
    )


IMAGES = torch.randn(8, 3, 9, 9)


def train(model, x):
    labels = torch.arange(len(x)) % 3
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(model(x), labels).backward()
        optimizer.step()


def state(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def equal(first, second):
    return first.keys() == second.keys() and all(
        torch.equal(value, second[name]) for name, value in first.items()
    )


def quiet_undo(model, weights):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gw.undo(model, weights=weights)
    return [str(item.message) for item in caught]


@pytest.mark.parametrize("unit", ["crelu", "psc", "silu", "swish"])
def test_changed_weights_are_refused_and_nothing_is_touched(unit):
    x = torch.randn(12, 8)
    model = gw.swap(dense(), unit, x, preserve=unit in ("crelu", "psc"))
    train(model, x)
    before = state(model)
    with pytest.raises(ArgumentError, match="weights have changed since the swap"):
        gw.undo(model)
    assert equal(state(model), before) and gw.receipt(model)


@pytest.mark.parametrize("unit", ["crelu", "psc", "silu", "swish"])
def test_the_original_weights_come_back_all_of_them(unit):
    x = torch.randn(12, 8)
    original = dense()
    model = gw.swap(original, unit, x, preserve=unit in ("crelu", "psc"))
    train(model, x)
    assert quiet_undo(model, "original") == []
    assert equal(state(model), state(original))
    assert torch.equal(model(x), original(x))


def test_the_trained_weights_stay_and_what_is_left_out_is_said():
    x = torch.randn(12, 8)
    model = gw.swap(dense(), "crelu", x, preserve=True)
    train(model, x)
    trained = state(model)
    (message,) = quiet_undo(model, "trained")
    assert "2.weight" in message and "no longer computes the same" in message
    after = model.state_dict()
    for name, value in after.items():
        kept = trained[name][:, :16] if name in ("2.weight", "4.weight") else trained[name]
        assert torch.equal(value, kept), name


def test_without_training_of_new_entries_nothing_is_left_out():
    x = torch.randn(12, 8)
    model = gw.swap(dense(), "crelu", x, preserve=True)
    with torch.no_grad():
        model[0].bias += 1
    output = model(x)
    assert quiet_undo(model, "trained") == []
    torch.testing.assert_close(model(x), output)


@pytest.mark.parametrize("training", [False, True])
def test_half_the_width_folds_back_and_keeps_the_function(training):
    original = convolutional()
    original(IMAGES)
    model = gw.swap(original, "crelu", IMAGES, where=["2", "4"], width="half")
    train(model, IMAGES)
    model.train(training)
    with torch.no_grad():
        output = copy.deepcopy(model)(IMAGES)
    assert quiet_undo(model, "trained") == []
    assert model[0].weight.shape == original[0].weight.shape
    with torch.no_grad():
        torch.testing.assert_close(model(IMAGES), output)


def test_a_pool_between_layer_and_unit_does_not_fold_back():
    original = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(72, 3)
    )
    model = gw.swap(original, "crelu", IMAGES, width="half")
    train(model, IMAGES)
    trained = model[0].weight.detach().clone()
    quiet_undo(model, "trained")
    assert torch.equal(model[0].weight[:4], trained)
    assert torch.equal(model[0].weight[4:], original[0].weight[4:])


def test_originals_that_were_not_kept_are_an_error(monkeypatch):
    monkeypatch.setattr(trained_weights, "MOST_COPIED", 10)
    x = torch.randn(12, 8)
    model = gw.swap(dense(), "crelu", x, preserve=True)
    train(model, x)
    with pytest.raises(ArgumentError, match="original values of 4 weights are lost"):
        gw.undo(model, weights="original")
    with pytest.warns(LostTrainingWarning):
        gw.undo(model, weights="trained")


def test_an_optimizer_holds_the_weights_that_come_back():
    x = torch.randn(12, 8)
    model = dense()
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    gw.swap(model, "crelu", x, preserve=True, inplace=True, optimizer=optimizer)
    F.mse_loss(model(x), torch.zeros(12, 3)).backward()
    optimizer.step()
    with pytest.warns(LostTrainingWarning):
        gw.undo(model, weights="trained", optimizer=optimizer)
    assert {id(value) for value in model.parameters()} == {
        id(value) for group in optimizer.param_groups for value in group["params"]
    }
    optimizer.zero_grad()
    F.mse_loss(model(x), torch.zeros(12, 3)).backward()
    optimizer.step()


def test_an_unknown_choice_is_named():
    model = gw.swap(dense(), "silu", torch.randn(2, 8))
    with pytest.raises(ArgumentError, match="trained, original"):
        gw.undo(model, weights="new")


def test_each_of_several_swaps_is_taken_back_with_its_weights():
    x = torch.randn(12, 8)
    model = gw.swap(dense(), "crelu", x, where="1", preserve=True)
    train(model, x)
    middle = state(model)
    model = gw.swap(model, "crelu", x, where="3", preserve=True)
    train(model, x)
    gw.undo(model, weights="original")
    assert equal(state(model), middle)
    with pytest.raises(ArgumentError, match="weights have changed"):
        gw.undo(model)
