"""Soft layers: Propositions 5 and 6, and tanh written with a sigmoid."""

import pytest
import torch
from gatewise_papers.maso import MASO, SoftConv1d, SoftConv2d, SoftLinear, tanh_as_sigmoid
from loops import for_each
from torch import nn
from torch.nn import functional as F

import gatewise.nn as gnn
from gatewise.errors import ArgumentError
from gatewise.testing import check_layer

OF_TORCH = {"sigmoid": torch.sigmoid, "tanh": torch.tanh, "softmax": lambda u: torch.softmax(u, 1)}
ONNX = {"exports_to_onnx": "has a test of its own"}


def plain(layer, z):
    """The response by torch's own functions."""
    if isinstance(layer, SoftLinear):
        return F.linear(z, layer.weight, layer.bias)
    conv = F.conv1d if layer.weight.dim() == 3 else F.conv2d
    return conv(
        z, layer.weight, layer.bias, layer.stride, layer.padding, layer.dilation, layer.groups
    )


CASES = (
    (lambda **o: SoftLinear(5, 6, **o), (5,)),
    (lambda **o: SoftLinear(5, 6, bias=False, **o), (5,)),
    (lambda **o: SoftConv1d(4, 6, 3, 2, 1, groups=2, **o), (4, 9)),
    (lambda **o: SoftConv2d(4, 6, (3, 2), dilation=2, bias=False, **o), (4, 9, 8)),
)


@for_each("gate", OF_TORCH)
@for_each("case", range(len(CASES)))
def test_output_is_the_gate_of_the_response(case, gate):
    build, shape = CASES[case]
    layer, z = build(gate=gate, dtype=torch.float64), torch.randn(7, *shape, dtype=torch.float64)
    torch.testing.assert_close(layer(z), OF_TORCH[gate](plain(layer, z)), rtol=1e-13, atol=1e-15)


def test_sigmoid_is_the_soft_selection_of_a_rectifiers_active_region():
    layer, z = SoftLinear(5, 6, dtype=torch.float64), torch.randn(50, 5, dtype=torch.float64)
    rectifier = MASO.from_layer(as_plain(layer), "relu", inference="soft")
    torch.testing.assert_close(layer(z), rectifier.select(z)[..., 1], rtol=1e-12, atol=1e-15)
    hard = MASO.from_layer(as_plain(layer), "relu")
    torch.testing.assert_close(hard(z), F.relu(plain(layer, z)), rtol=1e-12, atol=1e-15)


def test_softmax_is_the_soft_selection_of_the_maximum_over_all_units():
    layer, z = (
        SoftLinear(5, 6, gate="softmax", dtype=torch.float64),
        torch.randn(50, 5, dtype=torch.float64),
    )
    pooled = MASO.from_layer(as_plain(layer), gnn.Maxout(pieces=6), inference="soft")
    assert (pooled.out_features, pooled.regions) == (1, 6)
    torch.testing.assert_close(layer(z), pooled.select(z)[:, 0], rtol=1e-12, atol=1e-15)


def as_plain(layer: SoftLinear) -> nn.Linear:
    made = nn.Linear(layer.in_features, layer.out_features).to(layer.weight.dtype)
    made.load_state_dict(layer.state_dict())
    return made


@for_each("bias", [True, False])
@for_each(
    ("first", "following", "shape"),
    [
        (lambda **o: SoftLinear(5, 6, **o), lambda **o: nn.Linear(6, 3, **o), (5,)),
        (
            lambda **o: SoftConv1d(2, 6, 3, **o),
            lambda **o: nn.Conv1d(6, 4, 3, groups=2, **o),
            (2, 9),
        ),
        (
            lambda **o: SoftConv2d(2, 6, 3, padding=1, **o),
            lambda **o: nn.Conv2d(6, 4, 2, stride=2, **o),
            (2, 6, 6),
        ),
        (
            lambda **o: SoftConv2d(2, 6, 3, **o),
            lambda **o: nn.Conv2d(6, 4, 3, padding=1, padding_mode="reflect", **o),
            (2, 6, 6),
        ),
    ],
)
def test_tanh_is_a_sigmoid_with_other_weights(first, following, shape, bias):
    options = {"bias": bias, "dtype": torch.float64}
    layer, after = first(gate="tanh", **options), following(**options)
    z = torch.randn(20, *shape, dtype=torch.float64)
    want = after(layer(z))
    soft, shifted = tanh_as_sigmoid(layer, after)
    assert soft.gate == "sigmoid" and layer.gate == "tanh" and type(shifted) is type(after)
    torch.testing.assert_close(shifted(soft(z)), want, rtol=1e-12, atol=1e-13)


def test_printed_bias_of_the_paper_is_wrong():
    layer, after = SoftLinear(5, 6, gate="tanh", dtype=torch.float64), nn.Linear(6, 3).double()
    z = torch.randn(20, 5, dtype=torch.float64)
    soft, shifted = tanh_as_sigmoid(layer, after)
    with torch.no_grad():
        shifted.bias.copy_(after.bias - 1)
    assert (shifted(soft(z)) - after(layer(z))).abs().max() > 0.1


def test_what_cannot_be_rewritten_is_refused():
    tanh, after = SoftConv2d(2, 6, 3, gate="tanh"), nn.Conv2d(6, 4, 3)
    for layer, following, named in (
        (SoftConv2d(2, 6, 3), after, "gate='tanh'"),
        (nn.Conv2d(2, 6, 3), after, "gate='tanh'"),
        (tanh, nn.ReLU(), "linear"),
        (tanh, nn.Conv2d(6, 4, 3, padding=1), "zeros"),
        (tanh, nn.Conv2d(6, 4, 3, padding="same"), "zeros"),
    ):
        with pytest.raises(ArgumentError, match=named):
            tanh_as_sigmoid(layer, following)


@pytest.mark.slow
@for_each("gate", ["sigmoid", "tanh"])
def test_soft_linear_keeps_the_contract_of_layers(gate):
    check_layer(lambda: SoftLinear(4, 3, gate=gate), (3, 4), leave_out=ONNX)


@pytest.mark.slow
def test_soft_convolution_keeps_the_contract_of_layers():
    check_layer(
        lambda: SoftConv2d(2, 3, 3, padding=1, gate="softmax"), (2, 2, 3, 4), leave_out=ONNX
    )


@pytest.mark.slow
def test_soft_convolution_of_one_dimension_keeps_the_contract_of_layers():
    build = lambda: SoftConv1d(2, 3, 3, padding=1, padding_mode="circular", gate="softmax")  # noqa: E731
    check_layer(build, (2, 2, 5), leave_out=ONNX)


@pytest.mark.slow
@pytest.mark.onnx
def test_soft_layer_exports_to_onnx():
    check_layer(lambda: SoftConv2d(2, 3, 3, gate="softmax"), (2, 2, 4, 4), only=["exports_to_onnx"])


@for_each(
    ("gate", "want"),
    [("softmax", [0.5, 0.5, 0.0]), ("sigmoid", [1.0, 1.0, 0.0]), ("tanh", [1.0, 1.0, -1.0])],
)
def test_responses_that_overflow_saturate(gate, want):
    layer = SoftLinear(2, 3, bias=False, gate=gate)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 1.0], [1.0, 1.0], [-1.0, -1.0]]))
    z = torch.tensor([[3e38, 3e38]], requires_grad=True)
    out = layer(z)
    assert out[0].tolist() == want
    out.sum().backward()
    assert not z.grad.isnan().any()


@for_each(
    ("build", "named"),
    [
        (lambda: SoftLinear(0, 3), "in_features"),
        (lambda: SoftLinear(3, 3, gate="relu"), "gate"),
        (lambda: SoftConv2d(0, 3, 3), "in_channels"),
        (lambda: SoftConv2d(3, 4, 3, groups=2), "groups|divisible"),
        (lambda: SoftConv2d(3, 4, 3, padding_mode="mirror"), "padding_mode"),
        (lambda: SoftConv1d(3, 4, 3, gate="hard"), "gate"),
    ],
)
def test_bad_options_are_refused(build, named):
    with pytest.raises(ArgumentError, match=named):
        build()


def test_bad_shapes_are_refused():
    for layer, shape, named in (
        (SoftLinear(4, 3), (2, 5), "input features"),
        (SoftConv2d(3, 4, 3), (2, 3, 4), "input channels"),
        (SoftConv2d(3, 4, 3), (2, 2, 4, 4), "input channels"),
        (SoftConv2d(3, 4, 3), (2, 3, 2, 4), "smaller than the kernel"),
        (SoftConv1d(3, 4, 3, dilation=2), (2, 3, 4), "smaller than the kernel"),
    ):
        with pytest.raises(ArgumentError, match=named):
            layer(torch.ones(shape))


def test_a_soft_layer_is_no_plain_one_for_tools_that_fold_or_prune():
    assert not isinstance(SoftLinear(4, 3), nn.Linear)
    assert not isinstance(SoftConv2d(3, 4, 3), nn.Conv2d)
    with pytest.raises(ArgumentError, match="not linear"):
        MASO.from_layer(SoftLinear(4, 3), "relu")
