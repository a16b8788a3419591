"""Learning rates of the networks of a table."""

from pathlib import Path

import pytest

from gatewise.errors import GatewiseError
from gatewise.papers.common import TunedRate, tuned_rate, tuning_runs
from gatewise.papers.common.tuning import quarter_run
from gatewise.papers.crelu import table1, table2
from gatewise.train import RunConfig, find_recipe, run_config


class EveryCell:
    """A run of an experiment that keeps the values of its cells."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.values = {}

    def training(self, cell: str) -> Path:
        return self.folder / cell

    def cell(self, name: str, work):
        self.values[name] = work()
        return self.values[name]


def config_at(rate: float, seed: int) -> RunConfig:
    changes = ["epochs = 8", "batch = 50", f"optimiser.lr = {rate}", "schedule.warmup = 3"]
    return run_config(
        model="mlp",
        unit="relu",
        data="digits",
        data_options={"train": 300},
        recipe=find_recipe("sgd", changes=changes),
        seed=seed,
    )


def test_the_rate_with_the_best_accuracy_on_held_out_images_is_chosen(tmp_path: Path):
    run = EveryCell(tmp_path)
    tuned = tuned_rate(run, "mlp", (1e-6, 0.1, 1000.0), config_at)  # pyright: ignore[reportArgumentType]
    assert tuned.rate == 0.1 and not tuned.is_at_edge and tuned.words == "0.1"
    assert tuned.accuracies[1000.0] is None  # it diverged
    assert tuned.accuracies[0.1] > tuned.accuracies[1e-6]
    assert len(run.values) == 6 and "mlp, tuning, rate 0.1, seed 1" in run.values


def test_a_network_that_diverges_at_every_rate_is_an_error(tmp_path: Path):
    with pytest.raises(GatewiseError, match="diverged at every rate"):
        tuned_rate(EveryCell(tmp_path), "mlp", (900.0, 1000.0), config_at)  # pyright: ignore[reportArgumentType]


def test_a_rate_at_the_edge_is_said():
    assert TunedRate(0.3, {0.1: 0.5, 0.3: 0.6}).words == "0.3 (the edge of the rates)"


def test_a_quarter_of_the_epochs_sees_no_test_image():
    config = config_at(0.1, 3)
    short = quarter_run(config)
    assert short.recipe.epochs == 2 and short.recipe.schedule.warmup == 1 and short.seed == 3
    assert short.hold_out is not None and short.hold_out.in_place_of_test
    assert short.recipe.optimiser == config.recipe.optimiser


@pytest.mark.parametrize("table", [table1, table2])
def test_the_tables_of_errors_are_tuned_at_desk_scale_alone(table):
    scales = table.EXPERIMENT.scales
    assert scales["desk"].tuning_runs == tuning_runs(scales["desk"].rates) == 2.5
    assert scales["full"].tuning_runs == scales["tiny"].tuning_runs == 0
