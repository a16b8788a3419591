"""Verdicts on networks that were trained for few epochs say so."""

from dataclasses import replace
from pathlib import Path

import pytest

from gatewise.files import read_json, write_json
from gatewise.papers import experiments
from gatewise.papers.common import generated_part
from gatewise.papers.common.records import verdict_words
from gatewise.papers.deep_gated import figure5
from gatewise.stats import Judgement

RECORD = "deep_gated/figure5/results.json"


@pytest.mark.parametrize(
    ("name", "is_short"),
    [
        ("crelu/table1", True),  # 350 epochs in the paper
        ("deep_gated/figure5", True),  # a loop of its own
        ("psc/cifar10", True),  # not in the paper
        ("deep_gated/figure8", False),
        ("deep_gated/figure3", False),  # counts steps, as many as in the paper
        ("crelu/table5", False),  # trains nothing
    ],
)
def test_training_is_short_if_the_paper_has_more_epochs(name: str, is_short: bool, tmp_path: Path):
    experiment = experiments()[name]
    assert experiment.is_short("desk", tmp_path) == is_short
    if "full" in experiment.scales:
        assert not experiment.is_short("full", tmp_path)


def test_networks_of_another_experiment_are_as_short_as_that_one(tmp_path: Path):
    figure4 = experiments()["crelu/figure4"]
    (tmp_path / "crelu/table1").mkdir(parents=True)
    for is_short in (True, False):
        write_json(tmp_path / "crelu/table1/results.json", {"short_training": is_short})
        assert figure4.is_short("desk", tmp_path) == is_short


@pytest.mark.data
def test_the_record_and_the_page_say_so(tmp_path: Path):
    small = replace(figure5.EXPERIMENT.scales["tiny"], epochs=1)
    whole = replace(small, epochs=2)
    scales = {"desk": small, "full": whole}
    replace(figure5.EXPERIMENT, scales=scales).run("desk", 3, tmp_path)
    record = read_json(tmp_path / RECORD)
    assert record["short_training"] is True
    claims = record["findings"]["claims"]
    claims[0]["verdict"], claims[1]["verdict"] = "supported", "undecided"
    write_json(tmp_path / RECORD, record)
    page = generated_part(tmp_path)
    assert "| supported, in short training |" in page and "| undecided |" in page
    write_json(tmp_path / RECORD, record | {"short_training": False})
    assert "in short training |" not in generated_part(tmp_path)


@pytest.mark.parametrize(
    ("verdict", "is_trained", "is_short", "words"),
    [
        ("supported", True, True, "supported, in short training"),
        ("contradicted", True, True, "contradicted, in short training"),
        ("supported", True, False, "supported"),
        ("supported", False, True, "supported"),  # a count
        ("undecided", True, True, "undecided"),
        ("not tested", True, True, "not tested"),
    ],
)
def test_a_verdict_that_training_decided_says_so(verdict, is_trained, is_short, words):
    assert verdict_words(Judgement(verdict), is_trained, is_short) == words


@pytest.mark.data
def test_the_terminal_says_so(tmp_path: Path):
    small = replace(figure5.EXPERIMENT.scales["tiny"], epochs=1)
    scales = {"desk": small, "full": replace(small, epochs=2)}
    result = replace(figure5.EXPERIMENT, scales=scales).run("desk", 3, tmp_path)
    claim = replace(result.findings.claims[0], verdict=Judgement.SUPPORTED)
    assert result.verdict_of(claim) == "supported, in short training"


def test_the_network_with_the_fewest_epochs_decides():
    table1 = experiments()["crelu/table1"]
    trainings = table1.trainings

    def mixed(settings, seeds):
        table = dict(trainings(settings, seeds))
        first, *_ = table
        epochs = {"full": 1, "desk": 10**6}["desk" if settings.epochs else "full"]
        config = table[first][0]
        recipe = config.recipe.model_copy(update={"epochs": epochs})
        return table | {first: [config.model_copy(update={"recipe": recipe})]}

    changed = replace(table1, trainings=mixed)
    desk = table1.scales["desk"].epochs  # of all networks but the first
    assert changed._epochs("full") == 1 and changed._epochs("desk") == desk
