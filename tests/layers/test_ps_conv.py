"""Phase selective layers: equal to CReLU and a plain layer.

Special cases, start values, checkpoints, warning.
"""

import copy
import warnings
from itertools import product

import pytest
import torch
from gatewise_papers import psc
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

import gatewise as gw
from gatewise.errors import ArgumentError, RectifiedInputWarning
from gatewise.layers.phase import PSConv1d, PSConv2d, PSLinear
from gatewise.testing import check_layer
from gatewise.units.catalogue import CReLU

MODES = ("zeros", "reflect", "replicate", "circular")


@st.composite
def geometries(draw):
    """Arguments of a 2-d convolution and an input it fits."""
    groups = draw(st.sampled_from((1, 1, 2, 3)))
    per_axis = st.tuples(st.integers(1, 3), st.integers(1, 3))
    options = {
        "kernel_size": draw(per_axis),
        "stride": draw(per_axis),
        "padding": draw(st.tuples(st.integers(0, 3), st.integers(0, 3))),
        "dilation": draw(per_axis),
        "groups": groups,
        "bias": draw(st.booleans()),
        "padding_mode": draw(st.sampled_from(MODES)),
    }
    if draw(st.integers(0, 4)) == 0:
        options |= {"stride": 1, "padding": draw(st.sampled_from(("same", "valid")))}
    channels = groups * draw(st.integers(1, 3)), groups * draw(st.integers(1, 3))
    shape = (draw(st.integers(1, 2)), channels[0], draw(st.integers(7, 9)), draw(st.integers(7, 9)))
    return channels, options, torch.randn(shape, generator=generator(draw), dtype=torch.float64)


def generator(draw) -> torch.Generator:
    return torch.Generator().manual_seed(draw(st.integers(0, 2**30)))


def stacked(layer: PSConv2d) -> torch.Tensor:
    """``[W+, -W-]`` with zeros for the inputs an output's group does not see.

    A weight for ``groups=1``.
    """
    inputs, per_group, rows = (
        layer.in_channels,
        layer.in_channels // layer.groups,
        layer.out_channels // layer.groups,
    )
    weight = torch.zeros(
        layer.out_channels, 2 * inputs, *layer.kernel_size, dtype=layer.weight.dtype
    )
    for out in range(layer.out_channels):
        seen = out // rows * per_group
        weight[out, seen : seen + per_group] = layer.weight.detach()[out]
        weight[out, inputs + seen : inputs + seen + per_group] = -layer.weight_neg.detach()[out]
    return weight


@pytest.mark.filterwarnings(
    "ignore:Using padding='same':UserWarning"
)  # torch's own, of the plain layer
@given(geometries())
def test_it_equals_conv_after_crelu_with_the_stacked_weight(geometry):
    (inputs, outputs), options, x = geometry
    layer = PSConv2d(inputs, outputs, **options, dtype=torch.float64)
    plain = nn.Conv2d(2 * inputs, outputs, **options | {"groups": 1}, dtype=torch.float64)
    plain.load_state_dict(
        {"weight": stacked(layer)} | ({"bias": layer.bias} if options["bias"] else {})
    )
    want = plain(CReLU()(x))
    assert layer(x).shape == want.shape
    assert torch.allclose(layer(x), want, rtol=0, atol=1e-12)
    assert torch.equal(layer(x[0]).unsqueeze(0), layer(x[:1])), "without a batch dimension"


def test_same_padding_of_an_even_kernel_puts_the_odd_zero_behind_without_a_warning():
    layer, x = (
        PSConv2d(1, 1, 2, padding="same", bias=False, start="same"),
        torch.rand(1, 1, 3, 3) - 0.5,
    )
    layer.load_state_dict({"weight": torch.tensor([[[[0.0, 0.0], [0.0, 1.0]]]])})
    want = torch.zeros(1, 1, 3, 3)
    want[..., :2, :2] = x[..., 1:, 1:]
    assert torch.equal(layer(x), want)


def test_gradients_equal_those_of_the_stacked_form():
    layer = PSConv2d(4, 6, 3, 2, 1, groups=2, dtype=torch.float64)
    x = torch.randn(2, 4, 6, 6, dtype=torch.float64, requires_grad=True)
    got = torch.autograd.grad(layer(x).square().sum(), (x, layer.weight, layer.weight_neg))
    weight = stacked(layer).requires_grad_()
    y = F.conv2d(CReLU()(x), weight, layer.bias, 2, 1)
    dx, dw = torch.autograd.grad(y.square().sum(), (x, weight))
    assert torch.allclose(got[0], dx, rtol=0, atol=1e-11)
    for out in range(6):
        seen = slice(2 * (out // 3), 2 * (out // 3) + 2)
        assert torch.allclose(got[1][out], dw[out, :4][seen], rtol=0, atol=1e-11)
        assert torch.allclose(got[2][out], -dw[out, 4:][seen], rtol=0, atol=1e-11)


def test_every_input_of_a_linear_layer_picks_its_weight_by_its_sign():
    layer = PSLinear(5, 3, dtype=torch.float64).requires_grad_(False)
    x = torch.randn(2, 4, 5, dtype=torch.float64)
    x[0, 0, :2] = torch.tensor([0.0, -0.0])
    for i, j, out in product(range(2), range(4), range(3)):
        picked = [
            layer.weight[out, k] if x[i, j, k] >= 0 else layer.weight_neg[out, k] for k in range(5)
        ]
        want = sum(float(w) * float(v) for w, v in zip(picked, x[i, j], strict=True)) + float(
            layer.bias[out]
        )
        assert abs(float(layer(x)[i, j, out]) - want) < 1e-14


def test_a_sequence_is_a_map_of_height_one():
    layer = PSConv1d(4, 6, 3, 2, 1, 2, 2, dtype=torch.float64)
    flat = PSConv2d(4, 6, (1, 3), (1, 2), (0, 1), (1, 2), 2, dtype=torch.float64)
    flat.load_state_dict(
        {k: v.unsqueeze(2) if v.dim() == 3 else v for k, v in layer.state_dict().items()}
    )
    x = torch.randn(2, 4, 9, dtype=torch.float64)
    assert torch.allclose(layer(x), flat(x.unsqueeze(2)).squeeze(2), rtol=0, atol=1e-14)


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_a_zero_start_is_bit_for_bit_the_convolution_after_a_rectifier(groups: int):
    layer, x = PSConv2d(4, 4, 3, padding=1, groups=groups, start="zero"), torch.randn(2, 4, 8, 8)
    assert torch.equal(
        layer(x), F.conv2d(x.relu(), layer.weight, layer.bias, padding=1, groups=groups)
    )


@pytest.mark.parametrize(
    ("start", "before"),
    [
        ("same", lambda x: x),
        (0.2, lambda x: F.leaky_relu(x, 0.2)),
        (-1, torch.abs),
        (1, lambda x: x),
    ],
)
def test_a_start_with_a_slope_is_the_plain_layer_after_that_unit(start, before):
    x = torch.randn(3, 4, 6, 6, dtype=torch.float64)
    layer = PSConv2d(4, 5, 3, start=start, dtype=torch.float64)
    assert torch.allclose(
        layer(x), F.conv2d(before(x), layer.weight, layer.bias), rtol=0, atol=1e-13
    )
    linear = PSLinear(6, 5, start=start, dtype=torch.float64)
    assert torch.allclose(
        linear(x), F.linear(before(x), linear.weight, linear.bias), rtol=0, atol=1e-13
    )


@pytest.mark.parametrize("start", ["independent", "zero", "same", 0.25])
def test_every_start_keeps_the_mean_square_of_a_symmetric_input(start):
    layer, x = PSLinear(500, 4000, bias=False, start=start), torch.randn(200, 500)
    # An independent start gives each output a mean, of square 0.32 chi^2: over 4000 outputs that is
    # 0.7 % per standard deviation; 100,000 inputs make 0.5 %, two million weights next to nothing.
    assert float(layer(x).detach().square().mean()) == pytest.approx(1, rel=0.03)
    slope = {"independent": 1, "zero": 0, "same": 1}.get(start, start)
    want = 2 / (1 + slope**2) / 500
    with torch.no_grad():
        assert float(layer.weight.var()) == pytest.approx(want, rel=0.01)
        assert float(layer.weight_neg.var()) == pytest.approx(slope**2 * want, rel=0.01)
        together = float((layer.weight * layer.weight_neg).mean())
    assert together == pytest.approx(
        0 if start == "independent" else slope * want, rel=0.01, abs=0.01 * want
    )


def test_the_derivative_at_zero_is_zero():
    layer = PSConv2d(2, 3, 3, dtype=torch.float64).eval()
    x = torch.zeros(1, 2, 5, 5, dtype=torch.float64, requires_grad=True)
    (got,) = torch.autograd.grad(layer(x).sum(), x)
    assert torch.equal(got, torch.zeros_like(x))
    signs = torch.tensor([1.0, -1.0], dtype=torch.float64).reshape(1, 2, 1, 1) * torch.ones_like(x)
    leaf = signs.requires_grad_()
    (got,) = torch.autograd.grad(layer(leaf)[..., 1, 1].sum(), leaf)
    assert torch.allclose(got[0, 0, 2, 2], layer.weight[:, 0, 1, 1].sum())
    assert torch.allclose(got[0, 1, 2, 2], layer.weight_neg[:, 1, 1, 1].sum())


def test_its_state_has_the_plain_keys_and_one_more():
    assert list(PSConv2d(2, 3, 1).state_dict()) == ["weight", "weight_neg", "bias"]
    assert list(PSLinear(2, 3, bias=False).state_dict()) == ["weight", "weight_neg"]


@pytest.mark.parametrize(
    ("start", "slope"), [("independent", 0), ("zero", 0), ("same", 1), (0.1, 0.1)]
)
@pytest.mark.parametrize("assign", [False, True])
def test_a_plain_checkpoint_loads_and_the_missing_weight_follows_the_start(
    start, slope: float, assign: bool
):
    plain = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Linear(4, 5))
    state = plain.state_dict()
    kept = {key: value.clone() for key, value in state.items()}
    model = nn.Sequential(PSConv2d(2, 3, 3, start=start), PSLinear(4, 5, start=start))
    model.load_state_dict(state, strict=True, assign=assign)
    for part in (0, 1):
        assert torch.equal(model[part].weight, kept[f"{part}.weight"])
        assert torch.allclose(model[part].weight_neg, slope * kept[f"{part}.weight"])
        assert torch.equal(model[part].bias, kept[f"{part}.bias"])
    assert state.keys() == kept.keys()


def test_a_whole_checkpoint_loads_as_it_is_and_a_wrong_one_is_refused():
    first, second = PSConv2d(2, 3, 3, start="same"), PSConv2d(2, 3, 3)
    second.load_state_dict({key: value + 1 for key, value in first.state_dict().items()})
    assert torch.equal(second.weight_neg, first.weight_neg + 1)
    for damage in ({"weight": None}, {"stray": torch.zeros(1)}):
        state = {**first.state_dict(), **damage}
        with pytest.raises(RuntimeError):
            second.load_state_dict(
                {key: value for key, value in state.items() if value is not None}
            )


@pytest.mark.parametrize(
    ("kind", "plain", "shape"),
    [
        (PSLinear, nn.Linear(3, 4), (2, 3)),
        (PSConv1d, nn.Conv1d(3, 4, 2, bias=False), (2, 3, 5)),
        (PSConv2d, nn.Conv2d(2, 4, 3, 2, 1, 2, 2, padding_mode="reflect").double(), (2, 2, 9, 9)),
    ],
)
def test_a_plain_layer_becomes_one_that_computes_the_same_after_its_rectifier(
    kind, plain: nn.Module, shape
):
    x = torch.randn(shape, dtype=plain.weight.dtype)
    before = torch.random.get_rng_state()
    layer = kind.from_layer(plain.eval())
    assert torch.equal(torch.random.get_rng_state(), before), "no random numbers are used up"
    assert torch.equal(layer(x), plain(x.relu()))
    assert torch.allclose(kind.from_layer(plain, start="same")(x), plain(x), atol=1e-6)
    assert not layer.training and layer.weight.requires_grad
    with torch.no_grad():
        layer.weight.zero_()
    assert bool(plain.weight.any()), "the plain layer keeps its own weight"


def test_a_layer_of_another_kind_has_no_phase_selective_form():
    class Standardised(nn.Conv2d):
        pass

    parametrised = nn.utils.parametrizations.weight_norm(nn.Conv2d(2, 3, 1))
    for layer in (
        nn.Conv1d(2, 3, 1),
        nn.Linear(2, 3),
        Standardised(2, 3, 1),
        parametrised,
        nn.LazyConv2d(3, 1),
    ):
        with pytest.raises(ArgumentError, match="Conv2d"):
            PSConv2d.from_layer(layer)
    with pytest.raises(ArgumentError, match="start"):
        PSConv2d.from_layer(nn.Conv2d(2, 3, 1), start="leaky")


def warnings_of(call) -> list:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [each for each in caught if each.category is RectifiedInputWarning]


def test_a_rectified_input_is_warned_of_once_and_only_in_training():
    layer, x = PSConv2d(3, 4, 3), torch.rand(2, 3, 8, 8)
    assert not warnings_of(lambda: layer.eval()(x))
    (told,) = warnings_of(lambda: layer.train()(x))
    assert "PSConv2d" in str(told.message) and "rectifier" in str(told.message)
    assert not warnings_of(lambda: layer(x))
    assert warnings_of(lambda: PSLinear(8, 1)(x))


def test_an_input_with_both_signs_is_not_warned_of_nor_looked_at_again():
    layer = PSLinear(8, 2)
    assert not warnings_of(lambda: layer(torch.randn(40, 8)))
    assert not warnings_of(lambda: layer(torch.rand(40, 8)))


def test_a_few_numbers_are_too_few_to_judge():
    layer = PSLinear(1, 1)
    assert not warnings_of(lambda: layer(torch.ones(31, 1)))
    assert warnings_of(lambda: layer(torch.ones(32, 1)))
    assert not warnings_of(lambda: PSLinear(1, 1)(torch.full((64, 1), torch.nan)))


def test_the_weight_that_the_warning_speaks_of_gets_no_gradient():
    layer = PSLinear(8, 2)
    with pytest.warns(RectifiedInputWarning):
        layer(torch.rand(40, 8)).sum().backward()
    assert not layer.weight_neg.grad.any() and layer.weight.grad.all()


def test_the_look_at_the_input_does_not_disturb_tracing_or_batching():
    x = torch.rand(4, 2, 6, 6)
    torch._dynamo.reset()
    compiled = torch.compile(PSConv2d(2, 3, 3), backend="eager", fullgraph=True)
    assert not warnings_of(lambda: compiled(x))
    torch._dynamo.reset()
    assert not warnings_of(lambda: torch.export.export(PSConv2d(2, 3, 3), (x,)))
    assert not warnings_of(lambda: vmap(PSConv2d(2, 3, 3))(x))
    assert not warnings_of(lambda: PSConv2d(2, 3, 3, device="meta")(x.to("meta")))


def test_gradients_per_sample_and_ensembles_work_in_training():
    layers = [PSLinear(4, 3) for _ in range(3)]
    x = torch.randn(10, 4)
    stack = {
        name: torch.stack([layer.state_dict()[name] for layer in layers])
        for name in layers[0].state_dict()
    }
    many = vmap(lambda parameters: functional_call(layers[0], parameters, (x,)))(stack)
    assert torch.allclose(many, torch.stack([layer(x) for layer in layers]), atol=1e-6)
    parameters = dict(layers[0].named_parameters())
    each = vmap(grad(lambda p, row: functional_call(layers[0], p, (row,)).sum()), (None, 0))(
        parameters, x
    )
    assert torch.allclose(each["weight_neg"], x.clamp(max=0).unsqueeze(1).expand(-1, 3, -1))


def test_dtypes_mix_as_long_as_nothing_is_narrowed():
    layer, x = PSConv2d(2, 3, 3), torch.randn(1, 2, 5, 5, dtype=torch.float64)
    wide = copy.deepcopy(layer).double()
    assert torch.allclose(layer(x), wide(x), rtol=0, atol=1e-14)
    assert layer(x.half()).dtype == torch.float16
    assert copy.deepcopy(layer).half()(x.float()).dtype == torch.float32
    with pytest.raises(ArgumentError, match="weight"):
        wide(x.float())


@pytest.mark.parametrize(
    ("arguments", "options", "named"),
    [
        ((0, 3, 3), {}, "in_channels"),
        ((2, 2.5, 3), {}, "out_channels"),
        ((2, 3, 0), {}, "kernel_size"),
        ((2, 3, (3, 3, 3)), {}, "kernel_size"),
        ((2, 3, True), {}, "kernel_size"),
        ((2, 3, None), {}, "kernel_size"),
        ((2, 3, 3), {"stride": 0}, "stride"),
        ((2, 3, 3), {"dilation": (1, 0)}, "dilation"),
        ((2, 3, 3), {"padding": -1}, "padding"),
        ((2, 3, 3), {"padding": "full"}, "padding"),
        ((2, 3, 3), {"padding": "same", "stride": 2}, "stride 1"),
        ((2, 3, 3), {"groups": 2}, "groups"),
        ((3, 4, 3), {"groups": 2}, "groups"),
        ((2, 2, 3), {"groups": 0}, "groups"),
        ((2, 3, 3), {"padding_mode": "constant"}, "padding_mode"),
        ((2, 3, 3), {"start": "leaky"}, "start"),
        ((2, 3, 3), {"start": float("nan")}, "start"),
        ((2, 3, 3), {"start": None}, "start"),
    ],
)
def test_a_bad_argument_is_named(arguments, options, named: str):
    with pytest.raises(ArgumentError, match=named):
        PSConv2d(*arguments, **options)


@pytest.mark.parametrize(
    ("options", "shape", "said"),
    [
        ({}, (1, 2, 5), "number of input channels"),
        ({}, (5, 5), "dimensions"),
        ({}, (1, 1, 2, 5, 5), "dimensions"),
        ({}, (1, 3, 5, 5), "number of input channels"),
        ({}, (1, 2, 2, 5), "smaller than the kernel"),
        ({"padding": 1, "dilation": 3}, (1, 2, 4, 9), "smaller than the kernel"),
        ({"padding": 2}, (1, 2, 0, 5), "smaller than the kernel"),
        ({"padding": 4, "padding_mode": "reflect"}, (1, 2, 4, 4), "too wide"),
        ({"padding": 5, "padding_mode": "circular"}, (1, 2, 4, 4), "too wide"),
    ],
)
def test_an_input_that_does_not_fit_gets_our_error(options, shape, said: str):
    with pytest.raises(ArgumentError, match=said):
        PSConv2d(2, 3, 3, **options)(torch.ones(shape))


def test_the_widest_padding_and_the_smallest_input_work():
    x = torch.randn(1, 2, 4, 4)
    assert PSConv2d(2, 3, 3, padding=3, padding_mode="reflect")(x).shape == (1, 3, 8, 8)
    assert PSConv2d(2, 3, 3, padding=4, padding_mode="circular")(x).shape == (1, 3, 10, 10)
    assert PSConv2d(2, 3, 5)(torch.randn(2, 5, 5)).shape == (3, 1, 1)
    assert PSConv2d(2, 3, 5, padding=2)(torch.randn(2, 1, 1)).shape == (3, 1, 1)


CONTRACT = {
    "conv": (lambda: PSConv2d(3, 4, 3, padding=1), (2, 3, 5, 4), 1),
    "grouped": (
        lambda: PSConv2d(
            4, 6, (3, 2), 2, 1, groups=2, bias=False, start=0.1, padding_mode="reflect"
        ),
        (2, 4, 5, 7),
        1,
    ),
    "sequence": (lambda: PSConv1d(3, 4, 3, padding="same", padding_mode="circular"), (2, 3, 6), 1),
    "linear": (lambda: PSLinear(5, 4), (2, 3, 5), 2),
}
ONNX = {"exports_to_onnx": "has a test of its own"}
TWICE = {"traces_through_aot_autograd": "seconds for the same operations as in 'conv'"}


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::gatewise.errors.RectifiedInputWarning"
)  # the contract also feeds ones and zeros
@pytest.mark.parametrize("name", CONTRACT)
def test_it_keeps_the_contract(name: str):
    build, shape, channel_dim = CONTRACT[name]
    check_layer(
        build, shape, channel_dim=channel_dim, leave_out=ONNX if name == "conv" else ONNX | TWICE
    )


@pytest.mark.slow
@pytest.mark.onnx
@pytest.mark.parametrize("name", ["grouped"])
def test_it_exports_to_onnx(name: str):
    build, shape, channel_dim = CONTRACT[name]
    check_layer(build, shape, channel_dim=channel_dim, only=["exports_to_onnx"])


@pytest.mark.slow
def test_it_trains_in_two_processes():
    check_layer(_small_conv, (4, 3, 5, 4), only=["trains_in_two_processes"], ddp=True)


def _small_conv() -> PSConv2d:
    return PSConv2d(3, 4, 3)


def test_it_shows_its_options():
    shown = repr(PSConv2d(4, 6, 3, 2, 1, groups=2, bias=False, start=0.1))
    want = "PSConv2d(4, 6, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), groups=2, "
    want += "bias=False, start=0.1)"
    assert shown == want
    assert repr(PSLinear(2, 3)) == "PSLinear(in_features=2, out_features=3)"


def test_two_phases_that_overflow_in_float16_do_not_make_a_nan():
    layer = PSLinear(64, 1, bias=False, start="same", dtype=torch.float16)
    torch.nn.init.constant_(layer.weight, 1.0)
    torch.nn.init.constant_(layer.weight_neg, 1.0)
    assert layer(torch.tensor([[3000.0, -3000.0] * 32]).half()).tolist() == [[0.0]]


@pytest.mark.parametrize("weights", [torch.channels_last, torch.contiguous_format])
@pytest.mark.parametrize("inputs", [torch.channels_last, torch.contiguous_format])
@pytest.mark.parametrize("options", [{}, {"padding": 1}, {"stride": 2}])
def test_input_gradients_are_channels_last_where_those_of_torch_are(inputs, weights, options):
    x = torch.randn(2, 8, 7, 7).to(memory_format=inputs).requires_grad_()

    def format_of_gradient(layer):
        (gradient,) = torch.autograd.grad(layer.to(memory_format=weights)(x).square().sum(), x)
        return gradient.is_contiguous(memory_format=torch.channels_last)

    expected = format_of_gradient(nn.Conv2d(8, 6, 3, **options))
    for layer in (
        gw.nn.PSConv2d(8, 6, 3, **options),
        psc.LowRankPSConv2d(8, 6, 3, rank=2, **options),
        psc.StaticPSConv2d(8, 6, 3, split=0.5, **options),
        psc.StaticPSConv2d(8, 6, 3, **options).eval(),
    ):
        assert format_of_gradient(layer) or not expected
