"""Functional calls with numbers of their own.

Not replaced by a module that has torch's defaults.
"""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import gatewise as gw
from gatewise.errors import ArgumentError


class Calls(nn.Module):
    """One activation, called as a function."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.first, self.last = how, nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        z = self.first(x)
        if self.how == "elu 0.5":
            z = F.elu(z, 0.5)
        elif self.how == "elu":
            z = F.elu(z)
        elif self.how == "gelu tanh":
            z = F.gelu(z, approximate="tanh")
        elif self.how == "softplus 2":
            z = F.softplus(z, 2.0)
        else:
            z = F.hardtanh(z, -1.0, 1.0)
        return self.last(z)


@pytest.mark.parametrize("unit", ["concat_act", "galu"])
@pytest.mark.parametrize("how", ["elu 0.5", "gelu tanh", "softplus 2"])
def test_a_call_with_its_own_numbers_is_refused_with_them(how: str, unit: str):
    with pytest.raises(gw.errors.ArgumentError, match="cannot give back this activation"):
        gw.swap(Calls(how), unit, torch.randn(5, 4))


@pytest.mark.parametrize("how", ["elu", "hardtanh"])
def test_a_call_with_torchs_own_numbers_is_kept(how: str):
    model, x = Calls(how).eval(), torch.randn(5, 4)
    wide = gw.swap(model, "concat_act", x, preserve=True)
    assert torch.allclose(wide(x), model(x), atol=1e-6)
    assert gw.receipt(wide).proof.live == "live"


def test_a_prelu_of_torch_becomes_ours_with_its_slope_and_is_refused_with_several():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.PReLU(6, init=0.1), nn.Linear(6, 3)).eval()
    x = torch.randn(5, 4)
    plan = gw.plan(model, "prelu", x, preserve=True)
    changed = plan.apply(model, inplace=False)
    assert torch.allclose(changed(x), model(x), atol=1e-6)
    assert plan.parameters == gw.receipt(changed).parameters == (57, 57)
    with torch.no_grad():
        model[1].weight[0] = 0.5
    with pytest.raises(ArgumentError, match="cannot give back"):
        gw.plan(model, "prelu", x, preserve=True)
