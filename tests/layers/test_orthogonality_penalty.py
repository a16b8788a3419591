"""The penalty of non-orthogonal filters, against the double sum written out, slope by slope."""

import itertools

import numpy as np
import pytest
import torch
from gatewise_papers.maso import MASO, ApodizedConv2d
from torch import nn

from gatewise.errors import ArgumentError
from gatewise.layers.orthonormal import orthogonal, orthogonality_penalty, slope_overlap


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def written_out(slopes: np.ndarray) -> float:
    """sum_k sum_{k' != k} sum_{r, r'} <A_kr, A_k'r'>^2 by four loops."""
    units, regions, _ = slopes.shape
    total = 0.0
    for k, other in itertools.product(range(units), repeat=2):
        for r, s in itertools.product(range(regions), repeat=2):
            if k != other:
                total += float(np.dot(slopes[k, r], slopes[other, s])) ** 2
    return total


def number(scalar: torch.Tensor) -> float:
    return scalar.detach().item()


def slopes_of(weight: torch.Tensor, parts: tuple[float, ...]) -> np.ndarray:
    rows = weight.detach().double().flatten(1).numpy()
    return np.stack([part * rows for part in parts], axis=1)


def test_a_stack_of_slopes_gives_the_sum_written_out():
    slopes = torch.randn(5, 3, 7, dtype=torch.float64)
    assert number(slope_overlap(slopes)) == pytest.approx(written_out(slopes.numpy()), rel=1e-12)
    several = torch.randn(4, 5, 3, 7, dtype=torch.float64)
    assert number(slope_overlap(several)) == pytest.approx(
        sum(written_out(s.numpy()) for s in several), rel=1e-12
    )


@pytest.mark.parametrize(
    ("pieces", "parts"),
    [
        ("relu", (0.0, 1.0)),
        ("abs", (1.0, -1.0)),
        ("leaky_relu", (1.0, 0.01)),
        ("linear", (1.0,)),
        ((0.3, 1.0), (0.3, 1.0)),
        ((-1.0, 0.5, 2.0), (-1.0, 0.5, 2.0)),
    ],
)
@pytest.mark.parametrize(
    "build", [lambda: nn.Linear(9, 5), lambda: nn.Conv2d(3, 4, 3)], ids=["linear", "conv"]
)
def test_each_unit_counts_with_all_its_slopes(build, pieces, parts: tuple[float, ...]):
    layer = build()
    want = written_out(slopes_of(layer.weight, parts))
    assert number(orthogonality_penalty(layer, pieces=pieces)) == pytest.approx(want, rel=1e-5)


def test_abs_counts_each_pair_four_times_and_relu_once():
    layer = nn.Linear(9, 5)
    gram = layer.weight.detach().double() @ layer.weight.detach().double().mT
    pairs = float(gram.tril(-1).square().sum())
    assert number(orthogonality_penalty(layer)) == pytest.approx(2 * pairs, rel=1e-5)
    assert number(orthogonality_penalty(layer, pieces="abs")) == pytest.approx(8 * pairs, rel=1e-5)


def test_layers_of_a_model_add_up_and_the_weight_multiplies():
    model = nn.Sequential(
        nn.Conv1d(2, 4, 3),
        nn.ReLU(),
        nn.BatchNorm1d(4),
        nn.Sequential(nn.Linear(5, 6)),
        nn.Conv3d(1, 2, 2),
    )
    parts = [written_out(slopes_of(m.weight, (1.0,))) for m in (model[0], model[3][0], model[4])]
    assert number(orthogonality_penalty(model, weight=0.3)) == pytest.approx(
        0.3 * sum(parts), rel=1e-5
    )
    shared = nn.Sequential(model[0], model[0])
    assert number(orthogonality_penalty(shared)) == pytest.approx(parts[0], rel=1e-5)


def test_filters_of_different_groups_have_no_input_in_common():
    layer = nn.Conv2d(4, 6, 3, groups=2)
    embedded = np.zeros((6, 1, 4, 3, 3))
    for k in range(6):
        group = k // 3
        embedded[k, 0, 2 * group : 2 * group + 2] = layer.weight[k].detach().numpy()
    want = written_out(embedded.reshape(6, 1, -1))
    assert number(orthogonality_penalty(layer)) == pytest.approx(want, rel=1e-5)


def test_a_max_affine_operator_counts_with_its_own_slopes_whatever_the_pieces():
    layer = MASO(4, 5, 3)
    want = written_out(layer.slopes.detach().double().numpy())
    for pieces in ("relu", "abs"):
        assert number(orthogonality_penalty(layer, pieces=pieces)) == pytest.approx(want, rel=1e-5)


def test_apodized_filters_count_without_their_window():
    layer = ApodizedConv2d(2, 3, 3)
    assert number(orthogonality_penalty(layer)) == pytest.approx(
        written_out(slopes_of(layer.weight, (1.0,))), rel=1e-5
    )


def test_orthogonal_filters_cost_nothing_but_rounding():
    layer = orthogonal(nn.Linear(200, 50))
    penalty = orthogonality_penalty(layer)
    assert 0 <= number(penalty) < 50 * 50 * 1e-13
    penalty.backward()
    assert layer.parametrizations.weight.original.grad.isfinite().all()


def test_the_derivatives_are_right():
    weight = torch.randn(4, 2, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        slope_overlap, (weight,), check_forward_ad=True, check_batched_grad=True
    )
    assert torch.autograd.gradgradcheck(slope_overlap, (weight,))


def test_descent_makes_filters_orthogonal():
    layer = nn.Linear(12, 6)
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.05)
    start = number(orthogonality_penalty(layer))
    for _ in range(500):
        optimiser.zero_grad()
        orthogonality_penalty(layer).backward()
        optimiser.step()
    assert number(orthogonality_penalty(layer)) < 1e-4 * start


def test_half_weights_and_autocast_are_summed_in_float32():
    layer = nn.Linear(64, 8)
    want = number(orthogonality_penalty(layer))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert number(orthogonality_penalty(layer)) == pytest.approx(want, rel=1e-6)
    half = nn.Linear(64, 8, dtype=torch.bfloat16)
    penalty = orthogonality_penalty(half)
    assert penalty.dtype == torch.float32
    assert number(penalty) == pytest.approx(written_out(slopes_of(half.weight, (1.0,))), rel=1e-5)


def test_it_compiles_whole():
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(9, 5), nn.ReLU(), nn.Linear(5, 4))
    compiled = torch.compile(
        lambda: orthogonality_penalty(model), backend="aot_eager", fullgraph=True
    )
    torch.testing.assert_close(compiled(), orthogonality_penalty(model))
    torch._dynamo.reset()


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: orthogonality_penalty(nn.ReLU()), "no filters"),
        (lambda: orthogonality_penalty(torch.randn(3, 4)), "model"),
        (lambda: orthogonality_penalty(nn.Linear(3, 2), weight=float("nan")), "weight"),
        (lambda: orthogonality_penalty(nn.Linear(3, 2), pieces="gelu"), "pieces"),
        (lambda: orthogonality_penalty(nn.Linear(3, 2), pieces=("a",)), "pieces"),
        (lambda: orthogonality_penalty(nn.LazyLinear(2)), "not known yet"),
        (lambda: slope_overlap(torch.randn(3, 4)), "slopes have a wrong shape"),
        (lambda: slope_overlap(torch.ones(3, 4, 5, dtype=torch.int64)), "floating point"),
    ],
)
def test_what_cannot_be_penalised_gets_our_error(call, match: str):
    with pytest.raises(ArgumentError, match=match):
        call()
