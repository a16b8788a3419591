"""I3 for functions, parameters and flags: our error, never a raw one, a silent cast or a NaN."""

import math

import pytest
import torch
from torch import nn

import gatewise as gw
from gatewise.errors import ArgumentError

X = torch.randn(2, 6, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    "name, option",
    [
        ("elu", "alpha"),
        ("leaky_relu", "slope"),
        ("soft_relu", "beta"),
        ("soft_relu", "eps"),
        ("softplus", "beta"),
        ("smu", "alpha"),
        ("smu1", "alpha"),
    ],
)
def test_functions_check_their_numbers(name, option):
    for bad in ("1", None, [1.0], True, math.nan, torch.tensor(1j), torch.ones(2, 6)):
        with pytest.raises(ArgumentError, match=option):
            getattr(gw.functional, name)(X, **{option: bad})


@pytest.mark.parametrize("bad", [0, -1, 2.0, "2", None, True], ids=repr)
def test_maxout_checks_its_count(bad):
    with pytest.raises(ArgumentError, match="pieces"):
        gw.functional.maxout(X, pieces=bad)


@pytest.mark.parametrize("bad", [-1.0, math.nan, "1", [1.0]], ids=repr)
def test_eta_is_a_number_of_at_least_zero(bad):
    with pytest.raises(ArgumentError, match="eta"):
        gw.functional.beta_vq(X, eta=bad)


def test_a_flag_is_true_or_false_and_pieces_are_not_strings_of_digits():
    with pytest.raises(ArgumentError, match="learn_beta"):
        gw.nn.BetaVQ(learn_beta="no")
    with pytest.raises(ArgumentError, match="pieces"):
        gw.nn.BetaVQ(("12", "34"))


@pytest.mark.parametrize("dim", [1.5, "1", True, None], ids=repr)
@pytest.mark.parametrize("make", [gw.nn.CReLU, gw.nn.Swish, gw.nn.Maxout, gw.nn.BetaVQ])
def test_a_dimension_is_checked_in_the_constructor(make, dim):
    with pytest.raises(ArgumentError, match="dim"):
        make(dim=dim)


def test_channels_that_contradict_the_layer_are_refused():
    with pytest.raises(ArgumentError, match="contradicts"):
        gw.create_unit("swish", conv=nn.Conv2d(3, 4, 1), channels=5)


def test_a_parameter_without_dimensions_on_another_device_is_our_error():
    for name in ("swish", "prelu", "erfact"):
        with pytest.raises(ArgumentError, match="different devices"):
            getattr(gw.functional, name)(X, torch.tensor(1.0, device="meta"))


def test_the_error_shows_a_none_that_was_given():
    with pytest.raises(ArgumentError, match="got: None"):
        gw.get_unit(None)


@pytest.mark.parametrize("logit", [-1e4, -89.0, 89.0, 1e4])
@pytest.mark.parametrize("pieces", ["relu", ((-1.0, 0.0, 2.0), (0.0, 0.5, -1.0))])
@pytest.mark.parametrize("penalty", ["shannon", ("tsallis", 2.0), ("tsallis", 1.5)])
def test_a_beta_trained_to_its_ends_stays_finite(logit, pieces, penalty):
    unit = gw.nn.BetaVQ(pieces, learn_beta=True, penalty=penalty)
    nn.init.constant_(unit.beta_logit, logit)
    x = torch.tensor([-2.0, 0.0, 0.3, 5.0], requires_grad=True)
    y = unit(x)
    y.sum().backward()
    hard = gw.nn.BetaVQ(pieces, beta=float(logit > 0))(x)
    assert torch.allclose(y, hard, atol=1e-5)
    assert x.grad.isfinite().all() and unit.beta_logit.grad.isfinite().all()


def test_an_infinite_eta_in_a_tensor_is_the_hard_form():
    got = gw.functional.beta_vq(X, "relu", eta=torch.tensor(math.inf))
    assert torch.allclose(got, X.relu())


@pytest.mark.parametrize("name", ["meta_acon", "frelu", "iieu_b"])
def test_maps_without_positions_are_refused_and_leave_no_trace(name):
    unit = gw.create_unit(name, channels=4).train()
    before = {k: v.clone() for k, v in unit.state_dict().items()}
    with pytest.raises(ArgumentError):
        unit(torch.randn(2, 4, 0, 5))
    assert all(torch.equal(v, before[k]) for k, v in unit.state_dict().items())


@pytest.mark.parametrize(
    "bad", [{"dtype": torch.int32}, {"dtype": 3}, {"dtype": torch.complex64}, {"device": "nope"}]
)
@pytest.mark.parametrize("name", ["relu", "prelu", "meta_acon"])
def test_an_impossible_dtype_or_device_is_our_error(name, bad):
    with pytest.raises(ArgumentError, match=r"dtype|device"):
        gw.create_unit(name, channels=4, **bad)
