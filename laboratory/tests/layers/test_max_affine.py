"""Theorem 1: any linear or convolution layer with a convex piecewise affine unit is a MASO.

And its soft forms.
"""

import math

import pytest
import torch
from gatewise_papers.maso import MASO
from gatewise_papers.maso.layers import max_affine
from loops import for_each
from torch import nn
from torch.nn import functional as F

import gatewise.nn as gnn
from gatewise.errors import ArgumentError


def inputs(*shape):
    return torch.randn(30, *shape, dtype=torch.float64)


def agree(maso, want, z):
    torch.testing.assert_close(maso(z.flatten(1)), want.flatten(1), rtol=1e-12, atol=1e-12)


class LeakyThenTorch(nn.Module):
    def forward(self, x):
        return F.leaky_relu(x, 0.01)


SCALARS = {
    "relu": F.relu,
    "leaky_relu": lambda u: F.leaky_relu(u, 0.01),
    "prelu": lambda u: F.leaky_relu(u, 0.25),
    "abs": torch.abs,
    "identity": lambda u: u,
}
MODULES = {
    "nn.ReLU": nn.ReLU(),
    "nn.LeakyReLU": nn.LeakyReLU(0.3),
    "nn.PReLU": nn.PReLU(),
    "nn.PReLU per channel": nn.PReLU(6, 0.3),
    "PReLU per channel": gnn.PReLU(channels=6, slope=0.7),
    "LeakyReLU": gnn.LeakyReLU(slope=-0.5),
}


@for_each("bias", [True, False])
@for_each("name", SCALARS)
def test_linear_layer_with_a_named_unit(name, bias):
    layer, z = nn.Linear(5, 6, bias=bias).double(), inputs(5)
    maso = MASO.from_layer(layer, name)
    assert maso.regions == (1 if name == "identity" else 2)
    agree(maso, SCALARS[name](layer(z)), z)


@for_each("name", MODULES)
@for_each("maps", [False, True])
def test_layer_with_a_unit_module(name, maps):
    unit = MODULES[name].double()
    layer = nn.Conv2d(2, 6, 3, padding=1).double() if maps else nn.Linear(5, 6).double()
    z = inputs(2, 4, 3) if maps else inputs(5)
    if name.startswith(("nn.PReLU per", "PReLU per")):
        with torch.no_grad():
            next(unit.parameters()).copy_(torch.linspace(-0.9, 0.9, 6))
    agree(
        MASO.from_layer(layer, unit, input_shape=z.shape[1:] if maps else None), unit(layer(z)), z
    )


@for_each("pieces", [2, 3])
def test_linear_layer_with_maxout(pieces):
    layer, z = nn.Linear(5, 6).double(), inputs(5)
    want = layer(z).reshape(30, 6 // pieces, pieces).amax(-1)
    maso = MASO.from_layer(layer, gnn.Maxout(pieces=pieces))
    assert (maso.out_features, maso.regions) == (6 // pieces, pieces)
    agree(maso, want, z)


CONVOLUTIONS = {
    "plain": nn.Conv2d(2, 4, 3),
    "strided, padded": nn.Conv2d(2, 4, (3, 2), stride=(2, 1), padding=(1, 0)),
    "dilated": nn.Conv2d(2, 4, 2, dilation=2, bias=False),
    "grouped": nn.Conv2d(2, 4, 3, padding=1, groups=2),
    "circular": nn.Conv2d(2, 4, 3, padding=1, padding_mode="circular"),
    "reflected": nn.Conv2d(2, 4, 3, padding=1, padding_mode="reflect"),
    "transposed": nn.ConvTranspose2d(2, 4, 3, stride=2),
}
POOLS = {
    "relu": nn.ReLU(),
    "max": nn.MaxPool2d(2),
    "max, overlapping and padded": nn.MaxPool2d(3, 1, padding=1),
    "max, dilated": nn.MaxPool2d(2, 1, dilation=(2, 1)),
    "max, over the edge": nn.MaxPool2d(2, 2, ceil_mode=True),
    "average": nn.AvgPool2d(2),
    "average, padded": nn.AvgPool2d(3, 2, padding=1),
    "average, padding not counted": nn.AvgPool2d(3, 2, padding=1, count_include_pad=False),
    "channels": gnn.Maxout(pieces=2),
    "relu then max": nn.Sequential(nn.ReLU(), nn.MaxPool2d(2)),
    "max then relu": nn.Sequential(nn.MaxPool2d(2), nn.LeakyReLU(0.2)),
    "abs then average": nn.Sequential(gnn.Abs(), nn.AvgPool2d(2, 3)),
    "channels then max": nn.Sequential(gnn.Maxout(), nn.MaxPool2d((1, 2))),
}


@for_each("pool", POOLS)
@for_each("kind", CONVOLUTIONS)
def test_convolution_with_a_unit_or_pool(kind, pool):
    layer, z = CONVOLUTIONS[kind].double(), inputs(2, 5, 6)
    agree(MASO.from_layer(layer, POOLS[pool], input_shape=(2, 5, 6)), POOLS[pool](layer(z)), z)


def test_convolution_of_one_dimension():
    layer, z = nn.Conv1d(3, 4, 3, stride=2, padding=1).double(), inputs(3, 9)
    for pool in (nn.ReLU(), nn.MaxPool1d(2), nn.AvgPool1d(3, 1, padding=1)):
        agree(MASO.from_layer(layer, pool, input_shape=(3, 9)), pool(layer(z)), z)


@for_each("name", SCALARS)
def test_skip_is_added_to_the_output_or_to_the_response(name):
    layer, aside, z = nn.Linear(5, 5).double(), nn.Linear(5, 5).double(), inputs(5)
    unit = SCALARS[name]
    agree(MASO.from_layer(layer, name, skip=True), unit(layer(z)) + z, z)
    agree(MASO.from_layer(layer, name, skip=aside), unit(layer(z)) + aside(z), z)
    agree(MASO.from_layer(layer, name, skip=True, skip_at="response"), unit(layer(z) + z), z)


def test_skip_around_convolution_and_pool():
    layer, aside, z = (
        nn.Conv2d(2, 2, 3, padding=1).double(),
        nn.Conv2d(2, 2, 2, 2).double(),
        inputs(2, 4, 4),
    )
    shape = {"input_shape": (2, 4, 4)}
    agree(MASO.from_layer(layer, "relu", skip=True, **shape), F.relu(layer(z)) + z, z)
    agree(
        MASO.from_layer(layer, nn.MaxPool2d(2), skip=aside, **shape),
        F.max_pool2d(layer(z), 2) + aside(z),
        z,
    )


def test_slopes_are_the_weights_as_they_stand():
    layer = nn.Conv2d(2, 3, 2).double()
    slopes = MASO.from_layer(layer, "identity", input_shape=(2, 2, 2)).slopes
    assert torch.equal(slopes[:, 0], layer.weight.flatten(1))


def test_float32_layer_gives_a_float32_maso():
    layer, z = nn.Linear(5, 6), torch.randn(30, 5)
    maso = MASO.from_layer(layer)
    assert maso.slopes.dtype == torch.float32
    torch.testing.assert_close(maso(z), F.relu(layer(z)))


# Propositions 3, 4 and 7, and the other closed forms: the same slopes and offsets under soft and
# beta inference


@for_each("beta", [0.1, 0.5, 0.9])
def test_soft_forms_of_scalar_units_are_the_closed_forms(beta):
    layer, z = nn.Linear(5, 6).double(), inputs(5)
    eta, u = beta / (1 - beta), layer(z)
    want = {
        "relu": u * torch.sigmoid(eta * u),
        "abs": u * torch.tanh(eta * u),
        "leaky_relu": u * (0.01 + 0.99 * torch.sigmoid(eta * 0.99 * u)),
    }
    for name, value in want.items():
        agree(MASO.from_layer(layer, name, inference="beta", beta=beta), value, z)


def test_soft_rectifier_is_silu_and_not_softplus():
    layer, z = nn.Linear(5, 6).double(), inputs(5)
    maso = MASO.from_layer(layer, "relu", inference="soft")
    agree(maso, F.silu(layer(z)), z)
    assert not torch.allclose(maso(z), F.softplus(layer(z)), atol=0.1)


@for_each("beta", [0.0, 0.5, 0.8])
def test_soft_max_pool_is_the_softmax_weighted_sum(beta):
    layer, z = nn.Conv2d(2, 3, 3).double(), inputs(2, 6, 6)
    windows = layer(z).unfold(2, 2, 2).unfold(3, 2, 2).flatten(-2)
    want = (torch.softmax(beta / (1 - beta) * windows, -1) * windows).sum(-1)
    agree(
        MASO.from_layer(layer, nn.MaxPool2d(2), input_shape=(2, 6, 6), inference="beta", beta=beta),
        want,
        z,
    )


def test_skip_does_not_change_a_soft_selection():
    layer, z = nn.Linear(5, 5).double(), inputs(5)
    plain, skipped = (
        MASO.from_layer(layer, "relu", inference="soft", skip=skip) for skip in (False, True)
    )
    torch.testing.assert_close(plain.select(z), skipped.select(z), rtol=1e-12, atol=1e-12)
    agree(skipped, F.silu(layer(z)) + z, z)


# Refusals


def refused(match, *arguments, **options):
    with pytest.raises(ArgumentError, match=match):
        MASO.from_layer(*arguments, **options)


def test_what_is_not_linear_is_refused():
    refused("not linear", nn.ReLU(), "relu")
    refused("not linear", nn.Sequential(nn.Linear(2, 2)), "relu")


def test_what_is_not_convex_or_not_known_is_refused():
    layer = nn.Linear(4, 6)
    refused("did you mean", layer, "relo")
    refused("no convex", layer, "gelu")
    refused("not known", layer, nn.GELU())
    refused("not known", layer, LeakyThenTorch())
    refused("not known", layer, gnn.BetaVQ("relu"))
    refused("not convex", layer, nn.LeakyReLU(1.5))
    refused("not convex", layer, ["maxout", "abs"])
    refused("divide", layer, gnn.Maxout(pieces=4))
    refused("divide", layer, gnn.Maxout(pieces=2, dim=2))


def test_shapes_that_do_not_fit_are_refused():
    conv = nn.Conv2d(2, 4, 3)
    refused("input_shape", conv)
    refused("input_shape", conv, input_shape=(3, 5, 5))
    refused("input_shape", conv, input_shape=(2, 5))
    refused("input_shape", conv, input_shape=(2, 2, 2))
    refused("input_shape", nn.Linear(4, 6), input_shape=(5,))
    refused("dimension", conv, nn.MaxPool1d(2), input_shape=(2, 5, 5))
    refused("dimension", nn.Linear(4, 6), nn.MaxPool2d(2))
    refused("too small", conv, nn.MaxPool2d(4), input_shape=(2, 5, 5))


def test_wrong_skips_are_refused():
    refused("does not have the shape", nn.Linear(4, 6), skip=True)
    refused("does not have the shape", nn.Linear(4, 6), skip=nn.Linear(4, 5))
    refused("skip is", nn.Linear(4, 4), skip=1.0)
    refused("skip_at", nn.Linear(4, 4), skip=True, skip_at="input")
    refused("not linear", nn.Linear(4, 4), skip=nn.ReLU())


def test_padded_maximum_is_refused_where_regions_would_count_twice():
    conv = nn.Conv2d(1, 2, 3)
    refused("padding", conv, nn.MaxPool2d(2, padding=1), input_shape=(1, 6, 6), inference="soft")
    refused("padding", conv, ["relu", nn.AvgPool2d(2, padding=1)], input_shape=(1, 6, 6))


def test_what_would_be_too_large_is_refused_with_its_size():
    refused("too large.*16,777,216", nn.Conv2d(3, 64, 3), input_shape=(3, 64, 64))
    refused("too large", nn.Conv2d(1, 8, 1), ["relu", nn.AvgPool2d(4)], input_shape=(1, 8, 8))


def test_the_limit_counts_slopes(monkeypatch):
    monkeypatch.setattr(max_affine, "LARGEST", 2 * 3 * 4)
    MASO.from_layer(nn.Linear(4, 3), "relu")
    refused("too large", nn.Linear(4, 4), "relu")
    assert math.prod(MASO.from_layer(nn.Linear(4, 3), "relu").slopes.shape) == 24


def test_a_layer_whose_weight_is_computed_is_refused():
    with pytest.raises(ArgumentError, match="weight is parametrised"):
        MASO.from_layer(gnn.orthogonal(nn.Linear(4, 4)), "relu")
