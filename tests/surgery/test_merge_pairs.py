"""Pairs of filters merged.

Exactly where they are opposite, with the stated error where they nearly are.
"""

import copy

import pytest
import torch
from surgery.paired_networks import EXAMPLES, MERGED, PAIRS, Branches, Chain, Sequence1d, Tokens
from torch import nn

import gatewise as gw
from gatewise.errors import ArgumentError
from gatewise.surgery.proof import SwapFailed
from gatewise.surgery.tools import PairedReLU, merging, patches

EVERY = pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)


def build(kind, noise: float = 0.0, dtype=torch.float64):
    torch.manual_seed(7)
    torch.set_default_dtype(dtype)  # filters that are opposite in float32 are not in float64
    try:
        model = kind(noise).eval()
    finally:
        torch.set_default_dtype(torch.float32)
    for parameter in model.parameters():  # biases that would be wrong if phases were mixed up
        if parameter.dim() == 1:
            nn.init.normal_(parameter, 0, 0.3)
    return model, EXAMPLES[kind].to(dtype)


def relative(before, after) -> float:
    return float((before - after).detach().abs().max() / before.detach().abs().max())


@EVERY
def test_a_pair_is_merged_exactly_when_filters_are_opposite_whatever_their_lengths_and_biases(kind):
    model, x = build(kind)
    merged = gw.surgery.merge_pairs(model, x, tolerance=1e-6)
    assert relative(model(x), merged(x)) <= 1e-12
    other = torch.randn_like(x) * 3
    assert relative(model(other), merged(other)) <= 1e-12
    receipt = gw.receipt(merged)
    assert sum(len(pairs) for pairs in receipt.pairs.values()) == MERGED[kind]
    assert receipt.proof.output_float64 <= 1e-12 and receipt.error <= 1e-12
    assert receipt.parameters == tuple(
        sum(p.numel() for p in m.parameters()) for m in (model, merged)
    )


@EVERY
def test_gradients_of_the_other_weights_are_the_same(kind):
    model, x = build(kind)
    merged = gw.surgery.merge_pairs(model, x, tolerance=1e-6)
    for each in (model, merged):
        each(x).square().sum().backward()
    mine = dict(merged.named_parameters())
    same = {
        name: p
        for name, p in model.named_parameters()
        if name in mine and mine[name].shape == p.shape
    }
    untouched = [name for name, p in same.items() if torch.equal(p, mine[name])]
    assert untouched
    assert all(relative(same[name].grad, mine[name].grad) <= 1e-10 for name in untouched)


@EVERY
def test_nearly_opposite_filters_are_what_the_fit_by_hand_gives(kind):
    model, x = build(kind, noise=0.1)
    merged = gw.surgery.merge_pairs(model, x, tolerance=0.3)
    by_hand = copy.deepcopy(model)
    for name, layer in by_hand.named_modules():
        found = [
            pair
            for site, pairs in gw.receipt(merged).pairs.items()
            for pair in pairs
            if layer_of(kind, site) == name
        ]
        for pair in found:
            project_by_hand(layer.weight.data, pair.first, pair.second)
    assert relative(by_hand(x), merged(x)) <= 1e-12
    assert relative(model(x), merged(x)) > 1e-4  # there was something to lose


def layer_of(kind, site: str) -> str:
    named = {"act1": "first", "act2": "second", "net.1": "net.0", "(model):relu#0": "up"}
    branches = {"(model):relu#1": "left", "(model):relu#2": "one"}
    return (branches if kind is Branches else named)[site]


def project_by_hand(weight, i: int, j: int) -> None:
    """The eigenvector of the 2 x 2 Gram matrix is the combination nearest to both filters."""
    both = torch.stack((weight[i].flatten(), -weight[j].flatten()))
    combination = torch.linalg.eigh(both @ both.T).eigenvectors[:, -1] @ both
    direction = combination / combination.norm()
    weight[i] = (both[0] @ direction * direction).view_as(weight[i])
    weight[j] = -(both[1] @ direction * direction).view_as(weight[j])


def test_layers_behind_take_over_order_and_scales_and_the_unit_keeps_them_elsewhere():
    model, x = build(Branches)
    merged = gw.surgery.merge_pairs(model, x, tolerance=1e-6)
    first, second = merged.gw.s0, merged.gw.s1
    assert isinstance(first, PairedReLU) and first.scale is None and first.order is None
    assert second.scale is not None and second.order is not None
    assert merged.left.out_channels == 6 and merged.left.weight.shape[0] == 6
    assert any("order and scales stay in the unit" in note for note in gw.receipt(merged).notes)


@EVERY
def test_undo_gives_the_model_back_and_the_original_is_never_touched(kind):
    model, x = build(kind)
    state, wanted = copy.deepcopy(model.state_dict()), model(x)
    merged = gw.surgery.merge_pairs(model, x, tolerance=1e-6)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    back = gw.undo(merged)
    assert list(back.state_dict()) == list(state)
    assert torch.equal(back(x), wanted) and type(back) is kind


def test_in_place_is_in_place_and_can_be_undone():
    model, x = build(Chain)
    wanted = model(x)
    copied = gw.receipt(gw.surgery.merge_pairs(model, x, tolerance=1e-6))
    assert gw.surgery.merge_pairs(model, x, tolerance=1e-6, inplace=True) is model
    assert model.first.out_channels == 6
    assert gw.receipt(model).to_dict() == copied.to_dict()
    assert torch.equal(gw.undo(model)(x), wanted)


def test_a_wrong_conversion_is_caught_and_the_model_left_as_it_was(monkeypatch):
    model, x = build(Chain)
    state = copy.deepcopy(model.state_dict())
    right = merging.common_direction

    def wrong(filters, pair):
        direction, scales = right(filters, pair)
        return direction, scales.flip(0)

    monkeypatch.setattr(merging, "common_direction", wrong)
    with pytest.raises(SwapFailed, match="computes something else"):
        gw.surgery.merge_pairs(model, x, tolerance=1e-6, inplace=True)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert isinstance(model.act1, nn.ReLU)


@pytest.mark.parametrize("kind", [Chain, Tokens, Sequence1d], ids=lambda kind: kind.__name__)
def test_correction_lowers_the_error_on_the_example(kind):
    model, x = build(kind, noise=0.3)
    plain, better = (
        gw.receipt(gw.surgery.merge_pairs(model, x, tolerance=0.5, correct=each))
        for each in (False, True)
    )
    assert better.error < plain.error
    assert better.corrected and not plain.corrected
    assert better.proof.output_float64 <= 1e-12


def test_correction_is_ridge_regression_of_what_the_reader_gave_before():
    model, x = build(Tokens, noise=0.3)
    merged = gw.surgery.merge_pairs(model, x, tolerance=0.5, correct=True)
    up = copy.deepcopy(model.up)
    for pair in gw.receipt(merged).pairs["(model):relu#0"]:
        project_by_hand(up.weight.data, pair.first, pair.second)
    with torch.no_grad():
        seen = nn.functional.pad(up(x).relu().flatten(0, 1), (0, 1), value=1.0)
        missing = (model.down(model.up(x).relu()) - model.down(up(x).relu())).flatten(0, 1)
        ridge = (1e-3 * (seen.square().sum() / len(seen) / 9) * len(seen)) ** 0.5 * torch.eye(
            9
        ).double()
        rows, wanted = torch.cat((seen, ridge)), torch.cat((missing, torch.zeros(9, 6).double()))
        change = torch.linalg.lstsq(rows, wanted).solution
        by_hand = x + model.down(up(x).relu()) + (seen @ change).view_as(x)
        assert relative(by_hand, merged(x)) <= 1e-10


def test_patches_are_what_the_convolution_multiplies_with():
    for layer, x in (
        (nn.Conv2d(3, 5, (3, 2), 2, 1, 2), torch.randn(2, 3, 11, 9)),
        (nn.Conv1d(2, 4, 3, 2), torch.randn(2, 2, 9)),
    ):
        seen = patches(layer, x)
        out = (seen @ layer.weight.flatten(1).T + layer.bias).detach()
        assert torch.allclose(out, layer(x).movedim(1, -1).flatten(0, -2).detach(), atol=1e-6)


def test_merged_models_can_be_copied_trained_and_exported():
    model, x = build(Chain, dtype=torch.float32)
    merged = copy.deepcopy(gw.surgery.merge_pairs(model, x, tolerance=1e-6))
    merged(x).sum().backward()
    assert all(parameter.grad is not None for parameter in merged.parameters())
    exported = torch.export.export(merged, (x,)).module()
    assert torch.allclose(exported(x), model(x), atol=1e-5)


def test_the_curve_says_what_merging_at_each_tolerance_does():
    model, x = build(Chain, noise=0.2)
    curve = gw.surgery.merge_curve(
        model, x, tolerances=(1e-6, 0.3, 0.95), measure=lambda each: each(x).sum()
    )
    assert [point.pairs for point in curve.points] == sorted(point.pairs for point in curve.points)
    assert (
        curve.points[0].pairs == 0
        and curve.points[0].error <= 1e-12
        and curve.points[0].saving == 0
    )
    for point in curve.points[1:]:
        merged = gw.surgery.merge_pairs(model, x, tolerance=point.tolerance)
        receipt = gw.receipt(merged)
        assert (receipt.filters, receipt.parameters, receipt.operations) == (
            point.filters,
            point.parameters,
            point.operations,
        )
        assert point.error == pytest.approx(receipt.error, rel=1e-9)
        assert point.agreement == receipt.agreement
        assert point.measured == pytest.approx(merged(x).sum().item(), rel=1e-9)
    assert curve.to_dict()["points"][2]["tolerance"] == 0.95
    assert len(curve.plot().lines) == 2
    assert "0.95" in str(curve)


def test_only_the_sites_asked_for_are_merged():
    model, x = build(Chain)
    merged = gw.surgery.merge_pairs(model, x, tolerance=1e-6, where="act2")
    assert merged.first.out_channels == 8 and merged.second.out_channels == 6


def test_what_cannot_be_merged_is_refused_with_its_reason():
    norm = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 2, 3)
    ).eval()
    with pytest.raises(ArgumentError, match=r"gw\.surgery\.deploy folds"):
        gw.surgery.merge_pairs(norm, torch.randn(2, 3, 8, 8), tolerance=0.5)
    with pytest.raises(ArgumentError, match="pairs are pairs for relu"):
        gw.surgery.merge_pairs(
            nn.Sequential(nn.Linear(3, 4), nn.GELU()), torch.randn(2, 3), tolerance=0.5
        )
    tied = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    tied[2].weight = tied[0].weight
    with pytest.raises(ArgumentError, match="used elsewhere"):
        gw.surgery.merge_pairs(tied, torch.randn(2, 4), tolerance=0.5)


def test_a_norm_is_folded_by_deploy_and_then_its_pairs_are_merged_exactly():
    torch.manual_seed(2)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 2, 3)
    ).double()
    for i, j, length in PAIRS:
        net[0].weight.data[j] = -length * net[0].weight.data[i]
    x = torch.randn(4, 3, 8, 8, dtype=torch.float64)
    net(x)
    merged = gw.surgery.merge_pairs(gw.surgery.deploy(net.eval(), x), x, tolerance=1e-6)
    assert merged[0].out_channels == 6
    assert relative(net(x), merged(x)) <= 1e-12


@pytest.mark.parametrize("tolerance", [-0.1, 1.0, float("nan"), True, "0.5"])
def test_a_tolerance_that_is_no_sine_is_our_error(tolerance):
    model, x = build(Chain)
    with pytest.raises(ArgumentError, match="tolerance"):
        gw.surgery.merge_pairs(model, x, tolerance=tolerance)


def test_no_pairs_is_an_error_that_names_the_nearest():
    model, x = build(Chain, noise=0.2)
    with pytest.raises(ArgumentError, match="the closest pair has a mismatch of"):
        gw.surgery.merge_pairs(model, x, tolerance=0.01)
