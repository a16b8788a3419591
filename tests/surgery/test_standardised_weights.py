"""Rows of a weight that is computed row by row follow the change of its layer's output."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import gatewise as gw


class Standardised(nn.Conv2d):
    """Every filter has mean 0 and deviation 1, and a gain of its own."""

    def __init__(self, inputs: int, outputs: int, by: str) -> None:
        super().__init__(inputs, outputs, 3, padding=1)
        self.gain = nn.Parameter(torch.rand(outputs, 1, 1, 1) + 0.5)
        self.by = by

    def standard_weight(self) -> Tensor:
        if self.by == "norm":
            rows = self.weight.reshape(1, self.out_channels, -1)
            gain = (self.gain * 0.5).view(-1)
            normed = functional.batch_norm(rows, None, None, weight=gain, training=True)
            return normed.reshape_as(self.weight)
        mean = self.weight.mean(dim=(1, 2, 3), keepdim=True)
        spread = self.weight.std(dim=(1, 2, 3), keepdim=True)
        return self.gain * (self.weight - mean) / (spread + 1e-5)

    def forward(self, x: Tensor) -> Tensor:
        return functional.conv2d(x, self.standard_weight(), self.bias, padding=1)


def network(by: str) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        Standardised(3, 8, by), nn.GroupNorm(4, 8), nn.ReLU(), Standardised(8, 5, by)
    )


@pytest.mark.parametrize("by", ["norm", "mean and deviation"])
def test_crelu_halves_the_rows_of_a_standardised_weight(by: str) -> None:
    model = network(by).eval().double()
    example = torch.randn(2, 3, 6, 6, dtype=torch.float64)
    swapped = gw.swap(model, "crelu", example, width="half")
    first, norm, _, last = model
    assert swapped[0].weight.shape == (4, 3, 3, 3) and swapped[0].out_channels == 4
    # By hand: the first four filters with their two groups, then both halves of CReLU.
    hidden = functional.conv2d(example, first.standard_weight()[:4], first.bias[:4], padding=1)
    hidden = functional.group_norm(hidden, 2, norm.weight[:4], norm.bias[:4])
    pair = torch.cat([hidden.relu(), (-hidden).relu()], 1)
    expected = functional.conv2d(pair, last.standard_weight(), last.bias, padding=1)
    order = _order_of_halves(swapped[2])
    if order == "interleaved":
        pair = pair.view(2, 2, 4, 6, 6).transpose(1, 2).reshape(2, 8, 6, 6)
        expected = functional.conv2d(pair, last.standard_weight(), last.bias, padding=1)
    torch.testing.assert_close(swapped(example), expected, rtol=1e-10, atol=1e-10)


def _order_of_halves(unit: nn.Module) -> str:
    """Return whether the unit puts each negative part beside its positive part."""
    values = unit(torch.tensor([1.0, 2.0]).view(1, 2, 1, 1)).flatten().tolist()
    return "interleaved" if values == [1.0, 0.0, 2.0, 0.0] else "block"


def test_a_layer_that_reads_more_channels_is_refused() -> None:
    with pytest.raises(gw.errors.ArgumentError, match="computed, not stored"):
        gw.plan(network("norm"), "crelu", torch.randn(2, 3, 6, 6), width="same")
