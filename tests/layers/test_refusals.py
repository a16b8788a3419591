"""What the sweep of wrong arguments does not reach: inputs, devices, combinations.

Each error gives its reason.
"""

import math

import pytest
import torch
from gatewise_papers.deep_gated import GatedConv2d, GatedLinear, OutsideGatedConv1d, RandomGate
from gatewise_papers.maso import MASO, SoftConv2d
from gatewise_papers.psc import StaticPSLinear
from torch import nn

import gatewise as gw
from gatewise.errors import ArgumentError, GatewiseError
from gatewise.layers.iieu import Coupler
from gatewise.layers.phase import PSConv2d
from gatewise.layers.pooling import BetaChannelPool, BetaPool1d, BetaPool2d
from gatewise.units.catalogue.beta_vq import BetaModule
from gatewise.units.contract import allocating

BETAS = (
    {"learn_beta": True},
    {"beta": 0.0},
    {"beta": 0.0, "dilation": 2},
    {"beta": 1.0},
    {"beta": 0.3},
)


@pytest.mark.parametrize("options", BETAS, ids=repr)
def test_pools_refuse_an_input_without_channels(options):
    for pool, shape in (
        (BetaPool1d, (2, 0, 6)),
        (BetaPool2d, (2, 0, 6, 6)),
        (BetaPool2d, (0, 6, 6)),
    ):
        with pytest.raises(ArgumentError, match="no channels"):
            pool(2, **options)(torch.ones(shape))


@pytest.mark.parametrize("options", BETAS, ids=repr)
def test_pools_take_an_empty_batch_and_refuse_empty_maps(options):
    x = torch.ones(0, 3, 6, 6, requires_grad=True)
    out = BetaPool2d(2, **options)(x)
    assert out.shape[:2] == (0, 3)
    out.sum().backward()
    with pytest.raises(ArgumentError, match="too small"):
        BetaPool2d(2, **options)(torch.ones(2, 3, 0, 6))


def test_a_channel_pool_makes_no_channels_of_none():
    assert BetaChannelPool(2, learn_beta=True)(torch.ones(2, 0, 6)).shape == (2, 0, 6)


@pytest.mark.parametrize(
    "input_shape", [5, (2, "a", 3), (2.0, 5, 4), (2,), None, (2, 2**20, 2**20), "254"]
)
def test_an_odd_input_shape_is_our_error(input_shape):
    with pytest.raises(ArgumentError, match="input_shape"):
        MASO.from_layer(nn.Conv2d(2, 3, 3), input_shape=input_shape)


@pytest.mark.parametrize("unit", [nn.PReLU(7), gw.nn.PReLU(channels=7)], ids=["torch's", "ours"])
def test_a_prelu_of_another_width_is_our_error(unit):
    with pytest.raises(ArgumentError, match="wrong number of channels"):
        MASO.from_layer(nn.Linear(6, 4), unit)


def test_slopes_and_offsets_must_be_on_one_device():
    with pytest.raises(ArgumentError, match="different devices"):
        MASO.from_parameters(torch.randn(2, 3, 6), torch.randn(2, 3, device="meta"))


PLACES = [
    {"dtype": torch.int32},
    {"dtype": "float32"},
    {"device": "nope"},
    {"device": "hpu"},
    {"device": [1]},
]
BUILDERS = [
    lambda **o: PSConv2d(2, 3, 3, **o),
    lambda **o: SoftConv2d(2, 3, 3, **o),
    lambda **o: Coupler(4, reduction=2, **o),
    lambda **o: MASO(4, 3, 2, **o),
    lambda **o: StaticPSLinear(4, 3, data_dependent=True, **o),
    lambda **o: BetaPool2d(2, learn_beta=True, **o),
    *(
        lambda name=name, **o: gw.get_unit(name).module(channels=6, **o)
        for name in ("prelu", "acon_c", "pwlu", "frelu")
    ),
    *(
        lambda name=name, **o: gw.get_unit(name).module(channels=6, **o)
        for name in ("meta_acon", "iieu_b", "swish")
    ),
    lambda **o: gw.nn.PAU(**o),
    lambda **o: gw.nn.BetaVQ(learn_beta=True, **o),
]


@pytest.mark.parametrize("place", PLACES, ids=repr)
def test_units_and_layers_refuse_an_impossible_place_by_the_same_words(place):
    for build in BUILDERS:
        with pytest.raises(
            ArgumentError, match=r"dtype must be a floating point one|device cannot be used"
        ):
            build(**place)


@pytest.mark.parametrize(
    "build", [lambda: RandomGate(2**30, (2**30, 2**30)), lambda: MASO(2**31 - 1, 2**31 - 1, 2)]
)
def test_an_absurd_size_is_our_error(build):
    with pytest.raises(ArgumentError, match="cannot be made"):
        build()


def test_our_own_errors_pass_through_where_parameters_are_made():
    with pytest.raises(GatewiseError, match="of ours"), allocating("layer"):
        raise ArgumentError("of ours")


WHY_NOT = {
    "crelu": "changes the width",
    "maxout": "changes the width",
    "frelu": "reads neighbouring positions",
    "meta_acon": "mean of its channel over all positions",
    "iieu_b": "reads the layer that made the response",
}


@pytest.mark.parametrize("gate", WHY_NOT)
def test_a_unit_that_cannot_gate_is_told_why(gate):
    for build in (lambda: GatedLinear(6, 4, gate=gate), lambda: GatedConv2d(6, 4, 3, gate=gate)):
        with pytest.raises(ArgumentError, match=WHY_NOT[gate]):
            build()


def test_beta_is_checked_by_one_function():
    # Only `BetaModule.add_beta` checks a beta: the unit and the layers inherit it.
    for kind in (gw.nn.BetaVQ, BetaPool1d, BetaPool2d, BetaChannelPool, MASO):
        assert kind.add_beta is BetaModule.add_beta
    for build in (
        lambda: gw.nn.BetaVQ(beta=1.0, learn_beta=True),
        lambda: BetaPool2d(2, beta=1.0, learn_beta=True),
    ):
        with pytest.raises(ArgumentError, match="strictly between 0 and 1"):
            build()


@pytest.mark.parametrize("dim", ["x", math.nan, True, None, 1.0])
def test_a_dimension_is_a_whole_number_from_the_start(dim: object):
    with pytest.raises(ArgumentError, match="dim"):
        BetaChannelPool(2, dim=dim)


@pytest.mark.parametrize(
    "build", [lambda size: OutsideGatedConv1d(2, 3, size), lambda size: RandomGate(3, size)]
)
@pytest.mark.parametrize("size", [b"\x03", bytearray(b"\x03"), memoryview(b"\x03")])
def test_bytes_are_no_sizes(build, size: object):
    with pytest.raises(ArgumentError, match=r"kernel_size|units"):
        build(size)


def test_coins_are_thrown_by_a_generator():
    with pytest.raises(ArgumentError, match="generator"):
        RandomGate(3, 4, generator="x")
