"""Claims about underfitted networks are not tested, and pages show how well they are trained."""

from dataclasses import replace
from pathlib import Path

from gatewise_papers.all_experiments import experiments
from gatewise_papers.common import (
    Findings,
    Judgement,
    Level,
    all_comparable,
    all_lower,
    claims_part,
    counted,
    held_to_levels,
    not_tested,
    row,
)
from gatewise_papers.crelu.experiments.shared import published
from loops import for_each

from gatewise.files import write_json

ERROR = "CIFAR-10, ReLU: train error, %"
ACCURACY = "test accuracy, ReLU"
EXACT = counted("a count", False, "2 and 3")
LOWER = all_lower("ours is lower", {"pair": ([1.0, 1.1, 1.0, 0.9], [2.0, 2.1, 1.9, 2.0])})
OTHER = not_tested("needs more data", "there is none")


def findings(train_error: float | None) -> Findings:
    rows = [row(ERROR, [train_error] * 4), row(ACCURACY, [0.5, 0.6, 0.5, 0.4])]
    return Findings([], rows, [EXACT, LOWER, OTHER])


def verdicts(held: Findings) -> list[str]:
    return [claim.verdict.value for claim in held.claims]


def test_a_missed_level_leaves_the_claims_about_networks_untested_and_says_what_was_reached():
    assert LOWER.verdict is Judgement.SUPPORTED
    level = Level(ERROR, 1.09, at_most=5.0)
    held = held_to_levels([level], findings(32.25))
    assert verdicts(held) == ["contradicted", "not tested", "not tested"]
    _, lower, other = held.claims
    assert lower.compared == LOWER.compared  # the measured differences are kept
    assert lower.reason == (
        "the networks are underfitted: CIFAR-10, ReLU: train error 32.2 % (paper 1.09 %), "
        "asked for at most 5 %"
    )
    assert other.reason == "there is none"
    assert held_to_levels([level], held).claims == held.claims


@for_each(("value", "is_reached"), [(4.99, True), (5.0, True), (5.01, False)])
def test_the_limit_itself_is_reached(value: float, is_reached: bool):
    held = held_to_levels([Level(ERROR, at_most=5.0)], findings(value))
    assert held.levels[0].is_reached is is_reached
    assert verdicts(held)[1] == ("supported" if is_reached else "not tested")


def test_networks_that_all_diverged_reach_no_level():
    assert verdicts(held_to_levels([Level(ERROR, at_most=5.0)], findings(None)))[1] == "not tested"
    assert verdicts(held_to_levels([Level(ERROR)], findings(None)))[1] == "supported"


def test_a_level_decides_the_claims_that_it_names():
    low = Level(ACCURACY, 0.985, at_least=0.95, claims=("ours is",))
    assert verdicts(held_to_levels([low], findings(1.0)))[1] == "not tested"
    elsewhere = replace(low, claims=("another",))
    held = held_to_levels([elsewhere], findings(1.0))
    assert verdicts(held)[1] == "supported" and not held.levels[0].is_reached


def test_a_level_of_another_data_set_is_left_out():
    held = held_to_levels([Level("CIFAR-100, ReLU: train error, %", at_most=5.0)], findings(1.0))
    assert not held.levels and verdicts(held)[1] == "supported"


def test_the_page_shows_ours_and_the_papers_and_counts_exact_results_apart(tmp_path: Path):
    held = held_to_levels(
        [Level(ERROR, 1.09, at_most=5.0), Level(ACCURACY, claims=("ours",))], findings(32.25)
    )
    claims = []
    for claim in held.claims:
        claims.append(vars(claim) | {"verdict": claim.verdict.value, "compared": []})
    content = {
        "experiment": "crelu/table1",
        "scale": "desk",
        "reduced": "",
        "findings": {"claims": claims, "levels": [vars(level) for level in held.levels]},
    }
    (tmp_path / "crelu/table1").mkdir(parents=True)
    write_json(tmp_path / "crelu/table1/results.json", content)
    page = claims_part(tmp_path, ["crelu/table1", "crelu/table2"])
    level = "CIFAR-10, ReLU: train error 32.2 % (paper 1.09 %)"
    assert f"| ours is lower | not tested | {level}; {ACCURACY} 50 % (paper -) |" in page
    assert "| a count | contradicted | - |" in page
    assert "theorems): 1. 0 hold as printed, 1 are misprints or errors of the paper" in page
    assert "times): 2. 0 supported, 0 contradicted, 0 undecided, 2 not tested." in page
    assert "Without a record of all seeds: `crelu/table2`." in page


def test_every_experiment_that_trains_networks_of_a_paper_has_a_level():
    for name, experiment in experiments().items():
        if experiment.trainings is not None or experiment.comparison is not None:
            assert experiment.levels, name


def test_several_pairs_contradict_at_the_level_of_them_all():
    """One pair of ten is outside the margin at 0.05, and not at 0.05 / 10."""
    outside = ([0.98, 1.0, 1.01, 0.97, 1.02], [0.97 - 0.022] * 5)
    inside = ([0.5, 0.51, 0.49, 0.5, 0.5], [0.5] * 5)
    alone = all_comparable({"one": outside}, 0.02)
    assert alone.judgement is Judgement.CONTRADICTED
    pairs = {"one": outside, **{f"other {n}": inside for n in range(9)}}
    assert all_comparable(pairs, 0.02).judgement is Judgement.UNDECIDED


def test_the_levels_of_table_1_are_the_papers():
    levels = {level.row: level for level in experiments()["crelu/table1"].levels}
    printed = published.TABLE1["cifar10", "ReLU"]
    assert levels[ERROR].published == printed["train"] == 1.09
    assert levels["CIFAR-10, ReLU: test error, %"].published == printed["test"] == 9.17
