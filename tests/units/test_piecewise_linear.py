"""Piecewise linear units are declared as such, and have exact regions."""

import pytest
import torch
from torch import nn

import gatewise as gw
from gatewise.units import registered_units

ADAPTIVE = {"prelu", "jump_relu", "smu", "smu1"}  # piecewise linear as they are made
X = torch.linspace(-9.03, 9.07, 3001, dtype=torch.float64)[:, None]


def curved(name: str) -> float | None:
    """The share of points at which a unit is no straight line; ``None`` without a curve."""
    needs = gw.get_unit(name).needs
    if needs and needs != ("channels",):
        return None
    unit = gw.create_unit(name, **({"channels": 1} if needs else {})).double().eval()
    try:
        with torch.no_grad():
            y = unit(X)
    except gw.errors.GatewiseError:  # a unit of two branches, or of feature maps
        return None
    bend = (y[2:] - 2 * y[1:-1] + y[:-2]).abs().amax(-1)
    return float((bend > 1e-9).double().mean())  # rounding is about 1e-15


@pytest.mark.parametrize("name", registered_units())
def test_a_unit_is_called_piecewise_linear_if_it_is(name: str):
    share = curved(name)
    if share is None or gw.get_unit(name).family in ("adaptive", "context"):
        pytest.skip("no fixed curve of one variable")
    # Each kink is between at most three points of the grid.
    assert (share < 0.01) == (gw.get_unit(name).family in ("max-affine", "piecewise"))


PAIRS = {
    "relu6": (nn.ReLU6(), {}),
    "hardtanh": (nn.Hardtanh(), {}),
    "hardsigmoid": (nn.Hardsigmoid(), {}),
    "threshold": (nn.Threshold(0.2, 0.1), {"threshold": 0.2, "value": 0.1}),
    "leaky_relu": (nn.LeakyReLU(0.1), {"slope": 0.1}),
    "prelu": (nn.PReLU(), {}),
}
PLANE = torch.randn(3, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def network(unit: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    layers = (nn.Linear(6, 12), unit, nn.Linear(12, 12), unit, nn.Linear(12, 2))
    return nn.Sequential(*layers).double()


@pytest.mark.parametrize("name", PAIRS)
def test_a_unit_has_the_regions_of_torchs_module(name: str):
    torchs, options = PAIRS[name]
    ours = gw.analysis.partition(network(gw.create_unit(name, **options)), PLANE, extent=3.0)
    assert ours.count == gw.analysis.partition(network(torchs), PLANE, extent=3.0).count > 1


def test_pwlu_has_exact_regions():
    unit = gw.create_unit("pwlu").double()
    with torch.no_grad():
        unit.slopes.copy_(torch.tensor([0.3, 1.4]))
    model = network(unit)
    found = gw.analysis.partition(model, PLANE, extent=3.0)
    with torch.no_grad():
        theirs = model(found.slice.inputs(found.centroids))
    ours = found.maps[:, 0] + (found.maps[:, 1:] * found.centroids[:, :, None]).sum(1)
    assert found.count > 1
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)
