"""Activations of the user as units: a class, a module, a factory, a function."""

import functools

import pytest
import torch
from torch import Tensor, nn

import gatewise as gw
from gatewise.errors import ArgumentError, UnknownNameError
from gatewise.units import get_unit, list_units, registered_units, unit_from


class PerChannel(nn.Module):
    """A swish with a trained slope for each channel."""

    def __init__(self, channels: int, dim: int = 1) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.ones(channels))
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        shape = [1] * x.dim()
        shape[self.dim] = -1
        return x * torch.sigmoid(self.slope.view(shape) * x)


def square(x: Tensor) -> Tensor:
    return x * x.clamp_min(0)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5), nn.ReLU(), nn.Linear(5, 2)
    )


X = torch.randn(2, 1, 8, 8, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    "activation, expected",
    [
        (nn.Tanh, torch.tanh),
        (nn.ELU(0.3), lambda x: nn.functional.elu(x, 0.3)),
        (lambda: nn.ELU(0.7), lambda x: nn.functional.elu(x, 0.7)),
        (functools.partial(nn.ELU, alpha=0.9), lambda x: nn.functional.elu(x, 0.9)),
        (square, square),
        (torch.tanh, torch.tanh),
        (PerChannel, nn.functional.silu),
    ],
    ids=["class", "module", "factory", "partial", "function", "torch", "channels"],
)
def test_the_swapped_model_computes_with_the_activation(activation, expected):
    net = network()
    conv, _, flat, first, _, last = net
    changed = gw.swap(net, activation, X)
    by_hand = last(expected(first(flat(expected(conv(X))))))
    torch.testing.assert_close(changed(X), by_hand)
    assert torch.equal(gw.undo(changed)(X), net(X))


def test_class_gets_the_channels_of_each_place_and_each_place_its_module():
    changed = gw.swap(network(), PerChannel, X)
    assert changed[1].slope.shape == (4,)
    assert changed[4].slope.shape == (5,)
    module = nn.PReLU()
    changed = gw.swap(network(), module, X)
    assert changed[1] is not module
    assert changed[1] is not changed[4]


def test_several_units_of_one_plan_and_a_plan_read_from_json():
    plan = gw.plan(network(), {"1": square, "4": (nn.ELU, {"alpha": 0.2})}, X)
    again = gw.surgery.Plan.from_json(plan.to_json()).apply(network())
    assert again[4].alpha == 0.2
    assert torch.equal(again[1](X), square(X))


def test_name_is_kept_and_the_catalogue_is_not_changed():
    before = list_units()
    assert unit_from(PerChannel) is unit_from(PerChannel)
    assert unit_from(PerChannel).name == "per_channel"
    assert get_unit("per_channel").learns
    assert list_units() == before
    assert "per_channel" not in registered_units()
    assert unit_from(nn.ReLU).name == "relu_own"
    assert unit_from("relu") is unit_from(gw.units.ReLU) is get_unit("relu")


def test_two_activations_of_one_name_are_two_units():
    first = unit_from(lambda x: x * 2)
    second = unit_from(lambda x: x * 3)
    assert first.name != second.name
    assert float(create(first)(torch.ones(1))) == 2
    assert float(create(second)(torch.ones(1))) == 3


def create(unit) -> nn.Module:
    return gw.create_unit(unit.name)


def test_weights_of_a_module_are_part_of_its_identity():
    one = nn.PReLU(init=0.1)
    other = nn.PReLU(init=0.2)
    assert unit_from(one).fingerprint != unit_from(other).fingerprint
    assert unit_from(nn.PReLU(init=0.1)) is unit_from(one)


@pytest.mark.parametrize(
    "activation, said",
    [
        (3, "unit is not a name"),
        (None, "unit is not a name"),
        (int, "not an nn.Module"),
        (lambda x, y: x, "fails on the input"),
        (lambda x: x[:, :1], "does not keep the shape"),
        (lambda x: 1 / 0, "fails on the input"),
        (lambda x: 1, "does not keep the shape"),
        (nn.Linear, "arguments that are not known"),
        (nn.PReLU(7), "fails on the input"),
    ],
    ids=range(9),
)
def test_what_cannot_be_a_unit_is_one_clear_error(activation, said: str):
    with pytest.raises(ArgumentError, match=said):
        gw.plan(network(), activation, X)


def test_unknown_names_still_list_what_is_known():
    with pytest.raises(UnknownNameError, match="did you mean 'relu'"):
        gw.plan(network(), "rellu", X)
