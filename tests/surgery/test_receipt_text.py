"""A receipt says in four lines what people ask first, and the rest in its details."""

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
    assert checked.startswith("CHECKED: ") and "now crelu" in checked
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
