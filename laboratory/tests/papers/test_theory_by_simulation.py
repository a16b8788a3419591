"""The paper's theorems about the kernel at the start hold in simulation, and wrong ones do not."""

import math
from itertools import pairwise

import pytest
import torch
from gatewise_papers import deep_gated
from gatewise_papers.deep_gated import DeepGatedNetwork, delta
from gatewise_papers.deep_gated.experiments import (
    expected_gate_kernel,
    expected_kernel,
    expected_linear_kernel,
    expected_overlap,
    gate_overlaps,
    largest_gate_overlap,
    linear_kernel_variance,
)
from loops import for_each
from papers.simulated import (
    activity,
    enumerated_paths,
    kernels,
    overlap,
    signs,
    tangents,
    worst_miss,
)
from torch.func import functional_call, jacrev, vmap

DRAWS = 4000
N, D_IN, WIDTH, DEPTH = 3, 2, 5, 4


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def network(gate: str, **options) -> DeepGatedNetwork:
    return DeepGatedNetwork(
        D_IN, WIDTH, DEPTH, gate=gate, generator=seeded(8), dtype=torch.float64, **options
    )


X = torch.randn(N, D_IN, generator=seeded(0), dtype=torch.float64)


def strength_shapes(model: DeepGatedNetwork) -> dict[str, torch.Size]:
    return {name: p.shape for name, p in model.named_parameters() if name.startswith("weights")}


def frozen_gates(gate: str) -> list[torch.Tensor]:
    model = network(gate, **({"examples": N} if gate == "random" else {}))
    return [each.detach() for each in model.gates(X, torch.arange(N) if gate == "random" else None)]


@for_each("gate", ["linear", "random", "galu", "soft_galu"])
def test_the_expected_kernel_is_that_of_theorem_2_3(gate: str):
    model, gates, sigma = network("linear"), frozen_gates(gate), 0.7
    sampled = kernels(model, X, signs(strength_shapes(model), DRAWS, sigma, 2), "weights", gates)
    theory = expected_kernel(X, overlap(gates, WIDTH), depth=DEPTH, sigma=sigma)
    assert theory.diagonal().min() > 0
    assert worst_miss(sampled, theory) <= 1
    assert worst_miss(sampled, theory / DEPTH) > 10  # the factor d left out


@pytest.mark.slow
def test_the_interval_holds_theorem_2_3_for_99_of_100_seeds():
    model, gates = network("linear"), frozen_gates("random")
    theory = expected_kernel(X, overlap(gates, WIDTH), depth=DEPTH, sigma=0.7)
    inside = [
        worst_miss(
            kernels(model, X, signs(strength_shapes(model), 1000, 0.7, seed), "weights", gates),
            theory,
        )
        <= 1
        for seed in range(1000)
    ]
    assert sum(inside) >= 990


def path_tangents(draws: int, sigma: float) -> torch.Tensor:
    """The derivative of every path's strength by all weights: (draws, paths, parameters)."""
    shapes = {"1": torch.Size((3, 2)), "2": torch.Size((3, 3)), "3": torch.Size((1, 3))}
    paths = torch.tensor(enumerated_paths(2, 3, 3))

    def strengths(weights: dict[str, torch.Tensor]) -> torch.Tensor:
        first, second, last = weights.values()
        start, one, two = paths.T
        return first[one, start] * second[two, one] * last[0, two]

    found = vmap(jacrev(strengths))(signs(shapes, draws, sigma, 3))
    return torch.cat([each.flatten(2) for each in found.values()], 2)


def test_paths_are_orthogonal_on_average_and_of_fixed_length_as_lemma_2_2_says():
    phi, sigma, depth = path_tangents(DRAWS, 0.8), 0.8, 3
    products = phi @ phi.mT
    lengths = products.diagonal(dim1=1, dim2=2)
    torch.testing.assert_close(
        lengths, torch.full_like(lengths, depth * sigma ** (2 * (depth - 1)))
    )
    theory = torch.diag(lengths[0])
    assert worst_miss(products, theory) <= 1
    assert worst_miss(products, theory + 0.1) > 1


@for_each("mu", [0.3, 0.5])
def test_random_gates_overlap_as_lemma_2_4_says(mu: float):
    """Examples are independent of each other, so pairs of them are independent draws."""
    pairs = 20_000
    model = DeepGatedNetwork(
        1, WIDTH, DEPTH, gate="random", mu=mu, examples=2 * pairs, generator=seeded(4)
    )
    gates = model.gates(torch.ones(2 * pairs, 1), torch.arange(2 * pairs))
    split = [gate.double().view(pairs, 2, WIDTH) for gate in gates]
    own = torch.stack([(gate[:, 0] * gate[:, 0]).sum(1) for gate in split]).prod(0)
    cross = torch.stack([(gate[:, 0] * gate[:, 1]).sum(1) for gate in split]).prod(0)
    theory = torch.tensor(expected_overlap(mu=mu, width=WIDTH, depth=DEPTH), dtype=torch.float64)
    sampled = torch.stack([own, cross], 1)
    assert worst_miss(sampled, theory) <= 1
    assert worst_miss(sampled, theory * mu) > 10  # one layer too many


def test_the_parts_of_a_soft_galu_kernel_are_those_of_lemma_3_1_with_the_missing_factor():
    model, sigma = network("soft_galu"), 0.7
    drawn = signs(strength_shapes(model), DRAWS, sigma, 5)
    gates = [each.detach() for each in model.gates(X)]
    strengths, gating = (kernels(model, X, drawn, part) for part in ("weights", "gating"))
    lam = overlap(gates, WIDTH)
    assert worst_miss(strengths, expected_kernel(X, lam, depth=DEPTH, sigma=sigma)) <= 1
    as_printed = sigma ** (2 * (DEPTH - 1)) * (X @ X.T) * lam
    assert worst_miss(strengths, as_printed) > 10
    theory = expected_gate_kernel(X, brute_delta(model), depth=DEPTH, sigma=sigma)
    assert worst_miss(gating, theory) <= 1
    assert worst_miss(gating, theory * DEPTH) > 10
    both = kernels(model, X, drawn, "")
    torch.testing.assert_close(both, strengths + gating)


def brute_delta(model: DeepGatedNetwork) -> torch.Tensor:
    """Definition 3.1, path by path."""
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    gating = {name: value for name, value in parameters.items() if name.startswith("gating")}
    paths = enumerated_paths(1, WIDTH, DEPTH)

    def activities(chosen: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        gates = functional_call(
            _Gates(model), {f"model.{k}": v for k, v in (parameters | chosen).items()}, (x[None],)
        )
        return torch.stack([activity(gates, path)[0] for path in paths])

    slopes = [
        torch.cat([s.flatten(1) for s in jacrev(activities)(gating, x).values()], 1) for x in X
    ]
    return torch.stack([torch.stack([(a * b).sum() for b in slopes]) for a in slopes])


class _Gates(torch.nn.Module):
    def __init__(self, model: DeepGatedNetwork) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return self.model.gates(x)


def test_delta_is_what_definition_3_1_says():
    model = network("soft_galu")
    torch.testing.assert_close(delta(model, X), brute_delta(model))


def linear_kernels(width: int, depth: int, draws: int) -> torch.Tensor:
    model = DeepGatedNetwork(1, width, depth, gate="linear", dtype=torch.float64)
    drawn = signs(strength_shapes(model), draws, width**-0.5, 6)
    psi = tangents(model, torch.ones(1, 1, dtype=torch.float64), drawn, "weights")
    return psi.square().sum((1, 2))


@for_each(("width", "depth"), [(4, 2), (4, 3), (6, 5), (10, 4)])
def test_a_linear_network_has_the_kernel_of_corollary_8_1_with_the_exact_variance(
    width: int, depth: int
):
    sampled = linear_kernels(width, depth, DRAWS)[:, None]
    sigma = width**-0.5
    theory = torch.tensor(
        [expected_linear_kernel(width=width, depth=depth, sigma=sigma)], dtype=torch.float64
    )
    assert worst_miss(sampled, theory) <= 1
    assert worst_miss(sampled, theory / depth) > 10
    squares = (sampled - theory).square()
    variance = linear_kernel_variance(width=width, depth=depth, sigma=sigma)
    assert worst_miss(squares, torch.tensor([variance], dtype=torch.float64)) <= 1


def test_the_variance_falls_with_width_and_grows_with_the_cube_of_depth():
    def variance(width: int, depth: int) -> float:
        return linear_kernel_variance(width=width, depth=depth, sigma=width**-0.5)

    assert variance(1000, 8) / variance(2000, 8) == pytest.approx(2, rel=0.02)
    assert variance(10**5, 128) * 10**5 / 128**3 == pytest.approx(4 / 3, rel=0.05)


def test_no_constant_makes_the_bound_of_theorem_2_3_hold():
    """The printed bound, max(d^2/w, d^3/w^2), is exceeded by a factor that grows with the depth."""

    def over_bound(depth: int) -> float:
        width = 10**5
        exact = linear_kernel_variance(width=width, depth=depth, sigma=width**-0.5)
        return exact / max(depth**2 / width, depth**3 / width**2)

    assert all(over_bound(2 * depth) > 1.9 * over_bound(depth) for depth in (4, 8, 16, 32, 64, 128))


def test_under_random_gates_too_the_spread_grows_with_depth_and_falls_with_width():
    def relative(width: int, depth: int) -> float:
        model = DeepGatedNetwork(1, width, depth, gate="linear", dtype=torch.float64)
        drawn = signs(strength_shapes(model), 1500, math.sqrt(2 / width), 7)
        gates = [
            torch.rand(1, width, generator=seeded(layer)).lt(0.5).double()
            for layer in range(depth - 1)
        ]
        sampled = kernels(model, torch.ones(1, 1, dtype=torch.float64), drawn, "weights", gates)[
            :, 0, 0
        ]
        return float(sampled.std() / sampled.mean())

    assert relative(8, 3) < relative(8, 6) and relative(24, 6) < relative(8, 6)


def test_the_path_kernel_is_the_overlap_by_enumeration():
    model = network("galu")
    gates = [each.detach() for each in model.gates(X)]
    torch.testing.assert_close(
        deep_gated.path_kernel(model, X), overlap(gates, WIDTH), rtol=0, atol=0
    )


def path_sensitivities(weights: list[torch.Tensor], paths: list[tuple[int, ...]]) -> torch.Tensor:
    """The derivative of the strength of every path by every weight: (paths, weights)."""
    places = {}
    for layer, weight in enumerate(weights):
        for place in range(weight.numel()):
            places[(layer, *divmod(place, weight.shape[1]))] = len(places)
    found = torch.zeros(len(paths), len(places), dtype=torch.float64)
    for number, path in enumerate(paths):
        steps = list(pairwise((*path, 0)))
        for skipped, (start, end) in enumerate(steps):
            others = [weights[k][b, a] for k, (a, b) in enumerate(steps) if k != skipped]
            found[number, places[skipped, end, start]] = torch.stack(others).prod()
    return found


def test_lemma_2_1_leaves_out_the_pairs_of_paths_from_different_inputs():
    """K(s, s') is a sum over all pairs of inputs; the printed one is right only in expectation."""
    model = network("relu")
    weights = [weight.detach() for _, weight in model.named_parameters()]
    paths = enumerated_paths(D_IN, WIDTH, DEPTH)
    gates = [each.detach() for each in model.gates(X)]
    drawn = {name: weight.detach()[None] for name, weight in model.named_parameters()}
    measured = kernels(model, X, drawn, "weights", gates)[0]
    sensitivity = path_sensitivities(weights, paths)
    active = torch.stack([activity(gates, path) for path in paths], 1)  # (n, paths)
    whole = torch.zeros(N, N, dtype=torch.float64)
    printed = torch.zeros(N, N, dtype=torch.float64)
    by_input = []
    for i in range(D_IN):
        starts = torch.tensor([path[0] == i for path in paths])
        by_input.append(X[:, i, None] * ((active * starts) @ sensitivity))
        printed += by_input[i] @ by_input[i].T
    for one in by_input:
        for other in by_input:
            whole += one @ other.T
    torch.testing.assert_close(whole, measured)
    assert (printed - measured).abs().max() > 0.1 * measured.abs().max()


def test_the_printed_sum_of_lemma_2_1_is_the_mean_over_signs_for_fixed_gates():
    model, gates, sigma = network("linear"), frozen_gates("galu"), 0.7
    drawn = signs(strength_shapes(model), DRAWS, sigma, 5)
    theory = expected_kernel(X, overlap(gates, WIDTH), depth=DEPTH, sigma=sigma)
    only = [torch.zeros_like(X) for _ in range(D_IN)]
    for i in range(D_IN):
        only[i][:, i] = X[:, i]
    parts = [tangents(model, each, drawn, "weights", gates) for each in only]
    cross = parts[0] @ parts[1].mT
    assert worst_miss(cross, torch.zeros(N, N, dtype=torch.float64)) <= 1
    assert cross.std(0).max() > 0.1 * theory.diagonal().max()


@for_each("gate", ["random", "galu", "soft_galu"])
def test_eta_bounds_the_overlap_of_sub_networks(gate: str):
    gates = frozen_gates(gate)
    taus = gate_overlaps(gates)
    lambdas = overlap(gates, WIDTH)
    torch.testing.assert_close(taus.prod(0), lambdas)
    eta = 0.0
    for values in gates:  # (N, WIDTH), by loops
        for s in range(N):
            for other in range(N):
                tau = sum(float(values[s, i] * values[other, i]) for i in range(WIDTH))
                own = float(values[s].square().sum())
                if s != other:
                    eta = max(eta, tau / own if own else math.inf)
    assert largest_gate_overlap(gates) == pytest.approx(eta)
    for s in range(N):
        for other in range(N):
            if s != other:
                bound = eta ** (DEPTH - 1) * lambdas[s, s]
                assert lambdas[s, other] <= bound * (1 + 1e-12) or not math.isfinite(eta)


def test_a_layer_that_is_closed_for_an_example_has_no_bound():
    gates = [torch.tensor([[1.0, 0.0], [0.0, 0.0]])]
    assert largest_gate_overlap(gates) == math.inf
