"""The product that skips small inputs, against torch's product in float64."""

import itertools

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from gatewise.native import library
from gatewise.sparsity import SparseLinear
from gatewise.sparsity.rows_product import can_skip_rows

compiled = pytest.mark.skipif(library("sparse_rows").handle is None, reason="no C compiler")
SIZES = [(1, 1), (3, 5), (8, 4097), (61, 130), (300, 17)]


def layer(inputs: int, outputs: int, bias: bool, dtype: torch.dtype) -> SparseLinear:
    torch.manual_seed(inputs)
    plain = nn.Linear(inputs, outputs, bias=bias, dtype=dtype).requires_grad_(False)
    return SparseLinear(plain, 0.5)


@compiled
@pytest.mark.parametrize(
    "sizes, bias, dtype",
    list(itertools.product(SIZES, (True, False), (torch.float32, torch.bfloat16))),
)
def test_skipping_gives_the_product_with_zeros_in_place_of_small_inputs(sizes, bias, dtype):
    sparse = layer(*sizes, bias, dtype)
    x = torch.randn(1, 1, sizes[0]).to(dtype)
    kept = torch.where(x.double().abs() <= 0.5, 0.0, x.double())
    own_bias = None if sparse.bias is None else sparse.bias.double()
    want = F.linear(kept, sparse.weight.double(), own_bias)
    whole = sparse(x)
    sparse.store_by_inputs()
    assert sparse.skips or 1 in sizes
    found = sparse(x)
    assert found.shape == whole.shape == want.shape and found.dtype is dtype
    # n roundings of sums in float32, and one in the dtype of the result.
    size = F.linear(kept.abs(), sparse.weight.double().abs()) + 1
    bound = size * ((sizes[0] + 2) * 2.0**-24 + (2.0**-8 if dtype is torch.bfloat16 else 0))
    assert bool(((found.double() - want).abs() <= bound).all())


@compiled
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_thresholds_between_two_numbers_of_the_dtype_mean_the_same_with_one_and_more_rows(dtype):
    x = torch.linspace(-1, 1, 257).to(dtype)
    for threshold in (0.0, 0.1, 0.3003, 1 / 3, 0.50195, 1.0):
        sparse = SparseLinear(nn.Linear(257, 257, bias=False, dtype=dtype), threshold)
        with torch.no_grad():
            sparse.weight.copy_(torch.eye(257))
            sparse.store_by_inputs()
            assert can_skip_rows(x[None], sparse.weight, None)
            assert torch.equal(sparse(x[None]), sparse(torch.stack([x, x]))[:1])


@compiled
def test_nan_and_infinity_are_not_small():
    sparse = layer(4, 3, bias=False, dtype=torch.float32)
    sparse.store_by_inputs()
    with torch.no_grad():
        assert bool(sparse(torch.tensor([[0.1, torch.nan, 2.0, 0.0]])).isnan().all())
        assert bool(sparse(torch.tensor([[0.1, torch.inf, 2.0, 0.0]])).isinf().all())


def test_gradients_and_traces_use_torchs_product():
    sparse = SparseLinear(nn.Linear(6, 5), 0.5)
    sparse.store_by_inputs()
    x = torch.randn(1, 6, requires_grad=True)
    sparse(x).sum().backward()
    small = x.detach().abs() <= 0.5
    assert x.grad is not None and sparse.weight.grad is not None
    assert bool((x.grad[small] == 0).all())
    torch.testing.assert_close(x.grad[~small], sparse.weight.sum(0)[~small[0]].detach())
    traced = torch.export.export(sparse.eval(), (torch.randn(1, 6),)).module()
    y = torch.randn(1, 6)
    with torch.no_grad():
        torch.testing.assert_close(traced(y), sparse(y))


def test_without_a_compiler_the_result_is_the_same(monkeypatch):
    sparse = layer(30, 20, bias=True, dtype=torch.float32)
    sparse.store_by_inputs()
    x = torch.randn(1, 30)
    first = sparse(x)
    monkeypatch.setattr("gatewise.sparsity.rows_product._function", lambda dtype: None)
    assert not can_skip_rows(x, sparse.weight, sparse.bias)
    torch.testing.assert_close(sparse(x), first)


def test_storing_changes_no_weight_and_state_dicts_fit_linear_layers():
    plain = nn.Linear(7, 9)
    before = plain.weight.detach().clone()
    sparse = SparseLinear(plain, 0.1)
    sparse.store_by_inputs()
    assert sparse.skips and torch.equal(sparse.weight, before)
    other = nn.Linear(7, 9)
    other.load_state_dict(sparse.state_dict())
    assert torch.equal(other.weight, before)
    sparse.store_by_outputs()
    assert not sparse.skips and torch.equal(sparse.weight, before)
