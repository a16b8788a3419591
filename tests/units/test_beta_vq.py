"""What is true of BetaVQ alone.

Table 1 and Theorem 3 of the paper, and the sparse gates beyond it.
"""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

import gatewise as gw
from gatewise.errors import ArgumentError, UnknownNameError
from gatewise.units.contract import tsallis_gates

numbers = st.floats(-3, 3, allow_nan=False).map(lambda v: round(v, 3))
pieces = st.integers(1, 6).flatmap(
    lambda r: st.tuples(
        st.lists(numbers, min_size=r, max_size=r), st.lists(numbers, min_size=r, max_size=r)
    )
)
X = torch.linspace(-6, 6, 241, dtype=torch.float64)


def scores(p):
    slopes, offsets = (torch.tensor(part, dtype=torch.float64) for part in p)
    return X[:, None] * slopes + offsets


@given(pieces)
def test_beta_one_is_the_maximum(p):
    assert torch.allclose(gw.nn.BetaVQ(p, beta=1.0)(X), scores(p).amax(-1), rtol=1e-14, atol=1e-14)


@given(pieces)
def test_beta_zero_is_the_mean(p):
    assert torch.allclose(gw.nn.BetaVQ(p, beta=0.0)(X), scores(p).mean(-1), rtol=1e-14, atol=1e-14)


@given(pieces, st.floats(0.02, 0.98))
def test_in_between_it_is_the_softmax_weighted_mean(p, beta):
    u = scores(p)
    want = (torch.softmax(beta / (1 - beta) * u, -1) * u).sum(-1)
    assert torch.allclose(gw.nn.BetaVQ(p, beta=beta)(X), want, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("eta", [0.25, 1.0, 3.0, 12.0])
def test_swish_comes_out_bit_for_bit(eta):
    for dtype in (torch.float32, torch.float64):
        x = X.to(dtype)
        beta = eta / (1 + eta)
        assert torch.equal(gw.functional.beta_vq(x, "relu", eta=eta), gw.functional.swish(x, eta))
        close = torch.finfo(dtype).eps * 64
        assert torch.allclose(
            gw.functional.beta_vq(x, "relu", beta),
            gw.functional.swish(x, eta),
            rtol=close,
            atol=close,
        )


def test_silu_and_relu_come_out():
    x = X.float()
    silu = gw.functional.silu(x)
    torch.testing.assert_close(gw.functional.beta_vq(x, "relu", 0.5), silu, rtol=2**-21, atol=0)
    assert torch.equal(gw.functional.beta_vq(x, "relu", 1.0), gw.functional.relu(x))


def test_soft_relu_is_the_beta_form_of_its_own_two_lines():
    beta, eps = 4.0, 0.1
    got = gw.functional.beta_vq(X, ((0.0, 1 + eps), (0.0, 0.0)), eta=beta / (1 + eps))
    assert torch.allclose(got, gw.functional.soft_relu(X, beta, eps), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("beta", [0.3, 0.5, 0.9])
def test_abs_gives_x_tanh_eta_x_and_leaky_its_closed_form(beta):
    eta, nu = beta / (1 - beta), 0.01
    assert torch.allclose(
        gw.functional.beta_vq(X, "abs", beta), X * torch.tanh(eta * X), rtol=1e-12, atol=1e-14
    )
    leaky = X * (nu + (1 - nu) * torch.sigmoid(eta * (1 - nu) * X))
    assert torch.allclose(
        gw.functional.beta_vq(X, "leaky_relu", beta), leaky, rtol=1e-12, atol=1e-14
    )


@given(
    st.lists(numbers, min_size=2, max_size=5), st.floats(0.1, 5.0), st.sampled_from([1.2, 1.5, 2.0])
)
def test_tsallis_gates_solve_the_penalised_problem(u, eta, alpha):
    """Against a numeric solver of max <T, eta u> + H(T) on the simplex."""
    got = torch.stack(
        tsallis_gates([torch.tensor(v, dtype=torch.float64) for v in u], eta, alpha)
    ).numpy()
    assert got.min() >= 0 and abs(got.sum() - 1) < 1e-12

    def loss(t):
        t = t.clip(1e-12)
        return -(eta * t @ u) - (t - t**alpha).sum() / (alpha * (alpha - 1))

    free = minimize(
        loss,
        [1 / len(u)] * len(u),
        bounds=[(0, 1)] * len(u),
        constraints={"type": "eq", "fun": lambda t: t.sum() - 1},
    )
    assert loss(got) <= loss(free.x) + 1e-6  # ours is at least as good as the solver's


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [1.01, 1.1, 1.5, 1.9, 2.0])
@pytest.mark.parametrize("regions", [2, 3, 17, 300])
def test_tsallis_gates_of_many_regions_add_up_to_one(regions, alpha):
    u = torch.randn(regions, 500, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for spread in (1e-3, 1.0, 50.0):
        gates = torch.stack(tsallis_gates(list(spread * u), 1.0, alpha))
        assert (gates.sum(0) - 1).abs().max() < 1e-12


def test_sparsemax_of_two_lines_is_a_clipped_ramp_with_gates_exactly_zero():
    got = gw.functional.beta_vq(X, "relu", 0.5, penalty=("tsallis", 2.0))
    assert torch.allclose(got, X * ((1 + X) / 2).clamp(0, 1), rtol=1e-14, atol=1e-15)
    assert (got[X < -1] == 0).all() and torch.equal(got[X > 1], X[X > 1])


@pytest.mark.parametrize("beta", [0.3, 0.55])
def test_the_declared_kinks_of_sparse_gates_are_where_a_gate_closes(beta):
    """Two lines through 0 with slopes 0 and 1: |eta x| = 1."""
    eta = beta / (1 - beta)
    kinks = sorted(
        gw.get_unit("beta_vq").fact("kinks", pieces="relu", beta=beta, penalty=("tsallis", 2.0))
    )
    assert kinks == pytest.approx([-1 / eta, 1 / eta], rel=1e-9)


def test_the_declared_kinks_of_the_hard_form_are_the_corners_of_the_envelope():
    pieces = ((-1.0, 0.0, 2.0, 0.1), (0.0, 0.5, -1.0, -9.0))  # the fourth line is never the largest
    assert sorted(gw.get_unit("beta_vq").fact("kinks", pieces=pieces, beta=1.0)) == pytest.approx(
        [-0.5, 0.75]
    )


def test_tsallis_with_alpha_one_is_shannon():
    a = gw.functional.beta_vq(X, "abs", 0.7, penalty=("tsallis", 1.0))
    assert torch.equal(a, gw.functional.beta_vq(X, "abs", 0.7))


def test_a_learnable_beta_trains_to_the_one_that_made_the_data():
    """One beta per channel, started at 1/2, recovers 0.2 and 0.9 from samples of the curve."""
    x = torch.randn(256, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    target = torch.stack(
        [gw.functional.beta_vq(x[:, i], "abs", b) for i, b in enumerate((0.2, 0.9))], 1
    )
    unit = gw.nn.BetaVQ("abs", beta=0.5, learn_beta=True, channels=2, dtype=torch.float64)
    optimiser = torch.optim.LBFGS(
        unit.parameters(),
        max_iter=200,
        tolerance_grad=1e-14,
        tolerance_change=1e-16,
        line_search_fn="strong_wolfe",
    )

    def closure():
        optimiser.zero_grad()
        loss = (unit(x) - target).square().mean()
        loss.backward()
        return loss

    optimiser.step(closure)
    assert torch.allclose(unit.beta, torch.tensor([0.2, 0.9], dtype=torch.float64), atol=1e-4)


def test_the_derivative_to_eta_is_the_variance_of_the_scores_under_the_gate():
    eta = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    p = ((-1.0, 0.0, 2.0), (-0.5, 0.25, -1.0))
    x = torch.tensor(0.4, dtype=torch.float64)
    (got,) = torch.autograd.grad(gw.functional.beta_vq(x, p, eta=eta), eta)
    u = torch.tensor([a * 0.4 + b for a, b in zip(*p, strict=True)], dtype=torch.float64)
    t = torch.softmax(1.3 * u, 0)
    assert got.item() == pytest.approx(
        (t * u * u).sum().item() - (t * u).sum().item() ** 2, rel=1e-12
    )


@pytest.mark.slow
def test_pieces_of_the_users_own_are_in_the_contract():
    checks = [c for c in gw.testing.CHECKS if "onnx" not in c]
    receipt = gw.testing.check_unit(
        "beta_vq", only=checks, pieces=((-2.0, 0.5, 3.0), (0.0, 1.0, -4.0)), beta=0.4
    )
    assert len(receipt.outcomes) == len(checks)


@pytest.mark.parametrize(
    "arguments, word",
    [
        ({"beta": 1.5}, "0 <= beta <= 1"),
        ({"beta": float("nan")}, "0 <= beta <= 1"),
        ({"beta": True}, "0 <= beta <= 1"),
        ({"pieces": ((1.0,), (1.0, 2.0))}, "equally long"),
        ({"pieces": ((), ())}, "equally long"),
        ({"pieces": ((math.inf,), (0.0,))}, "finite"),
        ({"pieces": 3}, "slopes, offsets"),
        ({"penalty": "renyi"}, "tsallis"),
        ({"penalty": ("tsallis", 3.0)}, "1 <= alpha <= 2"),
        ({"beta": 1.0, "learn_beta": True}, "strictly between"),
        ({"channels": 0}, "positive integer"),
    ],
)
def test_what_is_not_allowed_is_refused_with_what_is(arguments, word):
    with pytest.raises(ArgumentError, match=word):
        gw.nn.BetaVQ(**arguments)


def test_a_misspelt_unit_of_pieces_gets_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 'leaky_relu'"):
        gw.nn.BetaVQ("leaky_rel")
