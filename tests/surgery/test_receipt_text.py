"""A receipt says in four lines what people ask first, and the rest in its details."""

import pytest
import torch
from surgery.small_networks import image, plain
from torch import nn

import gatewise as gw


class ByShape(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.large, self.small = nn.Linear(8, 8), nn.Linear(8, 3), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.relu(self.first(x))
        return self.large(h) if x.shape[0] > 16 else self.small(h)


def test_a_receipt_has_four_lines():
    receipt = gw.receipt(gw.swap(plain(), "crelu", image()))
    checked, refused, difference, cost = str(receipt).splitlines()
    assert checked.startswith("CHECKED, function kept: ") and "now crelu" in checked
    assert "outputs and gradients equal the original's on 1 example" in checked
    assert refused.startswith("refused: ")
    assert difference.startswith("largest difference: ")
    assert difference.endswith(" (relative to the largest output or gradient)")
    largest = float(difference.split()[2])
    numbers = receipt.proof
    assert largest >= 0.95 * max(numbers.output_float32, numbers.output_float64, numbers.gradient)
    assert f"parameters {receipt.parameters[0]:,} to {receipt.parameters[1]:,}" in cost
    details = receipt.details
    assert details.startswith(str(receipt)) and "live edits" in details
    assert all(site in details for site in (*receipt.sites, *receipt.refused))


def test_a_part_that_no_example_reaches_is_named():
    receipt = gw.receipt(gw.swap(ByShape().eval(), "psc", torch.randn(4, 8)))
    assert "not reached by any example: module large" in str(receipt).splitlines()[2]


class WrittenOut(nn.Module):
    """A GELU, and a ReLU that is a clamp."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.b(nn.functional.gelu(self.a(x)))
        return self.c(torch.clamp(h, min=0))


def test_a_changed_function_is_said_with_how_far_the_outputs_moved():
    torch.manual_seed(0)
    model, x = plain().eval(), image()
    changed = gw.swap(model, "silu", x)
    checked, _, difference, _ = str(gw.receipt(changed)).splitlines()
    assert checked.startswith("CHECKED, function changed: ") and "now silu" in checked
    assert "the original with its activations replaced by silu on 1 example" in checked
    with torch.no_grad():
        before, after = model(x), changed(x)
    moved = float((after - before).norm() / before.norm())
    assert moved > 0.001
    assert gw.receipt(changed).proof.outputs_moved == pytest.approx(moved, rel=1e-4)
    assert difference.endswith(f" put in; outputs moved by {moved:.2g} of their size")
    kept = gw.receipt(gw.swap(model, "relu", x, preserve=True))
    assert str(kept).startswith("CHECKED, function kept: ") and kept.proof.outputs_moved is None
    assert "moved" not in str(kept)


def test_the_movement_of_bound_units_is_measured_too():
    receipt = gw.receipt(gw.swap(plain().eval(), "iieu_b", image(), preserve=False))
    assert receipt.proof.outputs_moved > 0
    assert str(receipt).startswith("CHECKED, function changed: ")


def test_an_activation_that_is_written_out_is_said_to_stay():
    receipt = gw.receipt(gw.swap(WrittenOut().eval(), "silu", torch.randn(3, 8)))
    line = str(receipt).splitlines()[1]
    assert line == "refused: none; left as it is: ReLU (written as clamp, in the model)"
    assert receipt.left == ("ReLU (written as clamp, in the model)",)
    found = gw.diagnose(WrittenOut().eval(), torch.randn(8, 8), questions=["sites"])
    assert "no site: ReLU (written as clamp, in the model)." in str(found)
