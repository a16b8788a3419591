"""Theorem 4 and Corollary 1: with orthogonal slopes the joint answer is the per-unit one.

Without, it need not be.
"""

import itertools
import math

import numpy as np
import pytest
import torch
from gatewise_papers.maso import MASO, joint_log_posterior, joint_map, largest_overlap, per_unit_map
from loops import for_each
from scipy.stats import multivariate_normal

from gatewise.errors import ArgumentError


def orthogonal_slopes(units, regions, features):
    """Each unit's slopes in a subspace of its own."""
    basis = torch.linalg.qr(torch.randn(features, features, dtype=torch.float64)).Q
    spans = basis.T.chunk(units)
    return torch.stack(
        [torch.randn(regions, len(span), dtype=torch.float64) @ span for span in spans]
    )


def inputs(features):
    return 2 * torch.randn(200, features, dtype=torch.float64)


def posterior_by_scipy(slopes, offsets, z):
    """``p(z | t) p(t)`` of every combination with scipy's normal density, normalised."""
    slopes, offsets = slopes.numpy(), offsets.numpy()
    weights = np.exp(offsets + (slopes**2).sum(-1) / 2)
    weights /= weights.sum(1, keepdims=True)
    joint = []
    for combination in itertools.product(range(slopes.shape[1]), repeat=len(slopes)):
        mean = sum(slopes[k, r] for k, r in enumerate(combination))
        prior = math.prod(weights[k, r] for k, r in enumerate(combination))
        joint.append(multivariate_normal(mean).pdf(z.numpy()) * prior)
    return np.stack(joint, -1) / np.sum(joint, 0)[:, None]


@for_each(("units", "regions"), [(1, 3), (2, 2), (3, 2), (2, 4)])
def test_joint_posterior_is_that_of_the_factorial_model(units, regions):
    slopes = torch.randn(units, regions, 4, dtype=torch.float64)
    offsets, z = (
        torch.randn(units, regions, dtype=torch.float64),
        torch.randn(20, 4, dtype=torch.float64),
    )
    found, combinations = joint_log_posterior(slopes, offsets, z)
    assert combinations.tolist() == [
        list(c) for c in itertools.product(range(regions), repeat=units)
    ]
    np.testing.assert_allclose(
        found.exp(), posterior_by_scipy(slopes, offsets, z), rtol=1e-10, atol=1e-300
    )


@for_each(("units", "regions", "features"), [(2, 2, 4), (3, 3, 6), (5, 2, 10), (4, 4, 8)])
def test_joint_answer_is_the_per_unit_answer_for_orthogonal_slopes(units, regions, features):
    slopes, z = orthogonal_slopes(units, regions, features), inputs(features)
    offsets = torch.randn(units, regions, dtype=torch.float64)
    assert largest_overlap(slopes) < 1e-14
    joint = joint_map(slopes, offsets, z)
    assert torch.equal(joint, per_unit_map(slopes, offsets, z))
    assert len(joint.unique(dim=0)) > 1, "inputs that all fall into one region prove nothing"
    assert torch.equal(joint, MASO.from_parameters(slopes, offsets).select(z).argmax(-1))


def test_regions_are_independent_given_the_input_for_orthogonal_slopes():
    slopes, z = orthogonal_slopes(3, 3, 6), inputs(6)
    offsets = torch.randn(3, 3, dtype=torch.float64)
    posterior, combinations = joint_log_posterior(slopes, offsets, z)
    soft = MASO.from_parameters(slopes, offsets, inference="soft").select(z).detach()
    product = soft[:, torch.arange(3), combinations].prod(-1)
    torch.testing.assert_close(posterior.exp(), product, rtol=1e-10, atol=1e-14)


def test_orthogonal_rows_of_a_rectifier_layer_are_enough():
    layer = torch.nn.Linear(6, 4).double()
    torch.nn.init.orthogonal_(layer.weight)
    maso, z = MASO.from_layer(layer, "relu"), inputs(6)
    slopes, offsets = maso.slopes.detach(), maso.offsets.detach()
    assert torch.equal(joint_map(slopes, offsets, z), per_unit_map(slopes, offsets, z))


def test_answers_differ_without_orthogonality():
    slopes, z = torch.randn(3, 2, 4, dtype=torch.float64), inputs(4)
    offsets = torch.randn(3, 2, dtype=torch.float64)
    joint, single = joint_map(slopes, offsets, z), per_unit_map(slopes, offsets, z)
    assert 0.05 < (joint != single).any(-1).double().mean() < 1
    posterior, combinations = joint_log_posterior(slopes, offsets, z)
    places = {tuple(c): i for i, c in enumerate(combinations.tolist())}
    worse = [posterior[i, places[tuple(c)]] for i, c in enumerate(single.tolist())]
    assert bool((torch.stack(worse) <= posterior.amax(-1) + 1e-12).all())


def test_two_equal_rectifiers_explain_an_input_once():
    """Both see z = a and would fire.

    Together they would make 2a, so the joint answer opens one only.
    """
    a = torch.tensor([1.0, 1.0], dtype=torch.float64)
    slopes = torch.stack([torch.stack([torch.zeros_like(a), a])] * 2)
    offsets = torch.full((2, 2), 0.0, dtype=torch.float64)
    offsets[:, 1] = -1.0  # minus half the squared norm: equal priors
    assert per_unit_map(slopes, offsets, a).tolist() == [1, 1]
    assert sorted(joint_map(slopes, offsets, a).tolist()) == [0, 1]
    assert largest_overlap(slopes) == 2.0


def test_overlap_counts_different_units_only():
    slopes = torch.tensor([[[1.0, 0.0], [5.0, 0.0]], [[0.0, 1.0], [0.0, -3.0]]])
    assert largest_overlap(slopes) == 0.0
    slopes[1, 1, 0] = 0.5
    assert largest_overlap(slopes) == 2.5


def test_bad_arguments_are_refused():
    slopes, offsets, z = torch.randn(3, 2, 4), torch.randn(3, 2), torch.randn(5, 4)
    for wrong in (
        (slopes[0], offsets, z),
        (slopes, offsets.T, z),
        (slopes, offsets, z[:, :3]),
        (slopes, offsets, z.double()),
        (slopes, offsets, None),
        (slopes.long(), offsets, z),
    ):
        for function in (joint_map, per_unit_map, joint_log_posterior):
            with pytest.raises(ArgumentError, match="joint_map"):
                function(*wrong)
    with pytest.raises(ArgumentError, match="largest_overlap"):
        largest_overlap(slopes[0])
    with pytest.raises(ArgumentError, match="too many"):
        joint_map(torch.randn(21, 2, 4), torch.randn(21, 2), z)
