"""Beta forms put in place of maxima start as near to them as was asked for.

Closed form against brute force.
"""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import gatewise as gw
from gatewise.errors import ArgumentError
from gatewise.surgery import Plan
from gatewise.surgery.swaps import beta_within, distance_to_maximum, lambert


class Maxima(nn.Module):
    """Every maximum of affine pieces there is, and one activation that is none."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.relu, self.pool = (
            nn.Conv2d(3, 8, 3),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
        )
        self.mid, self.leaky, self.abs = nn.Conv2d(8, 6, 3), nn.LeakyReLU(0.2), gw.nn.Abs()
        self.maxout, self.head = gw.nn.Maxout(pieces=3), nn.Linear(2, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.relu(self.conv(x)))
        x = F.relu(self.maxout(self.abs(self.leaky(self.mid(x)))) - 0.1)
        return F.gelu(self.head(x.mean((2, 3))))


def model_and_example() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    return Maxima().double(), torch.randn(4, 3, 12, 12, dtype=torch.float64)


@pytest.mark.parametrize("y", [1e-6, 1 / math.e, 1.0, 8 / math.e, 1e4])
def test_lambert_solves_its_equation(y: float):
    w = lambert(y)
    assert w * math.exp(w) == pytest.approx(y, rel=1e-12)


@pytest.mark.parametrize("pieces", [2, 3, 9, 25])
@pytest.mark.parametrize("eta", [0.5, 7.0, 300.0])
def test_the_stated_distance_is_the_largest_there_is(pieces: int, eta: float):
    stated = distance_to_maximum(pieces, eta)
    t = (
        torch.linspace(0, 12, 200_001, dtype=torch.float64) / eta
    )  # all pieces but one equally far behind
    reached = ((pieces - 1) * t / ((eta * t).exp() + pieces - 1)).max().item()
    assert reached == pytest.approx(stated, rel=1e-6)
    behind = torch.rand(20_000, pieces, dtype=torch.float64) * 8 / eta  # and no other way is worse
    behind[:, 0] = 0
    assert ((eta * -behind).softmax(1) * behind).sum(1).max() <= stated * (1 + 1e-12)


def test_beta_for_a_distance_and_the_distance_of_that_beta_agree():
    beta = beta_within(4, 0.02)
    assert distance_to_maximum(4, beta / (1 - beta)) == pytest.approx(0.02, rel=1e-12)


def test_every_maximum_becomes_its_beta_form_within_the_distance():
    model, x = model_and_example()
    soft = gw.swap(model, "beta", x, within=0.01)
    kinds = {
        "relu": gw.nn.BetaVQ,
        "leaky": gw.nn.BetaVQ,
        "abs": gw.nn.BetaVQ,
        "pool": gw.nn.BetaPool2d,
    }
    assert all(type(soft.get_submodule(path)) is kind for path, kind in kinds.items())
    assert type(soft.maxout) is gw.nn.BetaChannelPool and type(soft.gw.s0) is gw.nn.BetaVQ
    inputs = torch.randn(50, 6, 14, 14, dtype=torch.float64) * 0.2
    for path in (*kinds, "maxout"):
        apart = float(
            (soft.get_submodule(path)(inputs) - model.get_submodule(path)(inputs.clone()))
            .detach()
            .abs()
            .max()
        )
        assert 1e-4 < apart <= 0.01 * (1 + 1e-9), path
    grid = torch.linspace(-1, 1, 20_001, dtype=torch.float64)[:, None]
    assert float((soft.gw.s0(grid) - grid.relu()).detach().abs().max()) == pytest.approx(
        0.01, rel=1e-4
    )


def test_the_receipt_states_the_distance_and_refuses_what_is_no_maximum():
    model, x = model_and_example()
    receipt = gw.receipt(gw.swap(model, "beta", x, within=0.003))
    assert (
        sum("at most 0.003 from the maximum" in note for note in receipt.notes) == 3
    )  # 2, 9 and 3 pieces
    assert "at most 0.003 from the maximum" in receipt.details
    assert [why for why in receipt.refused.values() if "gelu is no maximum" in why]


def test_betas_are_learnt_one_or_one_per_channel_or_fixed():
    model, x = model_and_example()
    count = {}
    for choice in ({}, {"per_channel": True}, {"learn_beta": False}):
        plan = gw.plan(model, "beta", x, **choice)
        soft = plan.apply(model, inplace=False)
        count[str(choice)] = sum(
            p.numel() for n, p in soft.named_parameters() if n.endswith("beta_logit")
        )
        assert plan.parameters[1] == sum(p.numel() for p in soft.parameters())
        soft(x).sum().backward()
        assert all(p.grad.any() for n, p in soft.named_parameters() if n.endswith("beta_logit"))
    assert count == {
        "{}": 6,
        "{'per_channel': True}": 8 + 8 + 6 + 6 + 2 + 2,
        "{'learn_beta': False}": 0,
    }


@pytest.mark.slow
def test_a_plan_can_be_kept_undone_and_brought_back_to_hard_units_by_deploy():
    model, x = model_and_example()
    wanted = model(x)
    soft = Plan.from_json(gw.plan(model, "beta", x, within=0.5).to_json()).apply(
        model, inplace=False, example=x
    )
    assert not torch.allclose(soft(x), wanted, atol=1e-3)
    for name, parameter in soft.named_parameters():
        if name.endswith("beta_logit"):
            parameter.data.fill_(50.0)
    hard = gw.surgery.deploy(soft, x)
    assert torch.allclose(hard(x), wanted, rtol=1e-12, atol=1e-12)
    assert len(gw.receipt(hard).hardened) == 6
    assert torch.equal(gw.undo(soft, weights="original")(x), wanted)


def test_sites_are_chosen_by_name():
    model, x = model_and_example()
    soft = gw.swap(model, "beta", x, where="pool")
    assert isinstance(soft.pool, gw.nn.BetaPool2d) and isinstance(soft.relu, nn.ReLU)


@pytest.mark.parametrize(
    "choice",
    [
        *(
            {"within": 0.0},
            {"within": math.nan},
            {"preserve": True},
            {"per_channel": True, "learn_beta": False},
        ),
        *({"width": "half"}, {"witihn": 0.1}),
    ],
)
def test_options_that_make_no_sense_are_our_error(choice):
    model, x = model_and_example()
    with pytest.raises(ArgumentError, match="beta"):
        gw.plan(model, "beta", x, **choice)
