"""Activations that a model computes by arithmetic are named in the notes of a reading."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import gatewise as gw

WRITTEN: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    "where": ("ReLU", lambda h: torch.where(h > 0, h, 0.0)),
    "where with zeros": ("ReLU", lambda h: torch.where(h < 0, torch.zeros_like(h), h)),
    "times a mask": ("ReLU", lambda h: h * (h > 0)),
    "times a cast mask": ("ReLU", lambda h: h * (h > 0).float()),
    "clamp": ("ReLU", lambda h: h.clamp(min=0)),
    "clamp of a double": ("ReLU", lambda h: (2 * h).clamp(min=0) / 2),
    "maximum": ("ReLU", lambda h: torch.maximum(h, torch.zeros(()))),
    "max of two": ("ReLU", lambda h: torch.max(h, torch.zeros_like(h))),
    "masked fill": ("ReLU", lambda h: h.masked_fill(h < 0, 0.0)),
    "half of x plus abs": ("ReLU", lambda h: (h + h.abs()) / 2),
    "sign": ("ReLU", lambda h: h * (torch.sign(h) + 1) / 2),
    "leaky": ("leaky ReLU with slope 0.1", lambda h: torch.where(h >= 0, h, 0.1 * h)),
    "twice silu": ("a nonlinear function", lambda h: (2 * h) * torch.sigmoid(h)),
    "two bounds": ("ReLU6", lambda h: h.clamp(0, 6)),
    "another bound": ("a nonlinear function", lambda h: h.clamp(min=1)),
    "two tensors": ("leaky ReLU with slope 0.5", lambda h: torch.maximum(h, h / 2)),
    "sine": ("a nonlinear function", torch.sin),
}
# These are one site each.
SITES = {
    "gelu": ("gelu", lambda h: 0.5 * h * (1 + torch.erf(h / 2**0.5))),
    "silu": ("silu", lambda h: h / (1 + torch.exp(-h))),
    "silu by a gate": ("silu", lambda h: h * torch.sigmoid(h)),
    "square": ("composite", lambda h: functional.silu(h) ** 2),
}


class Written(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.last = nn.Linear(8, 3)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.function(self.first(x)))


class WrittenByIndex(Written):
    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x).clone()
        hidden[hidden < 0] = 0
        return self.last(hidden)


def notes(model: nn.Module, example: Tensor) -> tuple[str, ...]:
    return gw.find_sites(model, example).notes


@pytest.mark.parametrize("case", WRITTEN)
def test_an_activation_written_as_arithmetic_is_named(case: str) -> None:
    name, function = WRITTEN[case]
    said = notes(Written(function), torch.randn(4, 6))
    assert len(said) == 1 and said[0].startswith(f"not a site: {name}, written as "), said


@pytest.mark.parametrize("case", SITES)
def test_an_activation_written_with_several_calls_is_a_site(case: str) -> None:
    op, function = SITES[case]
    found = gw.find_sites(Written(function), torch.randn(4, 6))
    assert [site.op for site in found] == [op] and not found.notes


def test_an_assignment_by_a_mask_is_named() -> None:
    said = notes(WrittenByIndex(nn.Identity()), torch.randn(4, 6))
    assert len(said) == 1 and said[0].startswith("not a site: ReLU, written as "), said


@pytest.mark.parametrize(
    "function",
    [
        nn.Identity(),
        lambda h: 2 * h - 1,
        lambda h: h / 3 + h.mean(),
        lambda h: h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6),
        functional.silu,
        nn.GELU(),
        lambda h: functional.dropout(h, 0.5),
        lambda h: h + torch.cos(torch.arange(8.0)),
    ],
)
def test_arithmetic_that_is_no_activation_is_not_named(function: Callable) -> None:
    assert notes(Written(function), torch.randn(4, 6)) == ()


def test_a_recurrent_layer_is_named() -> None:
    model = nn.RNN(6, 8, nonlinearity="relu")
    said = notes(model, torch.randn(5, 2, 6))
    assert "not a site: the activations inside rnn_relu, one operator, in the model" in said
