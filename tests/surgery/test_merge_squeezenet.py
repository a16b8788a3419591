"""Pairs in a network trained on ImageNet, merged without retraining, and what becomes of its predictions."""

import pytest
import torch
from surgery.squeezenet import load, photographs

import gatewise as gw

pytestmark = pytest.mark.data


@pytest.fixture(scope="module")
def case(data_folder):
    pictures = photographs(across=3)
    return load(data_folder), pictures[::3], pictures[[i for i in range(len(pictures)) if i % 3]]


def test_sixteen_pairs_of_the_first_layer_go_and_nine_in_ten_predictions_stay(case):
    model, example, held_out = case
    merged = gw.merge_pairs(model, example, tolerance=0.57, where="relu1", correct=True)
    receipt = gw.receipt(merged)
    assert merged.conv1.out_channels == 48 and len(receipt.pairs["relu1"]) == 16
    assert receipt.proof.output_float64 <= 1e-12
    with torch.no_grad():
        same = (merged(held_out).argmax(1) == model(held_out).argmax(1)).double().mean().item()
    assert same >= 0.9


def test_correcting_the_layers_behind_halves_the_error(case):
    model, example, _ = case
    plain, better = (
        gw.merge_curve(model, example, tolerances=(0.57,), where="relu1", correct=each).points[0] for each in (False, True)
    )
    assert better.pairs == plain.pairs == 16
    assert better.error < plain.error / 2


def test_crelu_by_preserve_leaves_the_predictions_as_they_are(case):
    model, example, held_out = case
    wide = gw.swap(model, "crelu", example[:2], preserve=True)
    with torch.no_grad():
        assert torch.equal(wide(held_out[:4]).argmax(1), model(held_out[:4]).argmax(1))
    assert len(gw.receipt(wide).sites) >= 20
