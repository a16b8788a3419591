"""Learning rates of the networks of a table."""

from pathlib import Path

import pytest
from gatewise_papers.common import (
    CellValues,
    Experiment,
    Findings,
    TunedRate,
    rates_in_words,
    row,
    tuned_rates,
    tuning_cells,
    tuning_runs,
)
from gatewise_papers.common.experiment import MOST_SEEDS
from gatewise_papers.common.tuning import quarter_run
from gatewise_papers.crelu.experiments import ErrorSettings, table1, table2

from gatewise.errors import GatewiseError
from gatewise.studies import CellCall, FunctionCell, FunctionStudy
from gatewise.train import RunConfig, find_recipe, run_config


def values_of(folder: Path, rates: tuple[float, ...]) -> dict:
    """Run the cells that tune ``mlp``; return their values by name."""
    cells = tuning_cells({"mlp": config_at}, rates)
    records = FunctionStudy(folder, name="tuning").run(cells)
    assert records is not None
    return {name: record["value"] for name, record in records.items()}


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
    rates = (1e-6, 0.1, 1000.0)
    values = values_of(tmp_path, rates)
    assert len(values) == 6 and "mlp, tuning, rate 0.1, seed 1001" in values
    tuned = tuned_rates(["mlp"], rates, values)["mlp"]
    assert tuned.rate == 0.1 and not tuned.is_at_edge and tuned.words == "0.1"
    assert tuned.accuracies[1000.0] is None  # it diverged
    assert tuned.accuracies[0.1] > tuned.accuracies[1e-6]
    assert rates_in_words({"mlp": tuned})[0].endswith("mlp 0.1.") and rates_in_words({}) == ()


def test_a_network_that_diverges_at_every_rate_is_an_error(tmp_path: Path):
    rates = (900.0, 1000.0)
    with pytest.raises(GatewiseError, match="diverged at every rate"):
        tuned_rates(["mlp"], rates, values_of(tmp_path, rates))


def test_a_rate_at_the_edge_is_said():
    assert TunedRate(0.3, {0.1: 0.5, 0.3: 0.6}).words == "0.3 (the edge of the rates)"


def test_a_quarter_of_the_epochs_sees_no_test_image():
    config = config_at(0.1, 3)
    short = quarter_run(config)
    assert short.recipe.epochs == 2 and short.recipe.schedule.warmup == 1 and short.seed == 3
    assert short.hold_out is not None and short.hold_out.in_place_of_test
    assert short.recipe.optimiser == config.recipe.optimiser


def test_tuning_runs_share_neither_seeds_with_final_runs_nor_held_out_images_with_each_other():
    held_out = {}
    for cell in tuning_cells({"mlp": config_at}, (0.1, 0.3)):
        config = run_config(**cell.settings)
        assert config.seed >= MOST_SEEDS and config.hold_out is not None
        held_out.setdefault(config.seed, set()).add(config.hold_out.fold)
    assert held_out == {1000: {1}, 1001: {2}}


@pytest.mark.parametrize("table", [table1, table2])
def test_the_tables_of_errors_are_tuned_at_desk_scale_alone(table):
    scales = table.EXPERIMENT.scales
    assert scales["desk"].tuning_runs == tuning_runs(scales["desk"].rates) == 2.5
    assert scales["full"].tuning_runs == scales["tiny"].tuning_runs == 0


def first_cell(cell: CellCall) -> int:
    return cell.settings["number"] + 1


def second_cell(cell: CellCall) -> int:
    return cell.settings["number"] * 10


def further_cells(values: CellValues) -> list[FunctionCell]:
    chosen = max(values.values.values())
    return [FunctionCell("second", second_cell, {"number": chosen})]


def test_cells_that_depend_on_the_values_of_others_run_after_them(tmp_path: Path):
    experiment = Experiment(
        name="tuning/rounds",
        title="two rounds of cells",
        scales={"desk": ErrorSettings("small")},
        cells=lambda settings, seeds: [
            FunctionCell(f"first {seed}", first_cell, {"number": seed}) for seed in seeds
        ],
        then=further_cells,
        findings=lambda values: Findings([], [row("second", [values["second"]])]),
    )
    result = experiment.run("desk", 3, tmp_path)
    assert result.findings.rows[0].ours == 30  # the largest first value is 3


def test_the_final_runs_of_a_table_have_the_chosen_rates():
    settings = table1.EXPERIMENT.scales["desk"]
    tuning = table1.TABLE.cells(settings, (0, 1))
    best = {}
    values = {}
    for place, cell in enumerate(tuning):
        values[cell.name] = float(place % 7)
        arm = cell.name.split(", tuning")[0]
        best.setdefault(arm, []).append((values[cell.name], cell.settings["recipe"]))
    given = CellValues(settings, (0, 1), values)
    rates = table1.TABLE.rates(given)
    final = table1.TABLE.then(given)
    assert len(rates) == len(settings.data) * len(table1.FORMS) and len(final) == 2 * len(rates)
    assert len({tuned.rate for tuned in rates.values()}) > 1
    for cell in final:
        config = run_config(**cell.settings["config"])
        assert config.recipe.optimiser.lr == rates[cell.name.rpartition(", seed")[0]].rate
        assert config.hold_out is None and config.recipe.epochs == settings.epochs
