"""Priors of regions: the closed form, its mean at initialisation, and the mixture behind it."""

import math

import pytest
import torch
from torch import nn

import gatewise as gw
from gatewise.analysis.filters import expected_prior
from gatewise.errors import ArgumentError

DOUBLE = torch.float64


@pytest.mark.parametrize("slope", [0.0, 0.2, -1.0])
def test_the_prior_is_the_share_of_the_piece_in_the_mixture(slope: float):
    layer = nn.Linear(5, 4).double()
    found = gw.analysis.region_prior(layer, slope=slope).layers[0]
    for k in range(4):
        a, b = layer.weight[k].detach(), layer.bias[k].detach()
        pieces = [(factor * a, factor * b) for factor in (1.0, slope)]
        weights = [math.exp(float(b + a @ a / 2)) for a, b in pieces]
        assert float(found.active[k]) == pytest.approx(weights[0] / sum(weights), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("length", "gain"), [(4, 1.0), (64, 1.0), (64, 2.0), (3, 2.0)])
def test_the_expected_prior_at_initialisation_is_the_mean_over_drawn_filters(
    length: int, gain: float
):
    rows = torch.randn(400_000, length, dtype=DOUBLE, generator=torch.Generator().manual_seed(0))
    drawn = torch.sigmoid(gain / length * rows.square().sum(1) / 2)
    error = float(drawn.std()) / math.sqrt(len(drawn))
    assert expected_prior(length, gain / length) == pytest.approx(
        float(drawn.mean()), abs=5 * error + 2e-5
    )


def test_xavier_favours_the_active_region_by_sixty_two_to_thirty_eight_and_never_the_inactive():
    found = gw.analysis.region_prior(nn.Linear(2000, 3)).layers[0]
    assert found.xavier == pytest.approx(0.6225, abs=1e-3)
    assert found.he == pytest.approx(1 / (1 + math.exp(-1)), abs=1e-3)
    assert expected_prior(10, 1e-9) == pytest.approx(0.5, abs=1e-8)
    assert all(expected_prior(10, v) >= 0.5 for v in (1e-6, 0.01, 1.0, 9.0))


def test_an_absolute_value_has_a_uniform_prior_without_offset():
    found = gw.analysis.region_prior(nn.Linear(7, 3, bias=False), slope=-1.0).layers[0]
    assert found.active.tolist() == [0.5] * 3 and found.xavier == found.he == 0.5


def test_a_rule_of_the_users_own_is_drawn_without_touching_model_or_random_state():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3))
    before, state = model[0].weight.clone(), torch.get_rng_state()
    found = gw.analysis.region_prior(model, own=lambda w: nn.init.constant_(w, 0.5))
    want = 1 / (1 + math.exp(-0.25 * 27 / 2))
    assert found.layers[0].own == pytest.approx(want, rel=1e-12)
    assert torch.equal(model[0].weight, before) and torch.equal(torch.get_rng_state(), state)
    assert [layer["layer"] for layer in found.to_dict()["layers"]] == ["0", "2"]
    assert len(found.plot().lines) == 5 and "Xavier" in repr(found)


@pytest.mark.parametrize(
    "options", [{"slope": math.nan}, {"slope": "relu"}, {"draws": 0}, {"where": "nowhere"}]
)
def test_bad_arguments_are_named(options: dict):
    with pytest.raises(ArgumentError, match=f"region_prior: {next(iter(options))}"):
        gw.analysis.region_prior(nn.Linear(2, 2), **options)
