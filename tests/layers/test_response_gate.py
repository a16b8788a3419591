"""Gates that a response sets.

Values, derivatives, and the straight-through gate between the two.
"""

import math

import pytest
import torch

from gatewise.errors import ArgumentError
from gatewise.layers.gated import (
    HardGate,
    SoftGate,
    StraightThroughGate,
    hard_gate,
    soft_gate,
    straight_through_gate,
)

Q = torch.linspace(-5, 5, 1001, dtype=torch.float64)


def derivative(function, q: torch.Tensor) -> torch.Tensor:
    q = q.clone().requires_grad_()
    return torch.autograd.grad(function(q).sum(), q)[0]


@pytest.mark.parametrize(("beta", "eps"), [(4.0, 0.1), (1.0, 0.4), (24.0, 0.1)])
def test_the_soft_gate_is_the_papers_formula(beta: float, eps: float):
    want = torch.tensor(
        [(1 + eps) / (1 + math.exp(-beta * q)) for q in Q.tolist()], dtype=torch.float64
    )
    assert torch.allclose(soft_gate(Q, beta, eps), want, rtol=1e-14, atol=0)
    assert torch.allclose(SoftGate(beta=beta, eps=eps)(Q), want, rtol=1e-14, atol=0)


def test_the_soft_gate_is_half_open_at_zero_and_reaches_one_plus_eps():
    assert soft_gate(torch.tensor(0.0), eps=0.1).item() == pytest.approx(0.55, abs=1e-7)
    assert soft_gate(torch.tensor(1e30), eps=0.1).item() == pytest.approx(1.1, abs=1e-6)
    assert soft_gate(torch.tensor(-1e30)).item() == 0.0


def test_the_soft_gates_derivative_is_beta_chi_times_one_minus_chi_over_one_plus_eps():
    chi = 1.4 / (1 + torch.exp(-2.0 * Q))
    want = 2.0 * chi * (1 - chi / 1.4)
    assert torch.allclose(
        derivative(lambda q: soft_gate(q, 2.0, 0.4), Q), want, rtol=1e-10, atol=1e-14
    )


def test_the_hard_gate_is_open_above_zero_alone_and_keeps_nan():
    q = torch.tensor([-1.0, -0.0, 0.0, 1e-45, 2.0, math.inf, -math.inf])
    assert hard_gate(q).tolist() == [0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0]
    assert HardGate()(torch.tensor(math.nan)).isnan()


def test_the_hard_gate_passes_no_gradient():
    assert not hard_gate(Q.clone().requires_grad_()).requires_grad


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_straight_through_gate_is_exactly_zero_or_one(dtype: torch.dtype):
    q = (10 * torch.randn(4096, generator=torch.Generator().manual_seed(0))).to(dtype)
    assert torch.equal(straight_through_gate(q), (q > 0).to(dtype))


def test_the_straight_through_gate_has_the_soft_gates_derivative():
    chi = 1.1 / (1 + torch.exp(-3.0 * Q))
    got = derivative(lambda q: StraightThroughGate(beta=3.0, eps=0.1)(q), Q)
    assert torch.allclose(got, 3.0 * chi * (1 - chi / 1.1), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("function", [soft_gate, hard_gate, straight_through_gate])
def test_far_out_gates_are_settled_without_nan(function):
    q = torch.tensor([-3e38, -1e30, 1e30, 3e38], requires_grad=True)
    gate = function(q)
    assert gate.detach().isfinite().all()
    if gate.requires_grad:
        assert torch.equal(torch.autograd.grad(gate.sum(), q)[0], torch.zeros(4))


@pytest.mark.parametrize(
    "options", [{"beta": 0.0}, {"beta": math.inf}, {"eps": -1.0}, {"eps": math.nan}]
)
@pytest.mark.parametrize("kind", [SoftGate, StraightThroughGate])
def test_options_that_make_no_gate_are_refused(kind, options: dict):
    with pytest.raises(ArgumentError, match=next(iter(options))):
        kind(**options)


@pytest.mark.parametrize("function", [soft_gate, hard_gate, straight_through_gate])
@pytest.mark.parametrize("bad", [torch.ones(2, dtype=torch.int64), [1.0], None])
def test_what_is_not_a_response_is_refused(function, bad):
    with pytest.raises(ArgumentError):
        function(bad)
