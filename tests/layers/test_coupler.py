"""Coupler: against the published steps in numpy, at its start, and with few features left."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from gatewise.errors import ArgumentError
from gatewise.layers.iieu import Coupler
from gatewise.testing import check_layer


def layer_norm(x, weight, bias):
    return (
        weight * (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6) + bias
    )


def logistic(x):
    return 1 / (1 + np.exp(-x))


def reference(u, v, state):
    """One sample after the other, one branch after the other, as the authors' code is described."""
    p = {name: value.numpy() for name, value in state.items()}
    w1, w2, h = p["reduce.weight"], p["expand.weight"], len(p["reduce.weight"])
    outputs = []
    for a, b in zip(u.numpy(), v.numpy(), strict=True):
        positions = tuple(range(1, a.ndim))
        means = np.concatenate((a.mean(positions), b.mean(positions)))
        rows = layer_norm(means, p["norm_in.weight"], p["norm_in.bias"]).reshape(2, -1)
        mixed = []
        for branch, t in enumerate(rows):
            q = w1 @ t
            s = q / ((np.linalg.norm(t) + 1e-8) * (np.linalg.norm(w1, axis=1) + 1e-8))
            own = slice(branch * h, (branch + 1) * h)
            z = (
                p["shift_weight"][own] * (q - q.mean()) / (q.std(ddof=1) + 1e-6)
                + p["shift_bias"][own]
            )
            m = s + logistic(z) - p["eta"]
            mixed.append(
                w2 @ np.where(m < 0, p["eta"] * q * np.exp(np.minimum(m, 0)), (p["eta"] + m) * q)
            )
        k = np.exp(
            layer_norm(np.concatenate(mixed), p["norm_out.weight"], p["norm_out.bias"]).reshape(
                2, -1
            )
        )
        first, second = (part.reshape(-1, *[1] * (a.ndim - 1)) for part in k / k.sum(0))
        outputs.append(first * a + second * b)
    return torch.from_numpy(np.stack(outputs))


def shaken(coupler):
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for value in coupler.parameters():
            value.add_(torch.randn(value.shape, generator=generator, dtype=value.dtype))
        coupler.eta.copy_(
            torch.linspace(0.2, 0.9, coupler.hidden)
        )  # among the similarities, so that both sides occur
    return coupler


@pytest.mark.parametrize("shape", [(3, 8, 5, 4), (2, 8, 6), (4, 8), (1, 8, 2, 3, 2)])
@pytest.mark.parametrize("reduction", [2, 4])
def test_coupler_is_the_published_sequence_of_steps(shape, reduction):
    coupler = shaken(Coupler(8, reduction=reduction, dtype=torch.float64))
    u, v = (torch.randn(shape, dtype=torch.float64) for _ in range(2))
    want = reference(u, v, coupler.state_dict())
    torch.testing.assert_close(coupler(u, v).detach(), want, rtol=1e-12, atol=1e-12)
    assert (want - (u + v) / 2).abs().max() > 0.1


@pytest.mark.parametrize("variant", ["resnet", "mobilenet"])
def test_at_the_start_the_output_is_the_mean_of_both_branches(variant: str):
    coupler = Coupler(64, variant=variant, reduction=4)
    u, v = torch.randn(2, 8, 64, 5, 5).unbind()
    torch.testing.assert_close(coupler(u, v), (u + v) / 2, rtol=0, atol=0.1)
    ours, theirs = coupler.weights(u, v)
    assert ours.shape == (8, 64)
    assert (ours - 0.5).abs().max() < 0.02
    assert ours.detach().std() > 1e-4
    torch.testing.assert_close(ours + theirs, torch.ones(8, 64))


@pytest.mark.parametrize(
    ("variant", "eta", "first", "second"),
    [
        ("resnet", 0.01, math.sqrt(2 / 32), math.sqrt(2 / 512)),
        ("mobilenet", 0.05, 0.01, 0.01),
    ],
)
def test_start_values_are_those_of_the_authors_file(
    variant: str, eta: float, first: float, second: float
):
    coupler = Coupler(512, variant=variant)
    coupler.reset_parameters()
    assert coupler.reduce.weight.shape == (32, 512)
    assert float(coupler.reduce.weight.detach().std()) == pytest.approx(
        first, rel=0.03
    )  # of 16,384 draws
    assert float(coupler.expand.weight.detach().std()) == pytest.approx(second, rel=0.03)
    starts = {
        "eta": eta,
        "shift_weight": 0.01,
        "shift_bias": 0,
        "norm_in.weight": 1,
        "norm_in.bias": 0,
        "norm_out.weight": 0.01,
        "norm_out.bias": 0,
    }
    for name, value in starts.items():
        parameter = coupler.get_parameter(name)
        assert torch.equal(parameter, torch.full_like(parameter, value)), name


def test_parameters_are_as_many_and_named_as_promised():
    coupler = Coupler(48, reduction=16)
    shapes = {name: tuple(value.shape) for name, value in coupler.state_dict().items()}
    assert shapes == {
        "norm_in.weight": (96,),
        "norm_in.bias": (96,),
        "reduce.weight": (3, 48),
        "shift_weight": (6,),
        "shift_bias": (6,),
        "eta": (3,),
        "expand.weight": (48, 3),
        "norm_out.weight": (96,),
        "norm_out.bias": (96,),
    }
    assert sum(p.numel() for p in coupler.parameters()) == 2 * 48 * 3 + 8 * 48 + 5 * 3
    assert coupler.no_weight_decay() == shapes.keys() - {"reduce.weight", "expand.weight"}


def test_one_feature_left_has_term_b_of_its_bias_alone_and_no_nan():
    coupler = shaken(Coupler(6, reduction=4, dtype=torch.float64))
    assert coupler.hidden == 1
    u, v = torch.randn(2, 3, 6, 4, dtype=torch.float64).unbind()
    u.requires_grad_()
    coupler(u, v).square().sum().backward()
    assert u.grad.isfinite().all() and u.grad.ne(0).any()
    want = coupler(u, v)
    with torch.no_grad():
        coupler.shift_weight.fill_(7.0)
    assert torch.equal(coupler(u, v), want)
    with torch.no_grad():
        coupler.shift_bias.add_(1.0)
    assert not torch.equal(coupler(u, v), want)


def test_equal_and_empty_branches_give_finite_gradients():
    coupler = Coupler(8, reduction=2)
    for value in (0.0, 3.0):
        u = torch.full((2, 8, 3, 3), value, requires_grad=True)
        coupler(u, u.detach()).sum().backward()
        assert u.grad.isfinite().all()
        assert all(p.grad.isfinite().all() for p in coupler.parameters())


def test_branches_of_two_dtypes_are_mixed_as_an_addition_would():
    coupler, x = Coupler(8, reduction=2), torch.randn(2, 8, 3)
    assert coupler(x.bfloat16(), x).dtype == torch.float32
    assert coupler(x.bfloat16(), x.bfloat16()).dtype == torch.bfloat16


@pytest.mark.parametrize(
    "build",
    [
        lambda: Coupler(8),
        lambda: Coupler(8, reduction=9),
        lambda: Coupler(0),
        lambda: Coupler(8, reduction=0),
        lambda: Coupler(8.0, reduction=2),
        lambda: Coupler(8, reduction=2, variant="vgg"),
    ],
)
def test_a_coupler_that_makes_no_sense_is_refused(build):
    with pytest.raises(ArgumentError):
        build()


@pytest.mark.parametrize(
    ("u", "v"),
    [
        (torch.ones(2, 8, 3), torch.ones(2, 8, 4)),
        (torch.ones(2, 7, 3), torch.ones(2, 7, 3)),
        (torch.ones(2, 8, 3), torch.ones(1, 8, 3)),
        (torch.ones(8), torch.ones(8)),
        (torch.ones(2, 8, 3), None),
        (torch.ones(2, 8).double(), torch.ones(2, 8, dtype=torch.int64)),
        (torch.ones(2, 8), torch.ones(2, 8, device="meta")),
    ],
)
def test_branches_that_do_not_fit_are_refused(u, v):
    with pytest.raises(ArgumentError):
        Coupler(8, reduction=2)(u, v)


class Residual(nn.Module):
    """A block with a coupler where the addition was: the contract is for layers of one input."""

    def __init__(self, reduction: int) -> None:
        super().__init__()
        self.coupler = Coupler(4, reduction=reduction)

    def forward(self, x):
        return self.coupler(
            x, 0.5 * x.flip(-1) + 1 if isinstance(x, torch.Tensor) and x.dim() else x
        )

    def reset_parameters(self) -> None:
        self.coupler.reset_parameters()


@pytest.mark.slow
def test_coupler_keeps_the_contract_of_layers():
    check_layer(
        lambda: Residual(2),
        (2, 4, 2, 2),
        leave_out={
            "traces_through_aot_autograd": "slow, and compiled once",
            "traces_with_fx": "the block above looks at the type of its input",
        },
    )


def test_coupler_with_one_feature_has_the_gradients_it_should():
    check_layer(
        lambda: Residual(4),
        (2, 4, 3),
        only=["gradients_match_finite_differences", "finite_input_never_gives_nan"],
    )
