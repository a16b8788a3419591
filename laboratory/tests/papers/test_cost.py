"""What an experiment would cost is counted before it is run."""

import json
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import pytest
from gatewise_papers.all_experiments import experiments, find_experiment
from gatewise_papers.common import (
    Experiment,
    Findings,
    TableTraining,
    cost_at_start,
    cost_of,
    costs,
)
from gatewise_papers.crelu.experiments import table1
from typer.testing import CliRunner

from gatewise.cli import app
from gatewise.errors import ArgumentError, UnknownNameError
from gatewise.files import write_json
from gatewise.train import RunConfig, seconds_per_run

TRAINING = TableTraining("digits", "adam", ("epochs = 3", "batch = 50"), {"train": 100})


@dataclass(frozen=True)
class SomeSettings:
    reduced: str = ""


def two_arms(settings: SomeSettings, seeds: tuple[int, ...]) -> dict[str, list[RunConfig]]:
    return {
        "small": [TRAINING.config("mlp", seed) for seed in seeds],
        "twice": [TRAINING.config("mlp", seed) for seed in seeds] * 2,
    }


EXPERIMENT = Experiment(
    "some/thing",
    "a thing",
    {"desk": SomeSettings()},
    findings=lambda values: Findings([], []),
    trainings=two_arms,
)


def test_the_cost_is_the_sum_over_arms_of_runs_times_seconds(monkeypatch: pytest.MonkeyPatch):
    times = iter((36.0, 90.0))
    monkeypatch.setattr(costs, "_seconds", lambda config, threads: next(times))
    cost = cost_of(EXPERIMENT, "desk", 4)
    assert [(arm.final, arm.seconds) for arm in cost.arms] == [(4, 36.0), (8, 90.0)]
    assert cost.core_hours == pytest.approx((4 * 36 + 8 * 90) / 3600)
    assert cost.to_dict()["core_hours"] == cost.core_hours


def test_a_run_takes_the_time_of_a_step_for_every_step():
    ticks = count(step=0.5)  # every step takes half a second
    config = TRAINING.config("mlp", 0)
    seconds = seconds_per_run(
        config, classes=10, shape=(1, 8, 8), examples=101, timer=lambda: next(ticks)
    )
    assert seconds == 0.5 * 3 * 3  # three epochs of 50 + 50 + 1 images


def test_what_does_not_train_or_cannot_be_timed_says_so():
    assert cost_of(find_experiment("crelu/table5")).words.endswith("it trains no networks.")
    assert "a loop of its own" in cost_of(find_experiment("deep_gated/figure7")).words
    assert cost_of(find_experiment("crelu/table5")).core_hours is None


def test_folds_and_a_hold_out_are_runs_too():
    trainings = table1.EXPERIMENT.trainings
    assert trainings is not None
    full = trainings(table1.EXPERIMENT.scales["full"], (0, 1))
    assert {len(configs) for configs in full.values()} == {2 * (2 + 10)}
    desk = trainings(table1.EXPERIMENT.scales["desk"], (0, 1))
    assert {len(configs) for configs in desk.values()} == {2} and len(desk) == 4


def test_every_experiment_declares_its_trainings_or_its_own_loop_or_a_comparison():
    for name, experiment in experiments().items():
        assert not (experiment.trainings and experiment.own_loop), name
        if experiment.comparison is not None:
            assert experiment.trainings is not None and not experiment.cells(None, (0,)), name
        settings = experiment.scales["desk"]
        if experiment.trainings is not None:
            table = experiment.trainings(settings, (0, 1, 2))
            # Some read the networks that another experiment has trained.
            assert bool(table) != bool(getattr(settings, "networks_of", "")), name
            assert all(len(configs) % 3 == 0 for configs in table.values()), name
        if name != "crelu/figure2":  # its weights are not a data set of the tests
            cells = experiment.cells(settings, (0,))
            names = [cell.name for cell in cells]
            assert len(set(names)) == len(names), name


def test_the_command_prints_the_cost_and_the_command_that_resumes(tmp_path: Path):
    out = str(tmp_path / "new")
    arguments = ["reproduce", "deep_gated/table4", "--scale", "tiny", "--cost", "--out", out]
    printed = CliRunner().invoke(app, [*arguments, "--seeds", "2", "--json"])
    assert printed.exit_code == 0, printed.output
    content = json.loads(printed.stdout)
    assert len(content["arms"]) == 6 and content["seeds"] == 2
    assert content["core_hours"] == pytest.approx(
        sum(arm["final"] * arm["seconds"] for arm in content["arms"]) / 3600
    )
    assert content["command"].endswith(f"deep_gated/table4 --scale tiny --out {out} --seeds 2")
    assert not Path(out).exists()
    text = CliRunner().invoke(app, ["reproduce", "crelu/table5", "--cost"])
    assert "trains no networks" in text.stdout


def test_unknown_scales_and_seeds_are_refused():
    with pytest.raises(UnknownNameError, match="did you mean 'desk'"):
        cost_of(EXPERIMENT, "deskk")
    with pytest.raises(ArgumentError, match="seeds"):
        cost_of(EXPERIMENT, "desk", 0)


def test_the_cost_is_timed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    words = cost_at_start(EXPERIMENT, "desk", 2, tmp_path)
    assert words is not None and "core-hours" in words
    assert cost_at_start(EXPERIMENT, "desk", 3, tmp_path) != words  # of other seeds
    words = cost_at_start(EXPERIMENT, "desk", 2, tmp_path)
    monkeypatch.setattr(costs, "cost_of", None)  # it is not called again
    assert cost_at_start(EXPERIMENT, "desk", 2, tmp_path) == words
    folder = EXPERIMENT.folder(tmp_path)
    write_json(folder / "results.json", {"scale": "tiny"})
    assert cost_at_start(EXPERIMENT, "desk", 2, tmp_path) is None
    assert cost_at_start(find_experiment("crelu/table5"), "desk", None, tmp_path) is None


def test_the_cost_of_other_settings_is_not_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    times = count(36.0, step=36.0)  # of two arms each time: 36 and 72, then 108 and 144 seconds
    monkeypatch.setattr(costs, "_seconds", lambda config, threads: next(times))
    words = cost_at_start(EXPERIMENT, "desk", 2, tmp_path)
    changed = replace(EXPERIMENT, scales={"desk": SomeSettings("half the epochs")})
    again = cost_at_start(changed, "desk", 2, tmp_path)
    assert words is not None and "0.1 core-hours" in words  # 2 x 36 + 4 x 72 seconds
    assert again is not None and "0.22 core-hours" in again  # 2 x 108 + 4 x 144 seconds
    assert cost_at_start(changed, "desk", 2, tmp_path) == again


def test_no_workers_are_refused(tmp_path: Path):
    options = ["crelu/table1", "--workers", "0", "--out", str(tmp_path)]
    told = CliRunner().invoke(app, ["reproduce", *options])
    assert told.exit_code == 2 and "--workers is not allowed" in told.output


def test_runs_that_are_read_cost_nothing():
    for name, units in (("psc/cifar10", 2), ("iieu/cifar100", 3), ("maso/beta_forms", 7)):
        experiment = find_experiment(name)
        table = experiment.trainings(experiment.scales["desk"], (0, 1))
        assert len(table) == units and {len(configs) for configs in table.values()} == {2 * 5}
