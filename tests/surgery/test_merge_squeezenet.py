"""Opposite filters of an ImageNet network are merged without retraining; predictions after it."""

import pytest
import torch
from surgery.squeezenet import load, photographs

import gatewise as gw

pytestmark = pytest.mark.data


@pytest.fixture(scope="module")
def case(data_folder):
    pictures = photographs(across=3)
    return load(data_folder), pictures[::3], pictures[1::3]


@pytest.mark.slow
def test_merging_sixteen_pairs_keeps_nine_in_ten_predictions_and_correction_halves_the_error(
    case,
):
    model, example, held_out = case
    merged = gw.surgery.merge_pairs(model, example, tolerance=0.57, where="relu1", correct=True)
    receipt = gw.receipt(merged)
    assert merged.conv1.out_channels == 48 and len(receipt.pairs["relu1"]) == 16
    assert receipt.proof.output_float64 <= 1e-12
    with torch.no_grad():
        same = (merged(held_out).argmax(1) == model(held_out).argmax(1)).double().mean().item()
    assert same >= 0.9
    (plain,) = gw.surgery.merge_curve(model, example, tolerances=(0.57,), where="relu1").points
    assert plain.pairs == 16 and receipt.error < plain.error / 2


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["crelu", "psc"])
def test_swaps_that_preserve_leave_the_predictions_as_they_are(case, unit: str):
    model, example, held_out = case
    swapped = gw.swap(model, unit, example[:1], preserve=True)
    with torch.no_grad():
        assert torch.equal(swapped(held_out[:3]).argmax(1), model(held_out[:3]).argmax(1))
    assert (
        len(gw.receipt(swapped).sites) == 25
    )  # all but the last, whose output is averaged into the scores
