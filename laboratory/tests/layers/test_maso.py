"""MASO against its formulas, scikit-learn's mixtures and K-means, and a numeric solver."""

import copy
import math

import numpy as np
import pytest
import torch
from gatewise_papers.maso import MASO
from loops import for_each
from scipy import optimize, stats
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture
from torch import nn

from gatewise.errors import ArgumentError
from gatewise.testing import check_layer

EPS = torch.finfo(torch.float64).eps
INFERENCES = (
    {"inference": "hard"},
    {"inference": "soft"},
    *({"inference": "beta", "beta": b} for b in (0.0, 0.2, 0.9, 1.0)),
)


def random_maso(units=4, regions=3, features=5, scale=1.0, **options) -> MASO:
    slopes = scale * torch.randn(units, regions, features, dtype=torch.float64)
    return MASO.from_parameters(slopes, torch.randn(units, regions, dtype=torch.float64), **options)


def by_hand(maso: MASO, z: np.ndarray, eta: float) -> tuple[np.ndarray, np.ndarray]:
    """Selection and output of one input, by loops over units in numpy."""
    selection, output = [], []
    for slopes, offsets in zip(
        maso.slopes.detach().numpy(), maso.offsets.detach().numpy(), strict=True
    ):
        u = np.array([np.dot(a, z) + b for a, b in zip(slopes, offsets, strict=True)])
        if math.isinf(eta):
            t = np.eye(len(u))[np.argmax(u)]
        else:
            t = np.exp(eta * u - np.logaddexp.reduce(eta * u))
        selection.append(t)
        output.append(np.dot(t, u))
    return np.array(selection), np.array(output)


def mixture_of(maso: MASO, unit: int, variance: float = 1.0) -> GaussianMixture:
    """One variance, means A, and weights exp((B + |A|^2 / 2) / variance) up to scale.

    Theorem 2, computed here in numpy.
    """
    slopes, offsets = maso.slopes[unit].detach().numpy(), maso.offsets[unit].detach().numpy()
    exponents = (offsets + (slopes**2).sum(1) / 2) / variance
    weights = np.exp(exponents - exponents.max())
    mixture = GaussianMixture(len(offsets), covariance_type="spherical")
    mixture.weights_, mixture.means_ = weights / weights.sum(), slopes
    mixture.covariances_ = np.full(len(offsets), variance)
    mixture.precisions_cholesky_ = mixture.covariances_**-0.5
    return mixture


@for_each("options", INFERENCES)
def test_selection_and_output_are_those_of_the_formula(options):
    maso = random_maso(**options)
    eta = {"hard": math.inf, "soft": 1.0}.get(options["inference"])
    if eta is None:
        eta = options["beta"] / (1 - options["beta"]) if options["beta"] < 1 else math.inf
    z = torch.randn(50, 5, dtype=torch.float64)
    for one, selection, output in zip(z, maso.select(z), maso(z), strict=True):
        want_selection, want_output = by_hand(maso, one.numpy(), eta)
        np.testing.assert_allclose(selection.detach(), want_selection, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(output.detach(), want_output, rtol=1e-12, atol=1e-14)


def test_scores_have_a_place_for_every_unit_and_region():
    maso = random_maso(units=2, regions=4, features=3)
    z = torch.randn(7, 6, 3, dtype=torch.float64)
    want = (
        np.einsum("krd,abd->abkr", maso.slopes.detach().numpy(), z.numpy())
        + maso.offsets.detach().numpy()
    )
    np.testing.assert_allclose(maso.scores(z).detach(), want, rtol=1e-13, atol=1e-14)


@pytest.mark.slow
def test_affine_map_gives_the_output_in_1000_random_cases():
    generator = torch.Generator().manual_seed(0)
    for case in range(1000):
        units, regions, features = torch.randint(1, 7, (3,), generator=generator).tolist()
        maso = random_maso(units, regions, features, **INFERENCES[case % len(INFERENCES)])
        z = 3 * torch.randn(2, features, dtype=torch.float64)
        slopes, offsets = maso.affine(z)
        assert slopes.shape == (2, units, features) and offsets.shape == (2, units)
        got = (slopes * z[:, None]).sum(-1) + offsets
        # Each side adds D products, R shares and an offset: that many roundings of the largest
        # terms.
        terms = (maso.slopes.abs() * z.abs()[:, None, None]).sum(-1) + maso.offsets.abs()
        bound = 4 * (features + regions + 2) * EPS * terms.amax(-1)
        assert bool(((got - maso(z)).abs() <= bound).all()), case


def test_affine_map_is_exact_where_products_and_sums_are():
    generator = torch.Generator().manual_seed(1)
    for _ in range(200):
        slopes, offsets, z = (
            torch.randint(-9, 10, shape, generator=generator).double() / 4
            for shape in ((3, 4, 5), (3, 4), (6, 5))
        )
        maso = MASO.from_parameters(slopes, offsets)
        chosen, shift = maso.affine(z)
        assert torch.equal(torch.einsum("nkd,nd->nk", chosen, z) + shift, maso(z))
        assert all((chosen[:, k, None] == slopes[k]).all(-1).any(-1).all() for k in range(3)), (
            "rows of A as they stand"
        )


def test_hard_affine_map_is_the_jacobian():
    maso = random_maso()
    z = torch.randn(5, dtype=torch.float64)
    torch.testing.assert_close(
        torch.autograd.functional.jacobian(maso, z), maso.affine(z)[0].detach()
    )


def test_first_region_wins_a_tie():
    maso = MASO.from_parameters(torch.tensor([[[1.0], [-1.0], [1.0]]]), torch.zeros(1, 3))
    assert maso.select(torch.tensor([[0.0], [2.0]])).tolist() == [[[1, 0, 0]], [[1, 0, 0]]]


# Proposition 1, Theorem 2, Corollary 2: K-means and the Gaussian mixture


def test_nearest_centroid_of_scikit_learns_kmeans_is_the_hard_selection():
    data = np.random.default_rng(0).normal(size=(400, 3)) + 3 * np.random.default_rng(1).integers(
        0, 3, (400, 1)
    )
    found = [KMeans(4, n_init=1, random_state=seed).fit(data) for seed in (0, 1)]
    maso = MASO.from_centroids(torch.tensor(np.stack([each.cluster_centers_ for each in found])))
    chosen = maso.select(torch.tensor(data)).argmax(-1)
    for unit, each in enumerate(found):
        np.testing.assert_array_equal(chosen[:, unit], each.predict(data))
    torch.testing.assert_close(maso.prior(), torch.full((2, 4), 0.25, dtype=torch.float64))


def test_hard_selection_is_the_mixtures_most_probable_component_for_any_offsets():
    maso = random_maso(units=5, regions=4, features=2, scale=1.5)
    axis = torch.linspace(-4, 4, 41, dtype=torch.float64)
    plane = torch.cartesian_prod(axis, axis)
    chosen = maso.select(plane).argmax(-1)
    for unit in range(5):
        np.testing.assert_array_equal(
            chosen[:, unit], mixture_of(maso, unit).predict(plane.numpy())
        )


def test_soft_selection_prior_and_likelihood_are_the_mixtures():
    maso = random_maso(units=3, regions=4, features=6, inference="soft")
    z = torch.randn(200, 6, dtype=torch.float64)
    for unit in range(3):
        mixture = mixture_of(maso, unit)
        np.testing.assert_allclose(maso.prior()[unit].detach(), mixture.weights_, rtol=1e-12)
        np.testing.assert_allclose(
            maso.select(z)[:, unit].detach(), mixture.predict_proba(z.numpy()), atol=1e-12
        )
        np.testing.assert_allclose(
            maso.log_likelihood(z)[:, unit].detach(), mixture.score_samples(z.numpy()), rtol=1e-12
        )


@for_each("options", INFERENCES)
def test_responsibilities_do_not_depend_on_the_inference(options):
    maso = random_maso(**options)
    soft = MASO.from_parameters(maso.slopes, maso.offsets, inference="soft")
    z = torch.randn(20, 5, dtype=torch.float64)
    torch.testing.assert_close(maso.responsibilities(z), soft.select(z), rtol=1e-12, atol=1e-14)


def test_likelihood_keeps_its_digits_far_from_the_origin():
    """Between two means both components are equally dense, so the prior does not matter."""
    means = torch.full((1, 2, 3), 3000.0) + torch.tensor([[[0.0], [0.5]]])
    got = MASO.from_centroids(means).log_likelihood(means[:, 0] + 0.25)
    want = stats.multivariate_normal(np.zeros(3)).logpdf(np.full(3, 0.25))
    assert got.item() == pytest.approx(
        want, rel=1e-5
    )  # scores are of order 1e7, where float32 has no digits left


def test_samples_come_from_the_mixture():
    maso = random_maso(units=2, regions=3, features=2, scale=0.7)
    count = 20000
    z, regions = maso.sample(count, generator=torch.Generator().manual_seed(0))
    assert z.shape == (count, 2, 2) and regions.shape == (count, 2)
    for unit in range(2):
        expected = count * maso.prior()[unit].detach().numpy()
        assert stats.chisquare(np.bincount(regions[:, unit], minlength=3), expected).pvalue > 1e-3
        noise = z[:, unit] - maso.slopes.detach()[unit, regions[:, unit]]
        assert stats.kstest(noise.flatten().numpy(), "norm").pvalue > 1e-3


def test_same_generator_draws_the_same_sample():
    maso = random_maso()
    first, second = (maso.sample(5, generator=torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first[0], second[0]) and torch.equal(first[1], second[1])


def test_active_region_of_a_rectifier_never_has_the_smaller_prior_without_bias():
    for scale in (1e-3, 0.1, 1.0, 3.0):
        layer = nn.Linear(8, 50, bias=False).double()
        nn.init.normal_(layer.weight, std=scale)
        prior = MASO.from_layer(layer, "relu").prior()[:, 1]
        torch.testing.assert_close(prior, torch.sigmoid(layer.weight.square().sum(1) / 2))
        assert bool((prior >= 0.5).all())
    unit_norm = MASO.from_parameters(torch.tensor([[[0.0, 0.0], [0.6, 0.8]]]), torch.zeros(1, 2))
    assert unit_norm.prior()[0].tolist() == pytest.approx([0.3775, 0.6225], abs=1e-4)


# Proposition 2 and Theorem 3: the entropy-penalised problem


def penalised(t: np.ndarray, u: np.ndarray, beta: float) -> float:
    return beta * t @ u - (1 - beta) * np.sum(t * np.log(np.maximum(t, 1e-300)))


@for_each("beta", [0.0, 0.2, 0.5, 0.8, 0.95])
def test_selection_solves_the_entropy_penalised_problem(beta):
    maso = random_maso(units=6, regions=4, inference="beta", beta=beta)
    z = torch.randn(5, dtype=torch.float64)
    for u, t in zip(maso.scores(z).detach().numpy(), maso.select(z).detach().numpy(), strict=True):
        for start in (np.full(4, 0.25), np.array([0.7, 0.1, 0.1, 0.1])):  # the optimum is unique
            solved = optimize.minimize(
                lambda x, u=u: -penalised(x, u, beta),
                start,
                method="SLSQP",
                bounds=[(1e-12, 1)] * 4,
                constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
                options={"ftol": 1e-14, "maxiter": 500},
            )
            np.testing.assert_allclose(
                t, solved.x, atol=2e-5
            )  # the solver's digits, square root of its tolerance
        rivals = np.random.default_rng(0).dirichlet(np.ones(4), 2000)
        assert max(penalised(rival, u, beta) for rival in rivals) <= penalised(t, u, beta) + 1e-12


def test_soft_is_beta_of_one_half_and_hard_is_beta_of_one_to_the_bit():
    z = torch.randn(50, 5, dtype=torch.float64)
    for name, beta in (("soft", 0.5), ("hard", 1.0)):
        maso = random_maso(inference=name)
        same = MASO.from_parameters(maso.slopes, maso.offsets, inference="beta", beta=beta)
        assert torch.equal(maso(z), same(z)) and torch.equal(maso.select(z), same.select(z))


def test_selection_is_the_mean_at_beta_0_and_tends_to_it_and_to_the_hard_one():
    maso = random_maso()
    z = torch.randn(20, 5, dtype=torch.float64)

    def at(beta):
        return MASO.from_parameters(maso.slopes, maso.offsets, inference="beta", beta=beta)

    assert torch.equal(at(0.0).select(z), torch.full((20, 4, 3), 1 / 3, dtype=torch.float64))
    torch.testing.assert_close(at(1e-9).select(z), at(0.0).select(z), rtol=0, atol=1e-7)
    torch.testing.assert_close(at(1e-9)(z), maso.scores(z).mean(-1), rtol=0, atol=1e-7)
    torch.testing.assert_close(at(1 - 1e-9).select(z), maso.select(z), rtol=0, atol=1e-9)


def test_derivatives_are_the_closed_forms():
    maso = random_maso(units=3, inference="beta", beta=0.7, learn_beta=True)
    z = torch.randn(5, dtype=torch.float64)
    u, t, y, eta = (v.detach() for v in (maso.scores(z), maso.select(z), maso(z), maso.steepness()))
    maso(z).sum().backward()
    torch.testing.assert_close(maso.offsets.grad, t * (1 + eta[:, None] * (u - y[:, None])))
    variance = (t * u**2).sum(-1) - y**2
    torch.testing.assert_close(maso.beta_logit.grad, variance * eta)  # d eta / d logit = eta
    torch.testing.assert_close(maso.beta.detach(), torch.full((3,), 0.7, dtype=torch.float64))


def test_trained_beta_moves_towards_the_maximum_when_the_target_is_one():
    torch.manual_seed(0)
    hard = random_maso()
    soft = MASO.from_parameters(hard.slopes, hard.offsets, inference="beta", learn_beta=True)
    z, start = torch.randn(256, 5, dtype=torch.float64), soft.beta.detach().clone()
    optimiser = torch.optim.Adam([soft.beta_logit], 0.1)
    for _ in range(60):
        optimiser.zero_grad()
        (soft(z) - hard(z).detach()).square().mean().backward()
        optimiser.step()
    assert bool((soft.beta > start + 0.3).all())


# Contract


@pytest.mark.slow
@for_each(
    "options",
    [
        {},
        {"inference": "beta", "beta": 0.8, "learn_beta": True},
        {"inference": "beta", "beta": 0.0},
    ],
)
def test_maso_keeps_the_contract_of_layers(options):
    check_layer(
        lambda: MASO(4, 3, 2, **options),
        (3, 4),
        leave_out={"exports_to_onnx": "has a test of its own"},
    )


@pytest.mark.slow
@pytest.mark.onnx
def test_maso_exports_to_onnx():
    check_layer(
        lambda: MASO(4, 3, 3, inference="beta", learn_beta=True), (3, 4), only=["exports_to_onnx"]
    )


@pytest.mark.slow
def test_maso_trains_in_two_processes():
    only = ["trains_in_two_processes"]
    check_layer(
        lambda: MASO(4, 3, 2, inference="beta", learn_beta=True), (4, 4), only=only, ddp=True
    )


@for_each("logit", [-1e4, -60.0, 60.0, 1e4])
def test_extreme_beta_never_gives_nan(logit):
    maso = MASO(4, 3, 3, inference="beta", learn_beta=True)
    nn.init.constant_(maso.beta_logit, logit)
    for scale in (0.0, 1e-30, 1.0, 1e30, 1e37):
        z = (scale * torch.randn(8, 4)).requires_grad_()
        maso(z).sum().backward()
        grads = [z.grad, *(p.grad for p in maso.parameters())]
        assert maso(z).isfinite().all() and not any(g.isnan().any() for g in grads)
        assert not maso.select(z).isnan().any()


def test_state_has_stable_names():
    assert list(MASO(2, 3, 4).state_dict()) == ["slopes", "offsets"]
    assert set(MASO(2, 3, 4, inference="beta", learn_beta=True).state_dict()) == {
        "slopes",
        "offsets",
        "beta_logit",
    }


def test_repr_and_copy():
    maso = MASO(2, 3, 4, inference="beta", beta=0.25)
    assert repr(copy.deepcopy(maso)) == (
        "MASO(in_features=2, out_features=3, regions=4, "
        "inference='beta', beta=0.25, learn_beta=False)"
    )


@for_each(
    ("arguments", "options", "named"),
    [
        ((0, 3, 2), {}, "in_features"),
        ((4, 0, 2), {}, "out_features"),
        ((4, 3, 0), {}, "regions"),
        ((4, 3, 2.0), {}, "regions"),
        ((4, 3, 2), {"inference": "medium"}, "inference"),
        ((4, 3, 2), {"inference": "beta", "beta": 1.5}, "beta"),
        ((4, 3, 2), {"inference": "beta", "beta": -0.1}, "beta"),
        ((4, 3, 2), {"inference": "beta", "beta": math.nan}, "beta"),
        ((4, 3, 2), {"inference": "hard", "beta": 0.5}, "beta"),
        ((4, 3, 2), {"inference": "soft", "learn_beta": True}, "beta"),
        ((4, 3, 2), {"inference": "beta", "beta": 1.0, "learn_beta": True}, "beta"),
        ((4, 3, 2), {"inference": "beta", "learn_beta": "yes"}, "learn_beta"),
    ],
)
def test_bad_options_are_refused_by_name(arguments, options, named):
    with pytest.raises(ArgumentError, match=named):
        MASO(*arguments, **options)


@for_each(
    ("slopes", "offsets"),
    [
        (torch.ones(2, 3), torch.ones(2, 3)),
        (torch.ones(2, 3, 4), torch.ones(3, 2)),
        (torch.ones(2, 0, 4), torch.ones(2, 0)),
        (torch.ones(2, 3, 4, dtype=torch.int64), torch.ones(2, 3)),
        ([[1.0]], torch.ones(2, 3)),
    ],
)
def test_slopes_and_offsets_that_do_not_fit_are_refused(slopes, offsets):
    with pytest.raises(ArgumentError, match="MASO"):
        MASO.from_parameters(slopes, offsets)


@for_each("method", ["forward", "scores", "select", "affine", "responsibilities", "log_likelihood"])
def test_wrong_features_are_refused_by_every_method(method):
    with pytest.raises(ArgumentError, match="features"):
        getattr(MASO(4, 3, 2), method)(torch.ones(2, 5))


@for_each("count", [0, 1.5, True])
def test_a_sample_size_must_be_a_count(count):
    with pytest.raises(ArgumentError, match="count"):
        MASO(4, 3, 2).sample(count)


@for_each("variance", [0.25, 1.0, 9.0])
def test_with_a_variance_it_is_the_mixture_of_scikit_learn(variance: float):
    maso = random_maso()
    z = torch.randn(40, 5, dtype=torch.float64)
    for unit in range(4):
        mixture = mixture_of(maso, unit, variance)
        np.testing.assert_allclose(
            maso.prior(variance)[unit].detach(), mixture.weights_, rtol=1e-12
        )
        np.testing.assert_allclose(
            maso.responsibilities(z, variance)[:, unit].detach(),
            mixture.predict_proba(z.numpy()),
            rtol=1e-9,
            atol=1e-14,
        )
        np.testing.assert_allclose(
            maso.log_likelihood(z, variance)[:, unit].detach(),
            mixture.score_samples(z.numpy()),
            rtol=1e-12,
        )


def test_the_posterior_of_a_variance_is_the_selection_of_its_beta():
    soft = random_maso()
    beta = MASO.from_parameters(soft.slopes, soft.offsets, inference="beta", beta=1 / (1 + 0.3))
    z = torch.randn(20, 5, dtype=torch.float64)
    torch.testing.assert_close(soft.responsibilities(z, 0.3), beta.select(z), rtol=1e-9, atol=1e-12)


def test_the_limit_of_no_variance_is_the_hard_selection_and_with_centroids_k_means():
    maso = random_maso(inference="hard")
    z = torch.randn(30, 5, dtype=torch.float64)
    limit = maso.responsibilities(z, 0.0)
    assert torch.equal(limit, maso.select(z))
    torch.testing.assert_close(maso.responsibilities(z, 1e-9), limit)
    assert (maso.responsibilities(z, 0.1) - limit).abs().max() > 0.01
    centroids = torch.randn(2, 4, 5, dtype=torch.float64)
    quantiser = MASO.from_centroids(centroids)
    nearest = (z[:, None, None] - centroids).square().sum(-1).argmin(-1)
    assert torch.equal(quantiser.responsibilities(z, 0.0).argmax(-1), nearest)
    for variance in (1e-3, 1.0, 50.0):
        torch.testing.assert_close(quantiser.prior(variance), torch.full((2, 4), 0.25).double())


def test_samples_have_the_variance():
    maso = random_maso(units=1, regions=2, features=3, scale=5.0)
    generator = torch.Generator().manual_seed(2)
    samples, regions = maso.sample(20_000, variance=4.0, generator=generator)
    residuals = samples[:, 0] - maso.slopes.detach()[0, regions[:, 0]]
    # The variance of 60,000 squares of N(0, 4) is 2 * 16 / 60,000; five standard errors.
    assert float(residuals.square().mean()) == pytest.approx(4.0, abs=5 * (32 / 60_000) ** 0.5)


@for_each("variance", [-1.0, math.nan, True])
def test_a_variance_below_0_is_refused(variance):
    maso = random_maso()
    with pytest.raises(ArgumentError, match="variance"):
        maso.responsibilities(torch.zeros(5, dtype=torch.float64), variance)
    with pytest.raises(ArgumentError, match="variance"):
        maso.prior(0.0)
