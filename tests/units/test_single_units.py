"""What is true of one unit alone.

Identities between units, and the traps of the published forms.
"""

import math

import numpy
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrize

import gatewise as gw
from gatewise.errors import ArgumentError
from gatewise.units.contract import registered_units

X = torch.linspace(-8, 8, 1601, dtype=torch.float64)
EVERY_BF16 = (
    torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
)


def test_crelu_first_half_minus_second_half_is_the_input_for_every_bfloat16():
    x = EVERY_BF16[~EVERY_BF16.isnan()][None]
    positive, negative = gw.functional.crelu(x).chunk(2, dim=1)
    assert torch.equal(positive - negative, x)


def test_crelu_concatenates_channels_and_not_the_batch():
    assert gw.functional.crelu(torch.ones(2, 3, 4, 4)).shape == (2, 6, 4, 4)
    assert gw.functional.crelu(torch.ones(2, 5, 3), dim=-1).shape == (2, 5, 6)


def test_smu_is_gelu_at_alpha_0_and_mu_sqrt_half():
    assert torch.allclose(
        gw.functional.smu(X, math.sqrt(0.5), 0.0), gw.functional.gelu(X), rtol=1e-13, atol=1e-15
    )


def test_smu_at_its_published_start_is_leaky_and_its_mu_is_dead_but_at_2_5_it_trains():
    x = torch.randn(4096, generator=torch.Generator().manual_seed(0))
    for start, alive in ((1e6, False), (2.5, True)):
        unit = gw.nn.SMU(mu=start)
        unit(x).square().mean().backward()
        assert (unit.mu.grad.abs().item() > 1e-4) is alive
    assert torch.allclose(gw.nn.SMU()(x), gw.functional.leaky_relu(x, 0.25), atol=1e-6)


def test_smu1_has_a_gradient_at_zero_in_float16_where_the_printed_form_has_nan():
    x = torch.zeros(3, dtype=torch.float16, requires_grad=True)
    mu = torch.tensor(4.352665993287951e-9, dtype=torch.float16)
    printed = (1.25 * x + ((0.75 * x) ** 2 + mu**2).sqrt()) / 2
    assert torch.autograd.grad(printed.sum(), x)[0].isnan().all()
    (slope,) = torch.autograd.grad(gw.nn.SMU1()(x).sum(), x)
    assert torch.equal(slope, torch.full((3,), 0.625, dtype=torch.float16))  # (1 + alpha) / 2
    (slope,) = torch.autograd.grad(
        gw.nn.SMU1().half()(x).sum(), x
    )  # here mu itself rounds to 0: leaky ReLU
    assert slope.isfinite().all()


def test_erfact_has_finite_gradients_where_the_published_form_has_nan():
    x = torch.tensor([200.0], requires_grad=True)
    published = x * torch.erf(0.75 * torch.exp(0.75 * x))
    assert torch.autograd.grad(published, x)[0].isnan().all()
    unit = gw.nn.ErfAct()
    unit(x).backward()
    assert (
        x.grad.item() == 1.0
        and unit.alpha.grad.isfinite().all()
        and unit.beta.grad.isfinite().all()
    )


def test_acon_c_gradient_range_is_the_papers():
    x = torch.linspace(-20, 20, 400001, dtype=torch.float64, requires_grad=True)
    p1, p2 = 1.2, -0.3
    (slope,) = torch.autograd.grad(gw.functional.acon_c(x, p1, p2).sum(), x)
    assert slope.max().item() == pytest.approx(1.0998 * p1 - 0.0998 * p2, abs=2e-4)
    assert slope.min().item() == pytest.approx(1.0998 * p2 - 0.0998 * p1, abs=2e-4)


def test_acon_c_with_p1_1_and_p2_0_is_swish():
    assert torch.allclose(
        gw.functional.acon_c(X, 1.0, 0.0, 1.7), gw.functional.swish(X, 1.7), rtol=1e-14, atol=0
    )


def test_soft_relu_is_one_plus_eps_times_swish():
    assert torch.allclose(
        gw.functional.soft_relu(X, 4.0, 0.1), 1.1 * gw.functional.swish(X, 4.0), rtol=1e-13, atol=0
    )


def test_meta_acon_with_batch_norm_refuses_to_train_on_one_sample_and_says_what_does():
    unit = gw.nn.MetaACON(channels=4).train()
    with pytest.raises(ArgumentError, match="norm='layer'"):
        unit(torch.randn(1, 4, 5, 5))
    assert unit.eval()(torch.randn(1, 4, 5, 5)).shape == (1, 4, 5, 5)
    for norm in ("layer", "none"):
        assert (
            gw.nn.MetaACON(channels=4, norm=norm).train()(torch.randn(1, 4, 5, 5)).isfinite().all()
        )


def test_meta_acon_is_acon_c_with_the_switch_networks_beta():
    unit = gw.nn.MetaACON(channels=4, norm="none").double()
    x = torch.randn(2, 4, 3, 5, dtype=torch.float64)
    hidden = x.mean((2, 3)) @ unit.reduce.weight.T + unit.reduce.bias
    beta = torch.sigmoid(hidden @ unit.expand.weight.T + unit.expand.bias)
    rows = [gw.functional.acon_c(x[i : i + 1], unit.p1, unit.p2, beta[i]) for i in range(2)]
    assert torch.allclose(unit(x), torch.cat(rows), rtol=1e-12, atol=1e-14)


def test_frelu_is_the_larger_of_the_pixel_and_the_normalised_depthwise_convolution():
    unit = gw.nn.FReLU(channels=3).train()
    x = torch.randn(4, 3, 6, 5)
    windows = torch.nn.functional.unfold(x, 3, padding=1).view(4, 3, 9, 6, 5)
    seen = (windows * unit.funnel.weight.view(1, 3, 9, 1, 1)).sum(2)
    mean, variance = (
        seen.mean((0, 2, 3), keepdim=True),
        seen.var((0, 2, 3), keepdim=True, correction=0),
    )
    assert torch.allclose(
        unit(x), torch.maximum(x, (seen - mean) / (variance + 1e-5).sqrt()), atol=1e-5
    )


def test_pau_starts_as_its_facts_say():
    x = torch.linspace(-3, 3, 601)
    starts = {"A": x.relu(), "B": gw.functional.leaky_relu(x, 0.01)}
    fact = gw.get_unit("pau").parameters["numerator"]
    assert fact == "fit to ReLU (form A), or to leaky ReLU 0.01 (form B)"
    for form, curve in starts.items():
        error = (gw.nn.PAU(form=form)(x) - curve).detach()
        other = starts["B" if form == "A" else "A"]
        assert error.abs().max() < 0.0341
        # The fit is nearer to the curve that the facts name than to the other.
        assert error.square().mean() < (error + curve - other).square().mean() / 4


def test_pau_tends_to_a_line_up_to_the_stated_size():
    x = torch.tensor([6e7, -6e7])
    assert torch.allclose(gw.nn.PAU()(x), x * (0.25281987 / 0.34885983), rtol=1e-5)


def test_pwlu_starts_as_relu_bit_for_bit_and_realigning_keeps_it_at_the_new_knots():
    unit = gw.nn.PWLU(channels=3)
    x = 2 * torch.randn(64, 3, 8, generator=torch.Generator().manual_seed(0)) + 1
    assert torch.equal(unit(x), x.relu())
    unit.realign(x)
    mean, spread = x.mean((0, 2)), 3 * x.std((0, 2), correction=0)
    assert torch.allclose(unit.bounds, torch.stack((mean - spread, mean + spread), 1), rtol=1e-5)
    knots = torch.lerp(unit.bounds[:, :1], unit.bounds[:, 1:], torch.linspace(0, 1, 17))
    assert torch.allclose(unit.heights, knots.relu(), atol=1e-5)
    # Between knots it moves, so nothing may say that the curve is kept.
    assert (unit(x) - x.relu()).abs().max() > 0.01
    assert "is kept" not in gw.get_unit("pwlu").note


def test_pwlu_keeps_the_bounds_of_channels_that_do_not_vary():
    unit = gw.nn.PWLU()
    unit.realign(torch.full((4, 2), 7.0))
    assert torch.equal(unit.bounds, torch.tensor([[-3.0, 3.0]])) and unit(torch.tensor(2.0)) == 2.0


def test_maxout_takes_neighbouring_channels():
    x = torch.tensor([[1.0, 5.0, 2.0, -3.0]])
    assert gw.functional.maxout(x, 2).tolist() == [[5.0, 2.0]]


def test_softplus_in_float64_has_no_linear_shortcut():
    x = torch.tensor(25.0, dtype=torch.float64)
    assert gw.functional.softplus(x).item() == math.log1p(math.exp(-25.0)) + 25.0
    assert torch.nn.functional.softplus(x).item() == 25.0


@pytest.mark.parametrize(
    "name, options, gain",
    [
        ("relu", {}, math.sqrt(2)),
        ("leaky_relu", {"slope": 0.2}, math.sqrt(2 / 1.04)),
        ("abs", {}, 1.0),
        ("crelu", {}, math.sqrt(2)),
        ("leaky_crelu", {"slope": 0.2}, math.sqrt(2 / 1.04)),
        ("maxout", {"pieces": 2}, 1.0),
        ("swish", {"beta": 0.0}, 2.0),
        ("gelu", {}, (1 / 3 + 1 / (2 * math.pi * math.sqrt(3))) ** -0.5),
    ],
)
def test_init_gains_are_the_closed_forms(name, options, gain):
    assert gw.get_unit(name).init_gain_for(**options) == pytest.approx(gain, rel=1e-6)


@pytest.mark.parametrize(
    "name", [n for n, u in registered_units().items() if n not in ("meta_acon", "frelu")]
)
def test_weights_with_the_init_gain_keep_the_mean_square_of_a_normal_input(name):
    """Monte Carlo: 2,048 channels, 256 samples.

    The mean square's own standard error is about 1 %.
    """
    torch.manual_seed(0)
    unit = gw.get_unit(name)
    options = {"channels": 2048} if "channels" in unit.needs else {}
    y = unit.module(**options)(torch.randn(256, 2048)).detach()
    out = y @ (torch.randn(y.shape[1], 1024) * unit.init_gain_for(**options) / y.shape[1] ** 0.5)
    assert out.square().mean().item() == pytest.approx(1.0, abs=0.06)


GATED = ("glu", "swiglu", "geglu", "reglu", "bilinear", "clamped_swiglu", "situ_glu")
DEFAULTS = [n for n, u in registered_units().items() if not u.needs and n != "pau" and n != "pwlu"]


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_function_and_its_module_have_the_same_defaults(name):
    x = torch.randn(2, 6, 4, 5, generator=torch.Generator().manual_seed(0))
    assert torch.equal(getattr(gw.functional, name)(x), gw.create_unit(name)(x))


@pytest.mark.parametrize("name", [n for n, u in registered_units().items() if "dim" in u.options])
def test_the_channel_dimension_is_1_unless_said_otherwise(name):
    import inspect

    # Gated linear units as torch.nn.GLU, and a replacement of norms over the last dimension.
    default = -1 if name in (*GATED, "dyt") else 1
    assert gw.get_unit(name).options["dim"].default == default
    assert inspect.signature(gw.get_unit(name).function).parameters["dim"].default == default


def test_no_promise_is_loose():
    """Half types to 1 ulp or 2^-19, as torch's gelu; float32 to 10 ulp or 2^-18."""
    largest = {"float16": (1, 2**-19), "bfloat16": (1, 2**-19), "float32": (10, 2**-18)}
    for name, unit in registered_units().items():
        for dtype, (ulps, absolute) in largest.items():
            for bound in (unit.error[dtype].forward, unit.error[dtype].backward):
                assert bound.ulps <= ulps and bound.absolute <= absolute, name


def test_pwlu_of_any_tables_is_linear_interpolation_with_two_lines_outside():
    """Against numpy's interpolation, one curve per channel, all slopes and bounds at random."""
    generator = torch.Generator().manual_seed(0)
    unit = gw.nn.PWLU(channels=3, intervals=5, bound=0.5, dtype=torch.float64)
    with torch.no_grad():
        unit.heights.copy_(torch.randn(3, 6, generator=generator))
        unit.slopes.copy_(torch.randn(3, 2, generator=generator))
        unit.bounds.copy_(torch.tensor([[-1.0, 2.0], [0.5, 0.9], [-3.0, -1.0]]))
    x = 3 * torch.randn(40, 3, generator=generator, dtype=torch.float64)
    for c in range(3):
        (left, right), (low, high), y = (
            unit.bounds[c].tolist(),
            unit.slopes[c].tolist(),
            unit.heights[c].detach().numpy(),
        )
        points = x[:, c].numpy()
        want = numpy.interp(points, numpy.linspace(left, right, 6), y)
        want += low * numpy.minimum(points - left, 0) + high * numpy.maximum(points - right, 0)
        assert torch.allclose(unit(x)[:, c], torch.from_numpy(want), rtol=1e-12, atol=1e-12)
        reference = gw.get_unit("pwlu").reference(x, **unit.arguments(x))
        assert torch.allclose(reference[:, c], torch.from_numpy(want), rtol=1e-12, atol=1e-12)


LAYOUTS = {
    "coo": lambda x: x.to_sparse_coo(),
    "csr": lambda x: x.to_sparse_csr(),
    "bsr": lambda x: x.to_sparse_bsr((2, 2)),
    "mkldnn": lambda x: x.to_mkldnn(),
    "nested": lambda x: torch.nested.nested_tensor([x, x[:2]]),
    "jagged": lambda x: torch.nested.nested_tensor([x, x[:2]], layout=torch.jagged),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.filterwarnings("ignore")  # torch calls these layouts prototypes
def test_an_input_that_is_not_dense_is_refused_with_the_way_out(layout: str):
    x = LAYOUTS[layout](torch.randn(4, 4).relu())
    for name, unit in registered_units().items():
        options = {"channels": 4} if "channels" in unit.needs else {}
        with pytest.raises(gw.errors.ArgumentError, match=rf"{name}: .*dense tensor.*to_"):
            gw.create_unit(name, **options)(x)


def test_leaky_crelu_is_the_leaky_relu_of_both_signs_and_crelu_at_slope_0():
    x = torch.linspace(-3, 3, 13, dtype=torch.float64).reshape(1, -1)
    want = [max(v, 0.25 * v) for v in (*x[0].tolist(), *(-x[0]).tolist())]
    assert gw.functional.leaky_crelu(x, 0.25)[0].tolist() == want
    assert torch.equal(gw.functional.leaky_crelu(x, 0.0), gw.functional.crelu(x))
    halves = gw.functional.leaky_crelu(x, 0.25).chunk(2, 1)
    assert torch.equal(halves[0] - halves[1], 1.25 * x)


def test_clamped_swiglu_and_its_smooth_form_agree_for_small_responses_and_are_bounded():
    gate, up = torch.randn(2, 200, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    small = (gate / 100, up / 100)
    plain = gw.functional.swiglu(*small)
    torch.testing.assert_close(gw.functional.clamped_swiglu(*small), plain)
    torch.testing.assert_close(gw.functional.situ_glu(*small), plain, rtol=1e-4, atol=0)
    large = (torch.tensor([20.0, 20.0]), torch.tensor([30.0, -30.0]))
    hard = gw.functional.clamped_swiglu(*large)
    torch.testing.assert_close(hard, functional.silu(torch.tensor(7.0)) * torch.tensor([7.0, -7.0]))
    assert gw.functional.situ_glu(*large).abs().max() < 4 * 25


class Doubled(nn.Module):
    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return 2 * value


@pytest.mark.parametrize("name", ["swish", "acon_c"])
def test_a_parametrized_number_is_taken_as_the_parametrization_gives_it(name: str):
    module = gw.create_unit(name, channels=3, beta=0.5)
    x = torch.randn(4, 3)
    want = gw.create_unit(name, channels=3, beta=1.0)
    want.load_state_dict({**module.state_dict(), "beta": 2 * module.beta.detach()})
    parametrize.register_parametrization(module, "beta", Doubled(), unsafe=True)
    assert torch.equal(module(x), want(x))
