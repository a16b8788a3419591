"""The supplement's example.

|x| on [-1, 1] costs a rectified linear model 2/15 and a phase selective one nothing.
"""

from fractions import Fraction

import numpy as np
import pytest
import torch
from gatewise_papers.psc import StaticPSConv2d, StaticPSLinear, anneal_splits
from loops import for_each
from scipy.integrate import quad
from torch import nn

from gatewise.layers.phase import PSLinear

NODES, WEIGHTS = np.polynomial.legendre.leggauss(8)  # exact for the polynomials on either side of 0
X = torch.from_numpy(np.concatenate(((NODES - 1) / 2, (NODES + 1) / 2))).unsqueeze(1)
DX = torch.from_numpy(np.concatenate((WEIGHTS, WEIGHTS)) / 2)


def loss(model) -> torch.Tensor:
    """The integral of ``(|x| - model(x))^2`` over [-1, 1], for a model with one output."""
    return (DX * (X.abs() - model(X))[:, 0].square()).sum()


def test_the_best_rectified_model_loses_two_fifteenths_exactly():
    # Moments over [0, 1]: of the basis (x, 1) on the right half, and of 1 on the left, where the
    # rectifier gives 0.
    xx, x1, one = Fraction(1, 3), Fraction(1, 2), Fraction(2)
    to_x, to_one, energy = Fraction(1, 3), Fraction(1), Fraction(2, 3)
    determinant = xx * one - x1 * x1
    w, b = (to_x * one - x1 * to_one) / determinant, (xx * to_one - x1 * to_x) / determinant
    assert (w, b) == (Fraction(2, 5), Fraction(2, 5))
    assert energy - w * to_x - b * to_one == Fraction(2, 15)


def test_the_best_rectified_model_loses_two_fifteenths_numerically():
    design = (
        np.stack((X[:, 0].numpy().clip(min=0), np.ones(len(X))), 1) * np.sqrt(DX.numpy())[:, None]
    )
    (w, b), (squares,), *_ = np.linalg.lstsq(
        design, X[:, 0].abs().numpy() * np.sqrt(DX.numpy()), rcond=None
    )
    assert (w, b, squares) == pytest.approx((2 / 5, 2 / 5, 2 / 15), abs=1e-14)
    adaptive, _ = quad(lambda x: (abs(x) - 0.4 * max(x, 0) - 0.4) ** 2, -1, 1, points=[0])
    assert adaptive == pytest.approx(2 / 15, abs=1e-12)


@for_each(("frozen", "least"), [(True, 2 / 15), (False, 0)])
def test_a_phase_selective_layer_loses_nothing_and_without_its_negative_phase_two_fifteenths(
    frozen: bool, least: float
):
    layer = PSLinear(1, 1, start="zero", dtype=torch.float64)
    layer.weight_neg.requires_grad_(not frozen)
    optimiser = torch.optim.LBFGS(
        [p for p in layer.parameters() if p.requires_grad],
        max_iter=50,
        line_search_fn="strong_wolfe",
    )

    def step() -> torch.Tensor:
        optimiser.zero_grad()
        value = loss(layer)
        value.backward()
        return value

    optimiser.step(step)
    assert loss(layer).item() == pytest.approx(least, abs=1e-9)
    if not frozen:
        values = (layer.weight.item(), layer.weight_neg.item(), layer.bias.item())
        assert values == pytest.approx((1, -1, 0), abs=1e-4)


def test_a_static_split_of_two_outputs_and_a_sum_is_the_absolute_value():
    layer = StaticPSLinear(1, 2, bias=False, split=0.5, dtype=torch.float64)
    layer.load_state_dict({"weight": torch.tensor([[1.0], [-1.0]])})
    assert loss(lambda x: layer(x).sum(1, keepdim=True)).item() == 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("first", [0, 4], ids=["from all negative", "from all positive"])
def test_a_learned_split_becomes_mixed_and_deploys_to_a_plain_layers_size(seed: int, first: int):
    torch.manual_seed(seed)
    layer = StaticPSConv2d(1, 4, 1)
    with torch.no_grad():
        layer.split_logits.zero_()[first] = 2.0
    assert layer.boundary() == first
    x, target = train(layer, steps=500)
    assert 0 < layer.boundary() < 4 and layer.confidence() > 0.99
    deployed = layer.eval().deploy()
    assert torch.equal(deployed(x), layer(x))
    assert sum(p.numel() for p in deployed.parameters()) == sum(
        p.numel() for p in nn.Conv2d(1, 4, 1).parameters()
    )
    mean_square = (deployed(x).sum((1, 2, 3)) - target).square().mean().item()
    assert mean_square < 0.02 * (1 / 15), "the mean square of the best model of one phase is 1/15"


def train(layer: nn.Module, steps: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.linspace(-1, 1, 64)
    optimiser = torch.optim.Adam(layer.parameters(), lr=0.05)
    for step in range(steps):
        anneal_splits(layer, step / steps)
        error = (layer(x.reshape(-1, 1, 1, 1)).sum((1, 2, 3)) - x.abs()).square().mean()
        optimiser.zero_grad()
        error.backward()
        optimiser.step()
    return x.reshape(-1, 1, 1, 1), x.abs()
