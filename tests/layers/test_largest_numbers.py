"""Near the ends of the number range.

What used to overflow on the way, each against the value it should have.
"""

import pytest
import torch
from gatewise_papers.maso import MASO
from gatewise_papers.psc import StaticPSConv2d, StaticPSLinear
from torch import nn

import gatewise as gw
from gatewise.layers.iieu import ConvIIEU, Coupler
from gatewise.layers.orthonormal import METHODS, orthogonal

LARGEST = torch.finfo(torch.float32).max
SAME_MATRIX = [name for name in METHODS if name != "newton_schulz"]


def signs(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.where(torch.rand(shape, generator=generator) < 0.5, -1.0, 1.0)


def gradients(module: nn.Module, *inputs: torch.Tensor) -> dict[str, torch.Tensor]:
    """Of the sum of the outputs, which have no NaN, to the inputs and parameters."""
    leaves = [x.clone().requires_grad_() for x in inputs]
    out = module(*leaves)
    assert not out.isnan().any()
    out.backward(torch.ones_like(out))
    found = {f"input {i}": leaf.grad for i, leaf in enumerate(leaves)}
    return {
        n: g
        for n, g in (found | {n: p.grad for n, p in module.named_parameters()}).items()
        if g is not None
    }


def with_nan(found: dict[str, torch.Tensor]) -> list[str]:
    return [name for name, gradient in found.items() if gradient.isnan().any()]


@pytest.mark.parametrize("size", [1e37, 1e38, LARGEST])
@pytest.mark.parametrize("data_dependent", [False, True])
def test_a_learned_split_trains_on_one_huge_input(size, data_dependent):
    torch.manual_seed(0)
    x = torch.zeros(2, 6)
    x[0, 0], x[1, 3] = -size, size
    assert not with_nan(gradients(StaticPSLinear(6, 3, data_dependent=data_dependent).train(), x))
    maps = torch.zeros(2, 2, 4, 4)
    maps[0, 0, 1, 1], maps[1, 1, 2, 2] = -size, size
    assert not with_nan(
        gradients(StaticPSConv2d(2, 3, 3, data_dependent=data_dependent).train(), maps)
    )


def test_a_data_dependent_split_does_not_change_when_the_input_is_scaled_up_to_the_end():
    torch.manual_seed(0)
    layer = StaticPSConv2d(2, 3, 3, data_dependent=True, noise=False).train()
    nn.init.normal_(layer.splitter.weight)
    x = torch.rand(4, 2, 6, 6) + 0.5  # the sum of 36 positions overflows where the mean does not
    torch.testing.assert_close(layer.gates(x * 2.0**127), layer.gates(x), rtol=0, atol=1e-6)


@pytest.mark.parametrize("term_b", ["layer", "group", "batch", "affine"])
@pytest.mark.parametrize("size", [1e30, 5e37, 3e38, LARGEST])
def test_iieu_b_and_its_layer_at_the_end_of_the_range(size, term_b):
    options = {"term_b": term_b} | ({"groups": 2} if term_b == "group" else {})
    for sign in (signs(4, 6, 3, 3), torch.ones(4, 6, 3, 3)):
        assert not with_nan(gradients(gw.nn.IIEUB(channels=6, **options), size * sign))
    alone = torch.zeros(2, 3, 5, 5)
    alone[0, 1, 2, 2] = size
    assert not with_nan(gradients(ConvIIEU(nn.Conv2d(3, 4, 3), **options), alone))


@pytest.mark.parametrize("size", [1e30, 1e38, LARGEST])
def test_a_coupler_mixes_huge_branches_and_its_parameters_stay_usable(size):
    torch.manual_seed(0)
    coupler = Coupler(6, reduction=2)
    u, v = size * signs(4, 6, 3, 3), size * signs(4, 6, 3, 3).flip(-1)
    assert not with_nan(gradients(coupler, u, v))
    ours, theirs = (w.double()[..., None, None] for w in coupler.weights(u, v))
    torch.testing.assert_close(
        coupler(u, v).double(), ours * u.double() + theirs * v.double(), rtol=1e-6, atol=0
    )


@pytest.mark.parametrize("norm", ["batch", "layer", "none"])
@pytest.mark.parametrize("size", [1e7, 1e13])
def test_meta_acon_takes_the_mean_of_a_map_of_large_numbers(size, norm):
    for sign in (signs(4, 6, 3, 3), torch.ones(4, 6, 3, 3)):
        for training in (False, True):
            unit = gw.nn.MetaACON(channels=6, reduction=2, norm=norm).train(training)
            assert not with_nan(gradients(unit, size * sign))


@pytest.mark.parametrize("bounds", [(0.0, 0.0), (1.0, 1.0), (2.0, -2.0), (0.0, 1e-40)])
def test_pwlu_whose_bounds_have_met_is_two_lines(bounds):
    unit = gw.nn.PWLU()
    with torch.no_grad():
        unit.bounds.copy_(torch.tensor([bounds]))
    x = torch.tensor([-3e38, -1.0, 0.5, 3.0, 1e30])
    assert all(gradient.isfinite().all() for gradient in gradients(unit, x / 1e3).values())
    left, right = bounds
    wanted = torch.where(
        x <= left, torch.zeros(5), 3.0 + (x - right)
    )  # heights 0 and 3, slopes 0 and 1
    torch.testing.assert_close(unit(x), wanted)


@pytest.mark.parametrize("form", ["A", "B"])
def test_pau_without_a_denominator_is_its_polynomial_and_has_gradients(form):
    unit = gw.nn.PAU(form=form)
    nn.init.zeros_(unit.denominator)
    everywhere = torch.tensor([-2e4, -2.0, 0.0, 2.0, 1e4])  # the ninth power is finite
    assert not with_nan(gradients(unit, everywhere))
    x = torch.tensor([-2e4, -30.0, -1.5, 0.5, 2.0, 5e3], dtype=torch.float64)
    powers = torch.stack([x**j for j in range(6)])
    a = unit.numerator.detach().double()
    torch.testing.assert_close(unit(x.float()).double(), a @ powers, rtol=1e-5, atol=1e-5)
    slope = sum(j * a[j] * x ** (j - 1) for j in range(1, 6))
    torch.testing.assert_close(
        gradients(unit, x.float())["input 0"].double(), slope, rtol=1e-5, atol=1e-5
    )


SIZES = {
    "far apart": torch.logspace(-30, 30, 4),
    "tiny": torch.full((4,), 1e-30),
    "huge": torch.full((4,), 3e38),
    "below normal": torch.full((4,), 2.0**-130),
    "one below normal": torch.tensor([1.0, 2.0**-130, 1.0, 2.0**-125]),
}


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("method", SAME_MATRIX)
def test_orthonormal_filters_do_not_depend_on_the_size_of_rows(method, name):
    torch.manual_seed(1)
    rows = torch.randn(4, 6).clamp(-2, 2) / 4
    layer = nn.Linear(6, 4, bias=False)
    with torch.no_grad():
        layer.weight.copy_(rows * SIZES[name][:, None])
    stored = layer.weight.detach().double()
    lengths = stored.abs().amax(
        1, keepdim=True
    )  # Gram-Schmidt's matrix is that of the rows scaled, in float64
    scaled = (stored / lengths).requires_grad_()
    wanted = METHODS["gram_schmidt"](scaled)
    orthogonal(layer, method=method)
    torch.testing.assert_close(layer.weight.double(), wanted, rtol=0, atol=1e-6)
    pull = torch.randn(4, 6)
    layer.weight.backward(pull)
    (expected,) = torch.autograd.grad(wanted, scaled, pull.double())
    gradient = layer.parametrizations.weight.original.grad
    assert gradient.isfinite().all()
    normal = (lengths > 1e-37).squeeze(
        1
    )  # shorter rows would have gradients that overflow, and get none
    torch.testing.assert_close(
        gradient[normal].double() * lengths[normal], expected[normal], rtol=1e-4, atol=1e-5
    )


def test_the_nearest_orthonormal_matrix_does_not_depend_on_the_size_of_the_whole():
    rows = torch.randn(4, 6)
    for size in (2.0**-130, 1e-30, 1e30, 2.0**120):
        w = (rows * size).requires_grad_()
        q = METHODS["newton_schulz"](w)
        left, _, right = torch.linalg.svd(w.detach().double() / size, full_matrices=False)
        torch.testing.assert_close(q.double(), left @ right, rtol=0, atol=1e-6)
        q.backward(torch.randn(4, 6))
        assert w.grad.isfinite().all()


@pytest.mark.parametrize("size", [1e25, 1e38])
def test_a_mixture_of_far_apart_gaussians_can_be_sampled(size):
    layer = MASO(6, 4, 3)
    with torch.no_grad():
        layer.slopes.mul_(size)
    weights = (layer.offsets.double() + layer.slopes.double().square().sum(-1) / 2).softmax(-1)
    torch.testing.assert_close(layer.prior().double(), weights)
    inputs, regions = layer.sample(5)
    assert torch.equal(regions, weights.argmax(-1).expand(5, 4))
    assert inputs.isfinite().all()


def test_the_mean_of_scores_does_not_overflow_before_it_is_divided():
    layer = MASO.from_parameters(
        torch.eye(4).expand(1, 4, 4), torch.zeros(1, 4), inference="beta", beta=0.0
    )
    z = torch.tensor([LARGEST, LARGEST, -LARGEST, -LARGEST])
    assert torch.equal(layer(z), torch.zeros(1))
    assert torch.equal(layer(z.abs()), torch.full((1,), LARGEST))
