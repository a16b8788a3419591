"""Reading a network as linear maps and gates: applied one after another, the steps are the network."""

import pytest
import torch
from torch import nn

import gatewise as gw
from gatewise.errors import ArgumentError
from gatewise.layers.path_steps import Gate, path_steps

UNITS = [
    nn.ReLU(), nn.LeakyReLU(0.2), nn.SiLU(), nn.Identity(),
    gw.nn.ReLU(), gw.nn.LeakyReLU(slope=0.25), gw.nn.Abs(), gw.nn.SoftReLU(beta=3.0), gw.nn.SiLU(),
]  # fmt: skip


def dense(unit: nn.Module) -> tuple[nn.Module, tuple[int, ...]]:
    return nn.Sequential(nn.Linear(3, 4, bias=False), nn.Sequential(unit, nn.Linear(4, 2, bias=False))), (3,)


def convolutional(unit: nn.Module) -> tuple[nn.Module, tuple[int, ...]]:
    layers = [
        nn.Conv2d(4, 6, 3, padding=1, groups=2, bias=False), unit, nn.AvgPool2d(2, padding=1), unit,
        nn.Conv2d(6, 3, 2, stride=2, padding=1, padding_mode="circular", dilation=2, bias=False), unit,
        nn.Flatten(), nn.LazyLinear(2, bias=False),
    ]  # fmt: skip
    return nn.Sequential(*layers), (4, 7, 6)


def sequences(unit: nn.Module) -> tuple[nn.Module, tuple[int, ...]]:
    layers = [
        nn.Conv1d(2, 3, 2, padding="same", padding_mode="circular", bias=False), unit, nn.AvgPool1d(2),
        nn.Conv1d(3, 3, 3, padding="valid", bias=False), unit, nn.AdaptiveAvgPool1d(1), nn.Flatten(),
    ]  # fmt: skip
    return nn.Sequential(*layers), (2, 9)


@pytest.mark.parametrize("make", [dense, convolutional, sequences])
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: f"{type(unit).__module__[:8]} {type(unit).__name__}")
def test_the_steps_one_after_another_are_the_network(make, unit: nn.Module):
    model, shape = make(unit)
    model = model.double()
    x = torch.randn(5, *shape, dtype=torch.float64)
    want, z = model(x), x
    for step in path_steps(model, x):
        z = step.apply(z)
    torch.testing.assert_close(z, want, rtol=1e-12, atol=1e-14)


def test_gates_of_a_relu_network_are_zero_or_one_and_carry_no_gradient():
    model, _ = dense(nn.ReLU())
    (gate,) = (step for step in path_steps(model, torch.randn(50, 3)) if isinstance(step, Gate))
    assert set(gate.values.unique().tolist()) == {0.0, 1.0}
    assert not gate.values.requires_grad


@pytest.mark.parametrize(
    ("module", "match"),
    [
        (nn.Linear(3, 2), "bias"),
        (nn.Tanh(), "Tanh"),
        (nn.MaxPool2d(2), "MaxPool2d"),
        (nn.BatchNorm1d(3), "BatchNorm1d"),
        (nn.Conv2d(3, 2, 3, padding=1, padding_mode="reflect", bias=False), "reflect"),
        (nn.AvgPool2d(2, ceil_mode=True), "different weights"),
        (nn.Flatten(2), "Flatten"),
        (nn.AdaptiveAvgPool2d(2), "AdaptiveAvgPool2d"),
    ],
)
def test_what_has_no_path_view_is_named(module: nn.Module, match: str):
    with pytest.raises(ArgumentError, match=match):
        path_steps(nn.Sequential(module), torch.randn(2, 3))


def test_an_index_is_for_random_gates_only():
    with pytest.raises(ArgumentError, match="only random gates"):
        path_steps(dense(nn.ReLU())[0], torch.randn(2, 3), index=torch.arange(2))
