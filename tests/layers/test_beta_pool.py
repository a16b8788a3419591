"""Beta pools against torch's own pools at the ends, and against windows written out in between."""

import itertools
import math

import pytest
import torch
from torch.nn import functional as F

import gatewise.nn as gnn
from gatewise.errors import ArgumentError
from gatewise.layers.pooling import BetaChannelPool, BetaPool1d, BetaPool2d
from gatewise.testing import check_layer

GEOMETRIES = (
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2},
    {"kernel_size": (3, 2), "stride": (1, 2), "padding": (1, 0)},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 2, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 3, "ceil_mode": True},
    {"kernel_size": 2, "stride": 3, "padding": 1, "ceil_mode": True},
    {"kernel_size": 2, "stride": 1, "dilation": 2},
    {"kernel_size": 3, "stride": 2, "dilation": (1, 2), "padding": (0, 1)},
    {"kernel_size": 3, "stride": 2, "dilation": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": 1},
)
ONNX = {"exports_to_onnx": "has a test of its own"}
NUMERIC = (
    "finite_input_never_gives_nan",
    "batches_do_not_matter",
    "layout_does_not_matter",
    "channels_last_is_kept",
    "gradients_match_finite_differences",
    "functional_transforms_agree",
    "half_precision_layers_work",
    "autocast_keeps_the_input_dtype",
    "compiles_whole_and_once",
)
ANY_CHANNELS = {"a_wrong_shape_gets_our_error": "takes any number of channels"}


def maps(*shape, dtype=torch.float64):
    return torch.randn(shape or (2, 3, 7, 8), dtype=dtype)


def by_windows(x, eta, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    """Each output by a loop over its window, leaving out positions beyond the input.

    Sizes as torch computes them.
    """
    pair = [
        (v, v) if isinstance(v, int) else v
        for v in (kernel_size, stride or kernel_size, padding, dilation)
    ]
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = pair
    want = F.max_pool2d(x, *pair, ceil_mode=ceil_mode)
    out = torch.empty_like(want)
    for i in range(want.shape[-2]):
        for j in range(want.shape[-1]):
            rows = [r for a in range(kh) if 0 <= (r := i * sh - ph + a * dh) < x.shape[-2]]
            columns = [c for b in range(kw) if 0 <= (c := j * sw - pw + b * dw) < x.shape[-1]]
            seen = x[..., rows, :][..., columns].flatten(-2)
            out[..., i, j] = (torch.softmax(eta * seen, -1) * seen).sum(-1)
    return out


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str
)
def test_beta_1_is_max_pooling_to_the_bit_forward_and_backward(dtype):
    x = (maps() - 5).to(dtype)  # all negative: a padded 0 would win
    for geometry in GEOMETRIES:
        grads, outs = [], []
        for pool in (BetaPool2d(**geometry, beta=1.0), lambda x, g=geometry: F.max_pool2d(x, **g)):
            leaf = x.clone().requires_grad_()
            outs.append(pool(leaf))
            outs[-1].square().sum().backward()
            grads.append(leaf.grad)
        assert torch.equal(*outs) and torch.equal(*grads), geometry
        assert outs[0].dtype == dtype


@pytest.mark.parametrize("geometry", [g for g in GEOMETRIES if "dilation" not in g], ids=str)
def test_beta_0_is_average_pooling_over_positions_inside(geometry):
    x = maps() + 5
    want = F.avg_pool2d(x, **geometry, count_include_pad=False)
    torch.testing.assert_close(BetaPool2d(**geometry, beta=0.0)(x), want, rtol=1e-14, atol=0)


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_every_beta_weighs_the_positions_of_a_window(geometry):
    for shift in (-5.0, 5.0):
        x = maps() + shift
        for beta in (0.0, 1e-12, 0.1, 0.5, 0.9, 0.999):
            want = by_windows(x, beta / (1 - beta), **geometry)
            got = BetaPool2d(**geometry, beta=beta)(x)
            torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)


def test_soft_pools_tend_to_the_maximum_and_to_the_average():
    x = maps()
    geometry = {"kernel_size": 3, "stride": 2, "padding": 1}
    soft = {beta: BetaPool2d(**geometry, beta=beta)(x) for beta in (0.0, 1e-9, 1 - 1e-9, 1.0)}
    torch.testing.assert_close(soft[1e-9], soft[0.0], rtol=0, atol=1e-7)
    torch.testing.assert_close(soft[1 - 1e-9], soft[1.0], rtol=0, atol=1e-7)
    rising = [BetaPool2d(**geometry, beta=b)(x) for b in (0.0, 0.2, 0.5, 0.8, 1.0)]
    assert all(bool((a <= b).all()) for a, b in itertools.pairwise(rising))


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
def test_one_dimension_is_a_row_of_two(beta):
    x = maps(2, 3, 9)
    options = {"beta": beta, "ceil_mode": True}
    got = BetaPool1d(3, 2, padding=1, **options)(x)
    want = BetaPool2d((1, 3), (1, 2), padding=(0, 1), **options)(x.unsqueeze(2)).squeeze(2)
    torch.testing.assert_close(got, want, rtol=1e-14, atol=1e-14)
    torch.testing.assert_close(BetaPool1d(2, beta=1.0)(x), F.max_pool1d(x, 2), rtol=0, atol=0)


def test_unbatched_input_is_one_of_the_batch():
    x = maps()
    for pool in (BetaPool2d(2), BetaPool2d(2, learn_beta=True, channels=3)):
        assert torch.equal(pool(x[0]), pool(x)[0])


def test_each_channel_has_its_own_trained_beta():
    x, betas = maps(), torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64)
    pool = BetaPool2d(2, learn_beta=True, channels=3, dtype=torch.float64)
    with torch.no_grad():
        pool.beta_logit.copy_(torch.logit(betas))
    want = torch.cat([BetaPool2d(2, beta=float(b))(x[:, [c]]) for c, b in enumerate(betas)], 1)
    torch.testing.assert_close(pool(x), want, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(pool.beta.detach(), betas)


def test_derivative_to_the_steepness_is_the_variance_in_a_window():
    x = maps(1, 1, 2, 2)
    pool = BetaPool2d(2, beta=0.7, learn_beta=True, dtype=torch.float64)
    pool(x).backward()
    eta, seen = 0.7 / 0.3, x.flatten()
    shares = torch.softmax(eta * seen, 0)
    variance = (shares * seen**2).sum() - (shares * seen).sum() ** 2
    torch.testing.assert_close(pool.beta_logit.grad, (variance * eta).reshape(1))


@pytest.mark.parametrize(("target", "above"), [(F.max_pool2d, True), (F.avg_pool2d, False)])
def test_training_finds_the_pool_that_made_the_target(target, above):
    x, pool = maps(8, 2, 8, 8, dtype=torch.float32), BetaPool2d(2, learn_beta=True)
    optimiser = torch.optim.Adam(pool.parameters(), 0.2)
    for _ in range(60):
        optimiser.zero_grad()
        (pool(x) - target(x, 2)).square().mean().backward()
        optimiser.step()
    assert (pool.beta.item() > 0.9) if above else (pool.beta.item() < 0.1)


@pytest.mark.parametrize("logit", [-1e4, -60.0, 0.0, 60.0, 1e4])
@pytest.mark.parametrize("scale", [0.0, 1e-38, 1.0, 1e30, 3e38])
def test_extreme_betas_and_inputs_never_give_nan(logit, scale):
    pool = BetaPool2d(3, 2, padding=1, learn_beta=True)
    torch.nn.init.constant_(pool.beta_logit, logit)
    x = (scale * torch.randn(2, 3, 7, 7).clamp(-1, 1)).requires_grad_()
    out = pool(x)
    out.sum().backward()
    assert bool(out.isfinite().all())
    assert not x.grad.isnan().any() and not pool.beta_logit.grad.isnan().any()
    assert bool((out >= x.min()).all() and (out <= x.max()).all())


def test_infinite_positions_win_or_have_no_share_and_nan_stays():
    pool, inf = BetaPool1d(2), math.inf
    x = torch.tensor([[[1.0, inf, -inf, 2.0, -inf, -inf, math.nan, 1.0]]])
    assert pool(x)[0, 0].nan_to_num(7).tolist() == [torch.finfo().max, 2.0, -torch.finfo().max, 7.0]


FULL = (
    {"kernel_size": 2, "beta": 0.7, "learn_beta": True, "channels": 2},
    {"kernel_size": 2, "stride": 2, "padding": 1, "ceil_mode": True, "learn_beta": True},
)
PARTLY = (
    {"kernel_size": 2},
    {"kernel_size": 2, "beta": 1.0},
    {"kernel_size": 2, "beta": 0.0},
    {"kernel_size": 2, "dilation": 2, "padding": 1, "beta": 0.0},
)


@pytest.mark.slow
@pytest.mark.parametrize("options", FULL, ids=str)
def test_pool_keeps_the_contract_of_layers(options):
    check_layer(
        lambda: BetaPool2d(**options),
        (2, 2, 3, 4),
        leave_out=ONNX | ({} if "channels" in options else ANY_CHANNELS),
    )


@pytest.mark.slow
@pytest.mark.parametrize("options", PARTLY, ids=str)
def test_pool_at_the_ends_keeps_the_contract_of_layers(options):
    check_layer(lambda: BetaPool2d(**options), (2, 2, 3, 4), only=NUMERIC)


@pytest.mark.slow
def test_pool_of_one_dimension_keeps_the_contract_of_layers():
    build = lambda: BetaPool1d(3, 2, padding=1, learn_beta=True, channels=2)  # noqa: E731
    check_layer(build, (2, 2, 6), leave_out=ONNX)


@pytest.mark.slow
@pytest.mark.onnx
def test_pool_exports_to_onnx():
    check_layer(
        lambda: BetaPool2d(3, 2, padding=1, learn_beta=True), (2, 3, 5, 5), only=["exports_to_onnx"]
    )


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"kernel_size": 0}, "kernel_size"),
        ({"kernel_size": 2.0}, "kernel_size"),
        ({"kernel_size": True}, "kernel_size"),
        ({"kernel_size": (2, 2, 2)}, "kernel_size"),
        ({"kernel_size": 2, "stride": 0}, "stride"),
        ({"kernel_size": 2, "padding": -1}, "padding"),
        ({"kernel_size": 2, "padding": 2}, "padding"),
        ({"kernel_size": 2, "dilation": 0}, "dilation"),
        ({"kernel_size": 2, "ceil_mode": 1}, "ceil_mode"),
        ({"kernel_size": 2, "beta": 1.1}, "beta"),
        ({"kernel_size": 2, "beta": -0.1}, "beta"),
        ({"kernel_size": 2, "beta": "0.5"}, "beta"),
        ({"kernel_size": 2, "beta": 1.0, "learn_beta": True}, "beta"),
        ({"kernel_size": 2, "channels": 0, "learn_beta": True}, "channels"),
    ],
    ids=str,
)
def test_bad_options_are_refused_by_name(options, named):
    with pytest.raises(ArgumentError, match=f"BetaPool2d.*{named}"):
        BetaPool2d(**options)


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
def test_bad_inputs_are_refused(beta):
    for shape in ((4, 4), (1, 2, 3, 4, 4), (2, 3, 1, 4)):
        with pytest.raises(ArgumentError, match="BetaPool2d"):
            BetaPool2d(2, beta=beta)(torch.ones(shape))
    with pytest.raises(ArgumentError, match="too small"):
        BetaPool2d(2, dilation=3, padding=1, beta=beta)(
            torch.ones(1, 1, 2, 2)
        )  # one window, all of it outside
    with pytest.raises(ArgumentError, match="number of input channels"):
        BetaPool2d(2, learn_beta=True, channels=4)(torch.ones(2, 3, 4, 4))


def test_repr_shows_what_was_chosen():
    pool = BetaPool2d(3, 2, beta=0.25, learn_beta=True, channels=4, padding=1)
    shown = (
        "kernel_size=(3, 3), stride=(2, 2), beta=0.25, learn_beta=True, channels=4, padding=(1, 1)"
    )
    assert repr(pool) == f"BetaPool2d({shown})"
    assert list(pool.state_dict()) == ["beta_logit"]


# Channel pooling


@pytest.mark.parametrize("dim", [1, -1])
def test_channel_pool_at_1_is_maxout_and_at_0_the_mean(dim):
    x = maps(2, 6, 6)
    assert torch.equal(BetaChannelPool(3, beta=1.0, dim=dim)(x), gnn.Maxout(pieces=3, dim=dim)(x))
    mean = x.movedim(dim, -1).unflatten(-1, (2, 3)).mean(-1).movedim(-1, dim)
    torch.testing.assert_close(
        BetaChannelPool(3, beta=0.0, dim=dim)(x), mean, rtol=1e-14, atol=1e-15
    )


@pytest.mark.parametrize("beta", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("pieces", [1, 2, 3, 6])
def test_channel_pool_weighs_neighbouring_channels(pieces, beta):
    x = maps(2, 6, 3, 4)
    groups = x.unflatten(1, (6 // pieces, pieces))
    want = (torch.softmax(beta / (1 - beta) * groups, 2) * groups).sum(2)
    torch.testing.assert_close(BetaChannelPool(pieces, beta=beta)(x), want, rtol=1e-12, atol=1e-14)


def test_channel_pool_has_a_trained_beta_per_output_channel():
    x, betas = maps(2, 6, 3), torch.tensor([0.2, 0.8], dtype=torch.float64)
    pool = BetaChannelPool(3, learn_beta=True, channels=2, dtype=torch.float64)
    with torch.no_grad():
        pool.beta_logit.copy_(torch.logit(betas))
    halves = [
        BetaChannelPool(3, beta=float(b))(part)
        for b, part in zip(betas, x.chunk(2, 1), strict=True)
    ]
    torch.testing.assert_close(pool(x), torch.cat(halves, 1), rtol=1e-12, atol=1e-14)


@pytest.mark.slow
def test_channel_pool_keeps_the_contract_of_layers():
    check_layer(
        lambda: BetaChannelPool(3, learn_beta=True, channels=2), (2, 6, 1, 2), leave_out=ONNX
    )


@pytest.mark.slow
@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_channel_pool_at_the_ends_keeps_the_contract_of_layers(beta):
    check_layer(lambda: BetaChannelPool(3, beta=beta), (2, 6, 2, 3), only=NUMERIC)


def test_channel_pool_refuses_what_it_cannot_pool():
    for options, named in (
        ({"pieces": 0}, "pieces"),
        ({"pieces": 2, "beta": 2}, "beta"),
        ({"pieces": 2, "channels": -1}, "channels"),
    ):
        with pytest.raises(ArgumentError, match=named):
            BetaChannelPool(**options)
    for pool, shape in (
        (BetaChannelPool(2), (2, 5)),
        (BetaChannelPool(2, dim=3), (2, 4)),
        (BetaChannelPool(2, learn_beta=True, channels=3), (2, 4)),
    ):
        with pytest.raises(ArgumentError, match="BetaChannelPool"):
            pool(torch.ones(shape))
