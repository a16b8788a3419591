"""The hardware form: sign bits choose stored weights, and the output is the same."""

from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from gatewise.errors import ArgumentError
from gatewise.layers.phase import PSConv1d, PSConv2d, PSLinear, respond_to_signs, sign_and_magnitude


def multiplexed(layer: PSConv2d, x: torch.Tensor) -> torch.Tensor:
    """Output by output, tap by tap.

    Pick the stored weight by the sign bit, multiply by the magnitude, accumulate.
    """
    (k, _), (stride, _), (pad, _), (gap, _) = (
        layer.kernel_size,
        layer.stride,
        layer.padding,
        layer.dilation,
    )
    x = nn.functional.pad(x, (pad, pad, pad, pad))
    height = (x.shape[2] - gap * (k - 1) - 1) // stride + 1
    width = (x.shape[3] - gap * (k - 1) - 1) // stride + 1
    inputs, outputs = layer.weight.shape[1], layer.out_channels // layer.groups
    y = torch.zeros(x.shape[0], layer.out_channels, height, width, dtype=x.dtype)
    for n, out, i, j in product(*map(range, y.shape)):
        total = layer.bias[out].item()
        for c, a, b in product(range(inputs), range(k), range(k)):
            value = x[
                n, out // outputs * inputs + c, i * stride + a * gap, j * stride + b * gap
            ].item()
            stored = (
                -layer.weight_neg[out, c, a, b].item()
                if value < 0
                else layer.weight[out, c, a, b].item()
            )
            total += abs(value) * stored
        y[n, out, i, j] = total
    return y


@pytest.mark.parametrize(
    "arguments",
    [(2, 3, 2), (2, 4, 3, 2, 1, 1, 2), (4, 2, 2, 1, 2, 2, 2), (1, 1, 1), (3, 3, 2, 2, 0, 1, 3)],
)
def test_picking_each_weight_by_a_sign_bit_gives_the_layers_output(arguments):
    layer = PSConv2d(*arguments, dtype=torch.float64)
    x = torch.randn(2, arguments[0], 5, 4, dtype=torch.float64)
    got = respond_to_signs(layer, *sign_and_magnitude(x))
    assert torch.equal(got, layer(x))
    assert torch.allclose(got, multiplexed(layer, x), rtol=0, atol=1e-13)


@given(
    st.integers(0, 2**30),
    st.sampled_from((torch.float16, torch.bfloat16, torch.float32, torch.float64)),
)
def test_it_is_bit_for_bit_the_layer_in_every_dtype(seed: int, dtype: torch.dtype):
    x = torch.randn(3, 6, 9, generator=torch.Generator().manual_seed(seed)).to(dtype)
    x[0, 0, :2] = torch.tensor([0.0, -0.0])
    for layer in (
        PSLinear(9, 4, dtype=dtype),
        PSConv1d(6, 4, 3, padding=1, groups=2, padding_mode="reflect", dtype=dtype),
    ):
        assert torch.equal(respond_to_signs(layer, *sign_and_magnitude(x)), layer(x))


def test_layers_can_be_chained_on_signs_and_magnitudes():
    first, second = PSConv2d(2, 3, 3), PSConv2d(3, 2, 3)
    x = torch.randn(2, 2, 8, 8)
    between = sign_and_magnitude(respond_to_signs(first, *sign_and_magnitude(x)))
    # Sums of 54 products in another order.
    torch.testing.assert_close(
        respond_to_signs(second, *between), second(first(x)), rtol=0, atol=54 * 2**-23
    )


def test_sign_and_magnitude_lose_nothing():
    x = torch.tensor([1.5, -2.0, 0.0, -0.0, torch.inf, -torch.inf])
    sign, magnitude = sign_and_magnitude(x)
    assert sign.tolist() == [False, True, False, True, False, True]
    assert not magnitude.signbit().any()
    assert torch.equal(torch.where(sign, -magnitude, magnitude), x)


def test_bad_input_gets_our_error():
    layer, x = PSLinear(3, 2), torch.randn(4, 3)
    sign, magnitude = sign_and_magnitude(x)
    for bad in (sign.float(), sign[:2], None):
        with pytest.raises(ArgumentError, match="sign"):
            respond_to_signs(layer, bad, magnitude)
    with pytest.raises(ArgumentError, match="phase selective"):
        respond_to_signs(nn.Linear(3, 2), sign, magnitude)
    with pytest.raises(ArgumentError, match="features"):
        respond_to_signs(PSLinear(4, 2), sign, magnitude)
    with pytest.raises(ArgumentError, match="input"):
        sign_and_magnitude(torch.ones(3, dtype=torch.int64))
