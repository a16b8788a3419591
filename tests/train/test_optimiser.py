"""Which parameters weight decay spares, and the step of every optimiser."""

import math

import pytest
import torch
from torch import nn

from gatewise.models import create_model
from gatewise.train.config import Loss, Rates, read_recipe
from gatewise.train.loop import (
    count_right,
    example_losses,
    make_optimiser,
    set_rates,
    signed_targets,
    spared_parameters,
)


def spared(network, *kinds):
    return spared_parameters(network, kinds)


def test_a_unit_says_which_of_its_parameters_are_spared():
    network = create_model("small_cnn", unit="iieu_b")
    names = {name for name, _ in network.named_parameters() if ".unit." in name}
    assert names and spared(network, "unit") == names


def test_every_parameter_of_a_unit_is_spared():
    assert {name for name in spared(create_model("small_cnn", unit="meta_acon"), "unit")} == {
        name
        for name, _ in create_model("small_cnn", unit="meta_acon").named_parameters()
        if ".unit." in name
    }


def test_a_coupler_spares_all_but_its_matrices():
    network = create_model("resnet", depth=14, scale=0.125, unit="iieu_b", coupler=True)
    coupled = {name for name, _ in network.named_parameters() if ".join." in name}
    kept = {name for name in coupled if name.endswith(("reduce.weight", "expand.weight"))}
    assert kept and coupled - spared(network, "unit") == kept


@pytest.mark.parametrize(
    "kind, expected",
    [
        ("norm", {"1.weight", "1.bias"}),
        ("bias", {"0.bias", "1.bias", "3.bias"}),
        ("vector", {"0.bias", "1.weight", "1.bias", "2.weight", "3.bias"}),
    ],
)
def test_what_is_spared_by_kind(kind, expected):
    network = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.PReLU(2), nn.Linear(2, 2))
    assert spared(network, kind) == expected


def test_spared_parameters_do_not_move_without_a_gradient_and_others_shrink():
    network = create_model("small_cnn", unit="prelu")
    optimiser = make_optimiser(network, read_recipe("optimiser = {name = 'sgd', momentum = 0.0}"))
    before = {name: p.detach().clone() for name, p in network.named_parameters()}
    for parameter in network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    set_rates(optimiser, Rates(0.1, 0.5))
    optimiser.step()
    for name, parameter in network.named_parameters():
        want = before[name] if ".unit." in name else before[name] * (1 - 0.05)
        torch.testing.assert_close(parameter.detach(), want, rtol=2**-22, atol=0.0)


# One parameter, a fixed sequence of gradients, float64 by hand.
GRADIENTS = [0.5, -1.0, 2.0, 0.25]


def by_hand(name, lr, decay):
    x, m, v = 1.0, 0.0, 0.0
    for t, gradient in enumerate(GRADIENTS, 1):
        if name == "adamw":
            x -= lr * decay * x
        g = gradient + (0.0 if name == "adamw" else decay * x)
        if name in ("sgd", "nesterov"):
            m = g if t == 1 else 0.9 * m + g
            x -= lr * (g + 0.9 * m if name == "nesterov" else m)
        elif name == "rmsprop":
            v = 0.99 * v + 0.01 * g * g
            m = 0.9 * m + g / (math.sqrt(v) + 1e-8)
            x -= lr * m
        else:
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            x -= lr * (m / (1 - 0.9**t)) / (math.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return x


@pytest.mark.parametrize("name", ["sgd", "nesterov", "adam", "adamw", "rmsprop"])
def test_the_optimiser_takes_the_step_of_its_definition(name):
    network = nn.Linear(1, 1, bias=False)
    network.weight.data.fill_(1.0)
    optimiser = make_optimiser(network, read_recipe(f"optimiser.name = '{name}'"))
    for gradient in GRADIENTS:
        set_rates(optimiser, Rates(0.05, 0.1))
        network.weight.grad = torch.full((1, 1), gradient)
        optimiser.step()
    assert network.weight.item() == pytest.approx(by_hand(name, 0.05, 0.1), rel=16 * 2**-23)


def test_cross_entropy_with_smoothing_is_its_definition():
    torch.manual_seed(0)
    outputs, labels = torch.randn(5, 4), torch.tensor([0, 1, 2, 3, 0])
    wanted = torch.full((5, 4), 0.1 / 4, dtype=torch.float64)
    wanted[range(5), labels] += 0.9
    log_share = outputs.double().log_softmax(1)
    want = -(wanted * log_share).sum(1)
    found = example_losses(Loss(label_smoothing=0.1), outputs, labels)
    torch.testing.assert_close(found.double(), want, rtol=1e-6, atol=1e-6)


def test_squared_losses_have_targets_one_and_minus_one():
    outputs, labels = torch.tensor([[0.5, -1.0, 0.0]]), torch.tensor([2])
    assert example_losses(Loss(name="mse"), outputs, labels).item() == 1.5**2 + 0 + 1
    assert example_losses(Loss(name="half_mse"), outputs, labels).item() == (1.5**2 + 1) / 2
    assert signed_targets(torch.tensor([0, 1]), 1).tolist() == [[-1.0], [1.0]]
    assert signed_targets(torch.tensor([0.25, 3.0]), 1).tolist() == [[0.25], [3.0]]


def test_what_is_right_is_the_largest_output_or_the_sign_of_a_single_one():
    assert count_right(torch.tensor([[1.0, 2.0], [3.0, 0.0]]), torch.tensor([1, 1])) == 1
    assert count_right(torch.tensor([[1.0], [-2.0], [0.5]]), torch.tensor([1, 0, 0])) == 2
    assert count_right(torch.tensor([[1.0]]), torch.tensor([1.0])) == 0
