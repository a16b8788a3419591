"""The networks of a table are trained by :mod:`gatewise.train`, and claims follow their numbers."""

from pathlib import Path
from typing import Any

import pytest
from gatewise_papers.common import (
    Curves,
    Experiment,
    Findings,
    Line,
    Panel,
    Run,
    TableTraining,
    at_end,
    counted,
    curve_lines,
    judge,
    judged_by_p,
    train_all,
    train_once,
)
from torch import nn

from gatewise.stats import standard_deviation
from gatewise.train.run import records, train

DIGITS = TableTraining(
    "digits", "adam", ("epochs = 2", "batch = 50"), {"train": 100}, {"widths": [4, 4]}
)


def test_a_curve_has_the_numbers_of_the_run(tmp_path: Path):
    config = DIGITS.config("small_cnn", 3, "leaky_relu")
    train(config, tmp_path / "run")
    epochs = records(tmp_path / "run")
    curve = train_once(config)
    assert curve["loss"] == [epoch["train_loss"] for epoch in epochs] and len(epochs) == 2
    assert curve["train"] == [epoch["train_accuracy"] for epoch in epochs]
    assert curve["test"] == [epoch["test_accuracy"] for epoch in epochs]


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


def test_a_run_that_diverges_has_no_numbers_from_there_on():
    curve = train_once(DIGITS.config("small_cnn", 0, changes=["diverged_above = 1e-6"]))
    assert curve == {"loss": [None, None], "train": [None, None], "test": [None, None]}


def test_epochs_that_are_not_evaluated_have_no_test_accuracy():
    seldom = TableTraining(
        "digits",
        "adam",
        ("epochs = 3", "batch = 50"),
        {"train": 100},
        {"widths": [4, 4]},
        evaluate_every=3,
    )
    curve = train_once(seldom.config("small_cnn", 0))
    assert (
        curve["test"][:2] == [None, None]
        and curve["test"][2] is not None
        and None not in curve["loss"]
    )


def test_an_altered_network_is_the_one_that_is_trained(tmp_path: Path):
    def freeze(network: nn.Module) -> None:
        network.requires_grad_(False)
        list(network.parameters())[-1].requires_grad_(True)

    done: list[Curves] = []

    def measure(run: Run) -> Findings:
        configs = [DIGITS.config("small_cnn", seed) for seed in run.seeds]
        done.append(train_all(run, {"free": configs, "frozen": configs}, {"frozen": freeze}))
        return Findings([Panel("p", "x", "y", curve_lines(done[-1], "loss"))], [])

    Experiment("some/table", "t", {"cpu": DIGITS_SETTINGS}, measure, seeds=2).run(
        "cpu", out=tmp_path
    )
    (found,) = done
    assert [len(curves) for curves in found.values()] == [2, 2]
    for free, frozen in zip(found["free"], found["frozen"], strict=True):
        # The first batches are the same and so are the weights there: frozen, the loss falls less.
        assert (
            frozen["loss"][1] > free["loss"][1]
            and abs(frozen["loss"][0] / free["loss"][0] - 1) < 0.2
        )
    assert at_end(found, "loss")["free"] == [curve["loss"][-1] for curve in found["free"]]


class _Settings(TableTraining):
    reduced = "digits"


DIGITS_SETTINGS = _Settings("digits", "adam")


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
