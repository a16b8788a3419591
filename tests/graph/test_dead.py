"""What dead means, where it is counted: in gates, monitor, diagnosis, and revival."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import gatewise as gw

PASSING = {
    "leaky_relu": (nn.LeakyReLU(0.3), -40.0),
    "prelu": (nn.PReLU(8), -40.0),
    "elu": (nn.ELU(), -4.0),
    "softplus": (nn.Softplus(), -4.0),
    "gelu": (nn.GELU(), -3.0),
    "silu": (nn.SiLU(inplace=True), -4.0),
    "tanh": (nn.Tanh(), -4.0),
    "sigmoid": (nn.Sigmoid(), -4.0),
    "hardswish": (nn.Hardswish(), -1.5),
    "swish": (gw.nn.Swish(channels=8), -4.0),
}
STUCK = {
    "relu": (nn.ReLU(inplace=True), -40.0, 0.0),
    "relu6": (nn.ReLU6(), -40.0, 0.0),
    "relu6, above": (nn.ReLU6(), 40.0, 6.0),
    "elu": (nn.ELU(), -60.0, -1.0),
    "softplus": (nn.Softplus(), -80.0, 0.0),
    "gelu": (nn.GELU(), -40.0, 0.0),
    "silu": (nn.SiLU(), -80.0, 0.0),
    "tanh, above": (nn.Tanh(), 40.0, 1.0),
    "sigmoid": (nn.Sigmoid(), -80.0, 0.0),
    "hardtanh": (nn.Hardtanh(), -40.0, -1.0),
}


class SquaredReLU(nn.Module):
    def forward(self, x):
        return F.relu(x).square()


def network(unit: nn.Module, bias: float) -> tuple[nn.Sequential, torch.Tensor]:
    """A network with small weights, whose first three units have this bias."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), unit, nn.Linear(8, 2))
    with torch.no_grad():
        model[0].weight.mul_(0.5)
        model[0].bias[:3] = bias
    return model, torch.randn(100, 5)


def dead_everywhere(model: nn.Module, x: torch.Tensor) -> tuple[int, ...]:
    """The dead channels by every count, which must agree."""
    (site,) = gw.gates(model, x.split(30)).sites
    monitor = gw.GateMonitor(model, x)
    (seen,) = monitor.measure().sites
    monitor.close(last=False)
    assert seen.dead == site.dead and seen.always_off == site.always_off
    found = gw.diagnose(model, x, questions="gates")
    assert found["gates"].facts["sites"][0]["dead"] == list(site.dead)
    counts = {each.name: each for each in found.findings}
    assert counts["dead"].number == str(len(site.dead))
    assert bool(counts["dead"].call) == bool(site.dead)
    assert found.layers[0]["dead"] == len(site.dead)
    return site.dead


@pytest.mark.parametrize("name", PASSING)
def test_a_channel_that_is_always_off_but_varies_is_not_dead(name):
    model, x = network(*PASSING[name])
    assert dead_everywhere(model, x) == ()
    (site,) = gw.gates(model, x).sites
    assert {0, 1, 2} <= set(site.always_off)
    assert site.constant == ()
    receipt = gw.revive(model, x)
    assert not receipt.sites and not receipt.refused


@pytest.mark.parametrize("name", STUCK)
def test_a_channel_with_a_constant_output_and_no_slope_is_dead(name):
    unit, bias, value = STUCK[name]
    model, x = network(unit, bias)
    assert model[:2](x)[:, :3].sub(value).abs().max() < 1e-6
    assert dead_everywhere(model, x) == (0, 1, 2)
    (site,) = gw.gates(model, x).sites
    assert not {0, 1, 2} & {*site.always_off, *site.always_on}
    receipt = gw.revive(model, x)
    if value == 0:
        assert receipt.sites[0].units == (0, 1, 2)
    else:
        assert receipt.refused == {"1": "3 dead units; the output is constant, but not zero"}


@pytest.mark.parametrize("unit", [nn.LeakyReLU(0.1), nn.Tanh(), nn.GELU()])
def test_a_constant_channel_with_a_slope_can_learn_and_is_not_dead(unit):
    model, x = network(unit, 0.0)
    with torch.no_grad():
        model[0].weight[:3] = 0
    assert dead_everywhere(model, x) == ()
    assert gw.gates(model, x).sites[0].constant == (0, 1, 2)
    assert not gw.revive(model, x).sites  # the weights behind pass a gradient


def test_a_channel_that_is_dead_in_one_batch_only_is_not_dead():
    model, x = network(nn.ReLU(), -40.0)
    late = torch.cat((x, 1000 * torch.randn(4, 5)))
    (site,) = gw.gates(model, late.split(100)).sites
    assert site.dead == () and site.on_rate[:3].max() < 0.1
    assert not gw.revive(model, list(late.split(100))).sites


def test_each_half_of_crelu_is_dead_by_itself():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 4), gw.nn.CReLU(dim=1), nn.Linear(8, 2))
    with torch.no_grad():
        model[0].bias[:] = torch.tensor([-40.0, 40.0, 0.0, 0.0])
    assert dead_everywhere(model, torch.randn(100, 5)) == (0, 5)


def test_gated_linear_units_are_dead_where_the_gate_is_shut():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.GLU(), nn.Linear(4, 2))
    with torch.no_grad():
        model[0].bias[4] = -80.0  # a gate
        model[0].weight[1] = 0  # a value
        model[0].bias[1] = 0
    (site,) = gw.gates(model, torch.randn(100, 5)).sites
    assert site.dead == (0,) and site.constant == (0, 1)


def test_a_squared_relu_written_in_several_calls_is_counted():
    model, x = network(SquaredReLU(), -40.0)
    assert dead_everywhere(model, x) == (0, 1, 2)
    assert gw.revive(model, x).refused["1"].startswith("3 dead units;")


def test_padding_decides_nothing():
    class Tokens(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = nn.Linear(5, 4), nn.Linear(4, 2)

        def forward(self, x, attention_mask):
            return self.down(F.relu(self.up(x)))

    torch.manual_seed(0)
    model = Tokens()
    with torch.no_grad():
        model.up.bias[0] = -40.0
    x = torch.randn(3, 6, 5)
    mask = torch.ones(3, 6, dtype=torch.long)
    mask[:, 4:] = 0
    x[:, 4:] = 1000.0 * model.up.weight[0].detach()
    (site,) = gw.gates(model, [{"x": x, "attention_mask": mask}]).sites
    assert site.dead == (0,)
