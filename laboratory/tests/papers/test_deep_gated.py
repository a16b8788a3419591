"""Every experiment of the paper runs at its smallest scale, and what has a closed form meets it."""

import math
from pathlib import Path

import pytest
import torch
from gatewise_papers.all_experiments import experiments
from gatewise_papers.deep_gated.experiments import (
    BinaryImages,
    descend,
    expected_linear_kernel,
    figure3,
    figure10,
    fours_and_sevens,
    inputs,
    kernel,
    start,
    steps_until,
)
from loops import for_each

from gatewise.files import read_json
from gatewise.studies import CellCall
from gatewise.train import StopSignal

SYNTHETIC = [name for name, each in experiments().items() if not each.needs]
WITH_DATA = [name for name, each in experiments().items() if each.needs]


CALL = CellCall({}, {}, Path(), StopSignal())


def check_run(name: str, folder: Path) -> None:
    done = experiments()[name].run("tiny", 2, folder)
    record = read_json(folder / name / "results.json")
    assert record["experiment"] == name and record["reduced"] and record["findings"]["rows"]
    assert done.findings.panels and done.findings.claims
    assert all(row.ours is None or math.isfinite(row.ours) for row in done.findings.rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", SYNTHETIC)
def test_an_experiment_that_needs_no_data_runs(name: str, tmp_path: Path):
    check_run(name, tmp_path)


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("name", WITH_DATA)
def test_an_experiment_on_published_data_runs(name: str, tmp_path: Path):
    check_run(name, tmp_path)


@pytest.mark.slow
def test_the_same_seeds_give_the_same_numbers(tmp_path: Path):
    one, two = (
        experiments()["deep_gated/figure4"].run("tiny", 2, tmp_path / each) for each in ("a", "b")
    )
    assert one.findings.rows == two.findings.rows
    assert (tmp_path / "a/deep_gated/figure4/figure.svg").read_bytes() == (
        tmp_path / "b/deep_gated/figure4/figure.svg"
    ).read_bytes()


def test_entries_under_random_gates_agree_with_equation_5(tmp_path: Path):
    done = experiments()["deep_gated/figure2"].run("tiny", 20, tmp_path)
    assert [row.agrees for row in done.findings.rows] == [True] * 6
    assert [claim.verdict.value for claim in done.findings.claims] == ["supported"]


def jacobian_product(network, x, index) -> torch.Tensor:
    rows = []
    for s in range(len(x)):
        output = network(x[s : s + 1], None if index is None else index[s : s + 1])
        slopes = torch.autograd.grad(output.sum(), list(network.strength_parameters()))
        rows.append(torch.cat([slope.flatten() for slope in slopes]))
    psi = torch.stack(rows)
    return psi @ psi.T


@for_each("gate", ["random", "galu", "relu", "linear"])
def test_the_kernel_at_the_start_is_the_product_of_jacobians(gate: str):
    x, _ = inputs(2, 4, 0)
    network = start(gate, 2, 7, 3, 5, n=4)
    index = torch.arange(4) if gate == "random" else None
    torch.testing.assert_close(kernel(network, x), jacobian_product(network, x, index))


def test_an_output_that_cancels_down_to_rounding_does_not_disturb_the_kernel():
    """Seeds 0, 7 and 13 have such outputs.

    One sample's alone and in a batch are then different numbers near zero.
    """
    for seed in (0, 7, 13):
        x, _ = inputs(1, 10, seed)
        network = start("random", 1, 30, 4, seed, n=10)
        torch.testing.assert_close(
            kernel(network, x), jacobian_product(network, x, torch.arange(10))
        )


def test_descent_at_small_steps_follows_the_linear_recursion():
    """With the half in the loss, one step takes e to e - a K e, up to the square of the step."""
    network = start("galu", 2, 30, 3, 1, n=5)
    x, y = inputs(2, 5, 1)
    before = network(x).squeeze(1).detach() - y
    K, size = kernel(network, x), 1e-6
    loss = (network(x).squeeze(1) - y).square().sum() / 2
    slopes = torch.autograd.grad(loss, list(network.strength_parameters()))
    with torch.no_grad():
        for parameter, slope in zip(network.strength_parameters(), slopes, strict=True):
            parameter -= size * slope
    after = network(x).squeeze(1).detach() - y
    torch.testing.assert_close((before - after) / size, K @ before, rtol=1e-4, atol=1e-6)


def test_convergence_begins_at_one_and_does_not_rise_at_the_first_step():
    found = descend("random", 40, 4, 1, 8, 5, (0, 1, 2), CALL)
    assert all(seed[0] == 1.0 and seed[1] < 1.0 and len(seed) == 6 for seed in found["ratio"])
    assert all(seed[-1] == 1.0 and seed == sorted(seed) for seed in found["eigenvalues"])


def test_the_ideal_ratio_is_that_of_the_recursion_with_the_kernel_of_equation_5():
    n, mu, depth, steps = 6, 0.5, 3, 7
    K = torch.full((n, n), mu ** (depth - 1), dtype=torch.float64).fill_diagonal_(1.0)
    step = torch.eye(n, dtype=torch.float64) - 0.1 / torch.linalg.eigvalsh(K)[-1] * K
    squares, power = [], torch.eye(n, dtype=torch.float64)
    for _ in range(steps + 1):
        squares.append(
            float((power @ power.T).trace() / n)
        )  # the expected square for white targets
        power = power @ step
    assert figure3.ideal_ratio(n, mu, depth, steps) == pytest.approx(
        [each**0.5 for each in squares], rel=1e-12
    )


def test_a_linear_network_of_depth_2_begins_with_kernel_2_whatever_the_draw():
    found = figure10.train_linear(16, 2, 3, (0, 1, 2))
    assert [seed[0] for seed in found["kernel"]] == pytest.approx([2.0] * 3)
    assert expected_linear_kernel(width=16, depth=2, sigma=0.25) == 2.0
    assert all(seed[0] == 1.0 and seed[-1] > 0.9 for seed in found["growth"])


def test_the_first_fall_of_the_error_is_that_of_the_kernel():
    """At width 1000 one step changes the kernel little: the ratio is about (1 - 0.1 K_0 / d)^2."""
    found = figure10.train_linear(1000, 4, 1, (0, 1))
    for errors, kernels in zip(found["error"], found["kernel"], strict=True):
        assert errors[1] == pytest.approx((1 - 0.1 * kernels[0] / 4) ** 2, abs=0.01)


def test_a_balanced_subset_has_as_many_of_each_class():
    data = BinaryImages(torch.arange(6.0)[:, None], torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0, -1.0]))
    few = data.balanced(2)
    assert few.y.tolist() == [-1, -1, 1, 1] and few.x.flatten().tolist() == [1, 4, 0, 2]


@pytest.mark.data
def test_fours_and_sevens_are_labelled_and_scaled():
    test = fours_and_sevens("test")
    assert test.x.shape == (2010, 784) and float(test.x.max()) == 1.0 and float(test.x.min()) == 0.0
    assert int((test.y == 1).sum()) == 1028 and int((test.y == -1).sum()) == 982


def test_steps_are_counted_until_a_share_of_the_error_is_left():
    falling = [0.9**step for step in range(60)]
    at_the_limit_of_float32 = [max(0.5**step, 1e-6 * (1 + step % 3)) for step in range(60)]
    steps = steps_until(
        {2: {"ratio": [falling, [1.0] * 60]}, 4: {"ratio": [at_the_limit_of_float32]}}, 0.01
    )
    assert steps == {2: [44.0, 60.0], 4: [7.0]}  # 0.9^44 < 0.01 < 0.9^43; never: one more
