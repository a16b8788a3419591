"""The networks of a table are trained by :mod:`gatewise.train`, and claims follow their numbers."""

from pathlib import Path

import pytest
from torch import nn

from gatewise.papers.common import (
    Curves,
    Experiment,
    Findings,
    Line,
    Panel,
    Run,
    TableTraining,
    at_end,
    curve_lines,
    judge,
    number,
    train_all,
    train_once,
)
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


VALUES = {"a": [0.5, 0.7], "b": [0.4, 0.5], "c": [0.1, 0.2]}


def test_the_better_one_must_be_above_the_best_of_the_others():
    claim = judge("said", VALUES, ["a"], ["b", "c"])
    assert claim.holds and claim.published == "said"
    assert claim.evidence == (
        "b is the best of the others: 45.00 ± 7.07; a 60.00 ± 14.14, by seed +15.00 ± 7.07"
    )
    assert not judge("said", VALUES, ["b"], ["a"]).holds
    assert not judge("said", VALUES, ["a", "c"], ["b"]).holds  # each of them


def test_lower_may_be_better():
    assert judge("said", VALUES, ["c"], ["a", "b"], lower=True).holds
    claim = judge("said", VALUES, ["b"], ["a", "c"], lower=True, show=number)
    assert not claim.holds and claim.evidence.startswith(
        "c is the best of the others: 0.15 ± 0.0707"
    )


def test_a_difference_below_its_spread_is_called_so_and_one_pair_shows_nothing():
    noisy = {"a": [0.5, 0.1], "b": [0.1, 0.4]}
    assert judge("", noisy, ["a"], ["b"]).evidence.endswith(
        "by seed +5.00 ± 49.50, less than the spread"
    )
    assert judge("", {"a": [0.5], "b": [0.4]}, ["a"], ["b"]).evidence.endswith(
        "(one pair shows nothing)"
    )


def test_seeds_that_diverged_are_left_out_of_pairs():
    claim = judge("", {"a": [0.5, None, 0.7], "b": [0.4, 0.5, 0.5]}, ["a"], ["b"])
    assert claim.holds and "+15.00 ± 7.07" in claim.evidence
