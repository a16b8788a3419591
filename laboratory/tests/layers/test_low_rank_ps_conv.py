"""Low-rank phase selective layers.

The rank rule, the nearest approximation, the same output as their dense form.
"""

import numpy as np
import pytest
import torch
from gatewise_papers.psc import LowRankPSConv2d, LowRankPSLinear, equal_parameter_rank
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each
from torch import nn

from gatewise.errors import ArgumentError, RectifiedInputWarning
from gatewise.layers.phase import PSConv2d, PSLinear
from gatewise.testing import check_layer


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@given(st.integers(1, 3), st.integers(3, 8), st.integers(3, 8), st.integers(1, 3), st.booleans())
def test_the_rank_is_the_largest_at_no_more_parameters_than_a_plain_layer(
    groups, inputs, outputs, kernel, bias: bool
):
    arguments = (groups * inputs, groups * outputs, kernel, 1, 0, 1, groups, bias)
    fan_in, plain = inputs * kernel**2, count(nn.Conv2d(*arguments))
    if 2 * (fan_in + outputs) > fan_in * outputs:
        with pytest.raises(ArgumentError, match="no rank has as few parameters"):
            LowRankPSConv2d(*arguments)
        return
    layer = LowRankPSConv2d(*arguments)
    assert layer.rank == equal_parameter_rank(fan_in, outputs)
    assert count(layer) <= plain < count(layer) + 2 * groups * (fan_in + outputs)
    assert 2 * layer.rank < min(fan_in, outputs)


def test_a_linear_layer_follows_the_same_rule():
    assert LowRankPSLinear(64, 64).rank == 16
    assert count(LowRankPSLinear(64, 64)) == count(nn.Linear(64, 64))
    assert count(LowRankPSLinear(10, 7)) <= count(nn.Linear(10, 7))


@for_each("groups", [1, 2])
@for_each("rank", [None, 1, 3])
def test_each_weight_is_approximated_as_well_as_its_rank_allows(groups: int, rank: int | None):
    dense = PSConv2d(8, 12, 3, groups=groups, dtype=torch.float64)
    layer = LowRankPSConv2d.from_dense(dense, rank=rank)
    for weight, near in zip((dense.weight, dense.weight_neg), layer.dense(), strict=True):
        for part, close in zip(weight.chunk(groups), near.chunk(groups), strict=True):
            matrix = part.detach().flatten(1).numpy()
            values = np.linalg.svd(matrix, compute_uv=False)
            error = np.linalg.norm(matrix - close.detach().flatten(1).numpy())
            assert error == pytest.approx(np.sqrt((values[layer.rank :] ** 2).sum()), rel=1e-12)
            assert np.linalg.norm(matrix - close.detach().flatten(1).numpy(), 2) == pytest.approx(
                values[layer.rank]
            )
    assert torch.equal(layer.bias, dense.bias)


def test_both_factors_carry_the_same_share_of_the_singular_values():
    layer = LowRankPSLinear.from_dense(PSLinear(9, 8, dtype=torch.float64))
    for reduce, expand in ((layer.reduce, layer.expand), (layer.reduce_neg, layer.expand_neg)):
        assert torch.allclose(reduce @ reduce.T, expand.T @ expand, atol=1e-12)


@for_each(
    ("dense", "shape"),
    [
        (PSConv2d(4, 6, 3, 2, 1, 1, 2, padding_mode="circular", dtype=torch.float64), (2, 4, 7, 6)),
        (PSConv2d(4, 6, (1, 3), dilation=2, bias=False, dtype=torch.float64), (4, 7, 6)),
        (PSLinear(6, 5, dtype=torch.float64), (2, 3, 6)),
    ],
)
def test_it_computes_what_the_dense_layer_of_its_weights_computes(dense, shape):
    kind = LowRankPSLinear if isinstance(dense, PSLinear) else LowRankPSConv2d
    layer, x = kind.from_dense(dense, rank=2), torch.randn(shape, dtype=torch.float64)
    positive, negative = layer.dense()
    assert not torch.allclose(positive, dense.weight)
    dense.load_state_dict({**dense.state_dict(), "weight": positive, "weight_neg": negative})
    assert torch.allclose(layer(x), dense(x), rtol=0, atol=1e-12)


def test_at_full_rank_nothing_is_lost():
    dense, x = PSLinear(5, 4, dtype=torch.float64), torch.randn(6, 5, dtype=torch.float64)
    assert torch.allclose(LowRankPSLinear.from_dense(dense.eval(), rank=4)(x), dense(x), atol=1e-13)


def test_a_low_rank_copy_uses_no_random_numbers_and_keeps_mode_and_dtype():
    before = PSConv2d(8, 12, 3).half().eval()
    state = torch.random.get_rng_state()
    layer = LowRankPSConv2d.from_dense(before)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert not layer.training and layer.reduce.dtype == torch.float16
    assert layer(torch.randn(1, 8, 5, 5).half()).isfinite().all()


def test_starting_weights_keep_the_mean_square_of_a_symmetric_input():
    layer, x = LowRankPSLinear(500, 4000, bias=False), torch.randn(200, 500)
    # As for the dense layer, and two factors of 222 columns: about 1 % per standard deviation
    assert float(layer(x).detach().square().mean()) == pytest.approx(1, rel=0.05)


@for_each("rank", [0, 5, 1.0, True])
def test_a_rank_that_cannot_be_is_refused(rank):
    with pytest.raises(ArgumentError, match="rank"):
        LowRankPSLinear(6, 4, rank=rank)


def test_only_a_phase_selective_layer_of_its_kind_has_a_low_rank_form():
    for kind, layer in (
        (LowRankPSConv2d, nn.Conv2d(2, 3, 1)),
        (LowRankPSLinear, PSConv2d(2, 3, 1)),
    ):
        with pytest.raises(ArgumentError, match="low-rank"):
            kind.from_dense(layer)
    with pytest.raises(ArgumentError, match="no rank has as few parameters"):
        LowRankPSConv2d.from_dense(PSConv2d(4, 4, 3, groups=4))


def test_a_rectified_input_is_warned_of():
    with pytest.warns(RectifiedInputWarning, match="LowRankPSLinear"):
        LowRankPSLinear(8, 8)(torch.rand(8, 8))


CONTRACT = {
    "conv": (lambda: LowRankPSConv2d(4, 8, 3, padding=1, groups=2), (2, 4, 5, 3), 1),
    "linear": (lambda: LowRankPSLinear(6, 7, bias=False), (2, 6), 1),
}


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::gatewise.errors.RectifiedInputWarning"
)  # the contract also feeds ones and zeros
@for_each("name", CONTRACT)
def test_it_keeps_the_contract(name: str):
    build, shape, channel_dim = CONTRACT[name]
    left_out = {
        "exports_to_onnx": "needs packages; PSConv2d is tested, this has two convolutions more"
    }
    check_layer(build, shape, channel_dim=channel_dim, leave_out=left_out)


def test_it_shows_its_rank():
    assert repr(LowRankPSLinear(8, 8)) == "LowRankPSLinear(in_features=8, out_features=8, rank=2)"
