"""The networks of a table are trained by :mod:`gatewise.train`, and claims follow their numbers."""

from pathlib import Path
from typing import Any

import pytest
from gatewise_papers.common import (
    Line,
    Table,
    TableTraining,
    counted,
    curve_lines,
    judge,
    judged_by_p,
    shortened,
    training_cells,
)
from torch import nn

from gatewise.devices import describe_processor
from gatewise.errors import ArgumentError
from gatewise.stats import standard_deviation
from gatewise.studies import CellCall
from gatewise.train import StopSignal, records, train

DIGITS = TableTraining(
    "digits", "adam", ("epochs = 2", "batch = 50"), {"train": 100}, {"widths": [4, 4]}
)


def trained(folder: Path, table: Table, **options: Any) -> dict[str, Any]:
    """What the cells of a table return, by the name of the network."""
    found = {}
    for cell in training_cells(table, **options):
        call = CellCall(cell.settings, {"name": cell.name}, folder / cell.name, StopSignal())
        found |= cell.function(call)
    return found


def test_a_curve_has_the_numbers_of_the_run_and_its_machine(tmp_path: Path):
    config = DIGITS.config("small_cnn", 3, "leaky_relu")
    train(config, tmp_path / "run")
    epochs = records(tmp_path / "run")
    curve = trained(tmp_path, {"a": [config]})["a, seed 3"]
    assert curve["loss"] == [epoch["train_loss"] for epoch in epochs] and len(epochs) == 2
    assert curve["train"] == [epoch["train_accuracy"] for epoch in epochs]
    assert curve["test"] == [epoch["test_accuracy"] for epoch in epochs]
    assert curve["machine"] == f"{describe_processor()}, float32"


def test_a_config_has_the_tables_values_and_then_its_own():
    config = DIGITS.config("small_cnn", 1, changes=["epochs = 3", "optimiser.lr = 0.5"], widths=[4])
    assert (
        config.recipe.epochs == 3
        and config.recipe.batch == 50
        and config.recipe.optimiser.lr == 0.5
    )
    assert (
        config.model_options == {"widths": [4]}
        and config.data_options == {"train": 100}
        and config.seed == 1
    )
    assert DIGITS.changed_recipe().total_epochs == 2


def test_a_run_that_diverges_has_no_numbers_from_there_on(tmp_path: Path):
    config = DIGITS.config("small_cnn", 0, changes=["diverged_above = 1e-6"])
    curve = trained(tmp_path, {"a": [config]})["a, seed 0"]
    del curve["machine"]
    assert curve == {"loss": [None, None], "train": [None, None], "test": [None, None]}


def test_epochs_that_are_not_evaluated_have_no_test_accuracy(tmp_path: Path):
    seldom = TableTraining(
        "digits",
        "adam",
        ("epochs = 3", "batch = 50"),
        {"train": 100},
        {"widths": [4, 4]},
        evaluate_every=3,
    )
    curve = trained(tmp_path, {"a": [seldom.config("small_cnn", 0)]})["a, seed 0"]
    assert (
        curve["test"][:2] == [None, None]
        and curve["test"][2] is not None
        and None not in curve["loss"]
    )


def test_an_altered_network_is_the_one_that_is_trained(tmp_path: Path):
    def freeze(network: nn.Module) -> None:
        network.requires_grad_(False)
        list(network.parameters())[-1].requires_grad_(True)

    config = DIGITS.config("small_cnn", 0)
    table = {"free": [config], "frozen": [config]}
    found = trained(tmp_path, table, alter={"frozen": freeze})
    free, frozen = (found[f"{name}, seed 0"]["loss"] for name in ("free", "frozen"))
    # The first batches are the same and so are the weights there: frozen, the loss falls less.
    assert frozen[1] > free[1] and abs(frozen[0] / free[0] - 1) < 0.2


def test_cells_go_seed_by_seed():
    table = {name: [DIGITS.config("mlp", seed) for seed in (0, 1)] for name in ("a", "b")}
    names = [cell.name for cell in training_cells(table)]
    assert names == ["a, seed 0", "b, seed 0", "a, seed 1", "b, seed 1"]
    grouped = [cell.name for cell in training_cells(table, groups=[["a", "b"]], until=0.1)]
    assert grouped == ["a and 1 more, seed 0", "a and 1 more, seed 1"]


LONG = TableTraining(
    "digits",
    "adam",
    ("epochs = 20", "batch = 20", "optimiser.lr = 0.003", 'schedule.name = "constant"'),
    {"train": 100},
    evaluate_every=20,
)


def test_all_networks_of_a_group_are_trained_until_the_first_fits(tmp_path: Path):
    """The others end after as many epochs, and are then evaluated."""
    table = {
        "first": [LONG.config("mlp", 0)],
        "other": [LONG.config("mlp", 0, changes=["optimiser.lr = 1e-5"])],
    }
    found = trained(tmp_path, table, groups=[["first", "other"]], until=0.05)
    first, other = (found[f"{name}, seed 0"] for name in ("first", "other"))
    assert 1 < len(first["train"]) < 20
    assert first["train"][-1] > 0.95 >= max(first["train"][:-1])
    assert len(other["train"]) == len(first["train"]) and other["train"][-1] < 0.95
    assert first["test"][-1] is not None and other["test"][-1] is not None
    whole = trained(tmp_path / "whole", {"first": [LONG.config("mlp", 0)]})["first, seed 0"]
    assert whole["loss"][: len(first["loss"])] == first["loss"]
    assert len(curve_lines({"a": [first, whole]}, "loss")[0].x) == 20


def test_a_shortened_run_has_the_epochs_of_the_longer_one(tmp_path: Path):
    steps = ("epochs = 3", "batch = 50", 'schedule.name = "step"', "schedule.at = [1, 2]")
    config = TableTraining("digits", "adam", steps, {"train": 100}).config("mlp", 0)
    for epochs, left in ((1, []), (2, [1]), (3, [1, 2])):
        short = shortened(config, epochs)
        assert short.recipe.schedule.at == left and short.recipe.total_epochs == epochs
        train(short, tmp_path / str(epochs))
    losses = [each["train_loss"] for each in records(tmp_path / "3")]
    for epochs in (1, 2):
        assert [each["train_loss"] for each in records(tmp_path / str(epochs))] == losses[:epochs]
    with pytest.raises(ArgumentError, match="cannot be shortened"):
        shortened(DIGITS.config("mlp", 0), 1)


def test_lines_are_means_over_seeds():
    curves = [{"loss": [1.0, 3.0]}, {"loss": [2.0, None]}]
    (drawn,) = curve_lines({"a": curves}, "loss")
    assert drawn == Line("a", [1, 2], [1.5, 3.0], [pytest.approx(0.5**0.5), 0.0])


VALUES = {
    "a": [0.50, 0.52, 0.51, 0.53],
    "b": [0.40, 0.43, 0.41, 0.42],
    "c": [0.10, 0.11, 0.12, 0.14],
    "like a": [0.51, 0.50, 0.53, 0.52],
}


def verdict(*arguments: Any, **options: Any) -> str:
    return judge("said", VALUES, *arguments, **options).verdict.value


def test_every_one_must_be_shown_better_than_every_other():
    assert verdict(["a"], ["b", "c"]) == "supported"
    assert verdict(["b"], ["a"]) == "contradicted"
    assert verdict(["a", "c"], ["b"]) == "contradicted"  # each of them
    assert verdict(["a"], ["like a", "c"]) == "undecided"
    assert verdict(["c"], ["a", "b"], lower=True) == "supported"


def test_the_interval_is_that_of_the_paired_differences():
    claim = judge("said", VALUES, ["a"], ["b"])
    (compared,) = claim.compared
    gaps = [10.0, 9.0, 10.0, 11.0]
    half = 3.182446 * standard_deviation(gaps) / 2  # t of 3 degrees of freedom, two-sided 95 %
    assert compared.n == 4 and compared.difference == pytest.approx(0.1)
    assert compared.interval == pytest.approx(((10 - half) / 100, (10 + half) / 100), rel=1e-5)
    assert "+10.00 [+8.70, +11.30], n = 4" in claim.evidence


def test_few_or_diverged_seeds_test_nothing():
    claim = judge("", {"a": [0.5, None, 0.7], "b": [0.4, 0.5, 0.5]}, ["a"], ["b"])
    assert claim.verdict.value == "not tested" and "three seeds" in claim.reason


def test_counts_are_equal_or_contradicted_and_an_unsure_test_decides_nothing():
    assert counted("", True, "").verdict.value == "supported"
    assert counted("", False, "").verdict.value == "contradicted"
    assert judged_by_p("", True, 0.2, 0.05, "").verdict.value == "undecided"
    assert judged_by_p("", False, 0.01, 0.05, "").verdict.value == "contradicted"
