"""The answer that people see, made from header and records alone."""

import csv
import json
import math
import random
import time
from typing import Any

import numpy as np
import pytest
from report.made_study import (
    UNITS,
    made_header,
    made_record,
    made_result,
    made_study,
    made_value,
)

import gatewise as gw
from gatewise.errors import ArgumentError, DamagedFileError
from gatewise.report import comparison_page
from gatewise.stats import compare_runs
from gatewise.studies import ComparisonResult, comparison_csv


def verdicts(result: ComparisonResult) -> dict[str, str]:
    return {row.unit: row.verdict for row in result.rows()}


@pytest.fixture(scope="module")
def result() -> ComparisonResult:
    return made_result()


def test_rows_are_ordered_by_the_difference_with_one_line_each(result) -> None:
    rows = result.rows()
    differences = [row.difference for row in rows[1:]]
    assert rows[0].unit == "relu" and differences == sorted(differences, reverse=True)
    assert verdicts(result)["silu"] == "better" and verdicts(result)["tanh"] == "worse"
    assert verdicts(result)["relu_again"] == "undecided"
    lines = result.lines
    assert len(lines) <= 25
    for unit in UNITS:
        assert sum(line.split()[:1] == [unit] for line in lines) == 1
    assert all("\n" not in line for line in lines)


def test_differences_are_those_of_the_made_up_tops(result) -> None:
    for unit, difference in (("silu", 2.2), ("tanh", -2.2), ("relu_again", 0.0)):
        row = result[unit]
        assert row.low < difference / 100 < row.high
        assert row.difference == pytest.approx(difference / 100, abs=0.004)
    assert result["crelu"].peak_rate == pytest.approx(0.03 * 2**1.4, rel=0.2)
    low, high = result["silu"].plateau
    assert low < 0.03 * 2**0.5 < high


def test_the_line_of_a_unit_has_difference_interval_and_verdict() -> None:
    result = made_result()
    lines = {line.split()[0]: line for line in result.lines if line}
    assert lines["silu"].endswith("+2.17 [+1.33, +2.70]  < 0.001  better")
    assert lines["psc"].endswith("undecided (2.02x the parameters)")


def test_the_order_of_records_changes_nothing() -> None:
    header, records = made_study(5)
    mixed = records[:]
    random.Random(0).shuffle(mixed)  # noqa: S311
    one, other = ComparisonResult(header, records), ComparisonResult(header, mixed)
    assert one.to_dict()["answers"] == other.to_dict()["answers"]
    assert one.lines == other.lines


@pytest.mark.parametrize("rounds", [0, 1])
def test_a_study_that_has_not_ended_shows_curves_and_no_verdict(rounds: int) -> None:
    result = made_result(rounds=rounds)
    assert result.is_preliminary
    assert {row.verdict for row in result.rows()[1:]} == {"preliminary"}
    assert all(math.isnan(row.difference) and math.isnan(row.low) for row in result.rows())
    text = str(result)
    done = 120 * rounds
    total = 320 if rounds == 0 else len(made_study()[1])
    assert f"Preliminary, {done} of " in text and f"of {total} runs" in text
    assert not any(word in text for word in ("better", "worse", "undecided", "points"))
    assert all(len(row.curve) == 5 * rounds for row in result.rows())


def test_three_seeds_are_asked_for_first_and_seed_by_seed() -> None:
    result = ComparisonResult(made_header(), [])
    seeds = [seed for _, _, seed in result.missing("conv")]
    assert seeds == sorted(seeds) and set(seeds) == {0, 1, 2} and len(seeds) == 8 * 5 * 3
    with pytest.raises(ArgumentError, match="no such model"):
        result.missing("mlp")


def test_for_a_loss_everything_is_mirrored(result) -> None:
    header, records = made_study()
    header["metric"]["higher_is_better"] = False
    header["chance"] = 0.9
    for record in records:
        record["value"] = round(1 - record["value"], 4)
    mirrored = ComparisonResult(header, records)
    assert [row.unit for row in mirrored.rows()] == [row.unit for row in result.rows()]
    for row, other in zip(mirrored.rows(), result.rows(), strict=True):
        assert row.verdict == other.verdict
        ends = [row.difference, row.low, row.high]
        expected = [-other.difference, -other.high, -other.low]
        np.testing.assert_allclose(ends, expected, atol=1e-9)


def test_a_network_that_does_not_beat_the_best_constant_prediction_has_learned_nothing() -> None:
    def spoilt(bad: str):
        def value_of(unit: str, model: int, step: int, seed: int) -> float:
            if unit == bad:
                return round(0.1 - 0.001 * (seed % 3), 4)
            return made_value(unit, model, step, seed)

        return value_of

    result = made_result(value_of=spoilt("gelu"))
    assert verdicts(result)["gelu"] == "nothing was learned"
    assert verdicts(result)["silu"] == "better"
    result = made_result(value_of=spoilt("relu"))
    assert {row.verdict for row in result.rows()[1:]} == {"not decided"}
    assert "baseline: nothing was learned" in str(result)


def test_the_grid_s_edge_and_lost_runs_are_said() -> None:
    def rising(unit: str, model: int, step: int, seed: int) -> float:
        if unit == "gelu":
            return round(0.9 + 0.005 * step + 0.001 * (seed % 3), 4)
        return made_value(unit, model, step, seed)

    header = made_header(origin="table")
    places = [(unit, step, seed) for unit in UNITS for step in range(-4, 5, 2) for seed in range(8)]
    result = ComparisonResult(
        header, [made_record(header, "conv", *place, rising) for place in places]
    )
    assert result["gelu"].verdict == "not decided"
    assert result["gelu"].reason == "its best rate is outside the grid"
    header, records = made_study()
    place = next(
        place for place, one in enumerate(records) if (one["unit"], one["step"]) == ("silu", 4)
    )
    records[place].update(status="failed", value=None, error="its process died")
    result = ComparisonResult(header, records)
    assert "silu is judged without 0.12 (1 run missing)." in result.lines
    assert result["silu"].failed == 1 and result["silu"].verdict == "better"


def test_equivalence_and_a_margin_that_is_larger_than_the_difference() -> None:
    result = made_result(margin=0.05)
    assert result["relu_again"].verdict == "equivalent"
    assert "equivalent within 5 points" in str(result)
    assert result["silu"].verdict == "better" and "by less than the margin" in str(result)
    for row in result.rows()[1:]:
        inside = -0.05 < row.low and row.high < 0.05
        assert inside == (row.verdict == "equivalent" or row.reason == "by less than the margin")


def test_what_the_seeds_can_exclude_about_collapses() -> None:
    assert (
        "No run diverged or collapsed (8 runs per rate: the true share could still be up to 31 %)."
    ) in made_result().lines
    assert "(8 runs of each: the true share" in str(made_result(rates=1))
    assert "up to 45 %" in str(made_result(5))
    header, records = made_study()
    records[3].update(status="diverged", value=None)
    records[4].update(value=0.09)
    result = ComparisonResult(header, records)
    assert "Runs that diverged or collapsed" in str(result)
    assert sum(row.diverged for row in result.rows()) == 2


def test_a_single_rate_is_the_paired_t_and_says_so() -> None:
    header, records = made_study(rates=1)
    result = ComparisonResult(header, records)
    assert "at one learning rate" in result.lines[1] and "at most 5 %" in str(result)
    table: dict[str, dict[int, float]] = {}
    for record in records:
        table.setdefault(record["unit"], {})[record["seed"]] = record["value"]
    for row in compare_runs(table, "relu", resolution=1e-4).differences:
        assert (result[row.name].low, result[row.name].high) == pytest.approx(row.interval)
        assert result[row.name].verdict == row.verdict
        assert result[row.name].p == pytest.approx(row.p_corrected)


def failed_study(bad: str, seeds: int, **options: Any) -> ComparisonResult:
    """A study in which the first seeds of a unit fail."""
    header = made_header(6, **options)
    records: list[dict[str, Any]] = []
    while asked := ComparisonResult(header, records).missing("conv"):
        for unit, step, seed in asked:
            records.append(made_record(header, "conv", unit, step, seed))
            if unit == bad and seed < seeds:
                records[-1].update(status="failed", value=None, error="out of memory")
    return ComparisonResult(header, records)


@pytest.mark.parametrize("unit", ["relu", "silu"])
def test_a_unit_whose_runs_all_failed_is_not_decided(unit: str) -> None:
    result = failed_study(unit, 6)
    assert result["silu"].verdict == "not decided"
    assert result["silu"].reason == "fewer than three learning rates with all seeds"
    assert result["elu"].verdict == ("not decided" if unit == "relu" else "better")
    assert len(result.lines) > 10 and "out of memory" in comparison_page(result)


def test_a_failed_run_at_a_single_rate_leaves_the_other_pairs() -> None:
    result = failed_study("silu", 1, rates=1)
    assert (result["silu"].runs, result["elu"].runs) == (5, 6)
    assert result["silu"].verdict == "better"


@pytest.mark.parametrize("seeds", [1, 2])
def test_fewer_than_three_seeds_have_no_verdict(seeds: int) -> None:
    result = made_result(seeds, rates=1)
    assert not result.is_preliminary
    assert {row.verdict for row in result.rows()[1:]} == {"not decided"}
    assert "fewer than three seeds" in str(result)


def test_digits_come_from_the_spread() -> None:
    assert made_result().display.digits == 2
    header, records = made_study()
    header["metric"] = {"name": "loss", "higher_is_better": False}
    header["chance"] = None
    for record in records:
        record["value"] = 1000 * (1 - record["value"])
    assert ComparisonResult(header, records).display.digits == 1


def test_several_models_have_verdicts_of_their_own() -> None:
    result = made_result(models=("conv", "mlp"))
    assert list(result.answers) == ["conv", "mlp"]
    assert result.answer("mlp")["silu"].verdict == "better"
    with pytest.raises(ArgumentError, match="no such model"):
        result.rows()
    assert "per network" in str(result) and len(result.lines) <= 25


def test_no_model_has_verdicts_before_the_runs_of_all_have_ended() -> None:
    header, records = made_study(models=("conv", "mlp"))
    left_out = next(record for record in records if record["model"] == "conv")
    result = ComparisonResult(header, [record for record in records if record is not left_out])
    verdicts = {row.verdict for answer in result.answers.values() for row in answer.units}
    assert result.is_preliminary and verdicts == {"preliminary"}


def test_notes_name_the_model_where_there_are_several() -> None:
    header, records = made_study(3, models=("conv", "mlp"), units=("relu", "gelu"))
    for record in records:
        if record["model"] == "mlp" and record["unit"] == "gelu" and record["seed"] == 0:
            record["value"] = 0.05
    text = str(ComparisonResult(header, records))
    assert "runs of gelu in mlp" in text and "of gelu in conv" not in text


def test_plain_values_are_json_and_csv_has_every_row(result) -> None:
    plain = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    again = ComparisonResult(plain["header"], plain["records"])
    assert again.lines == result.lines == plain["text"]
    rows = list(csv.DictReader(comparison_csv(result).splitlines()))
    assert [row["unit"] for row in rows] == [row.unit for row in result.rows()]
    assert float(rows[1]["low"]) == result.rows()[1].low


# ------------------------------------------------------------------------------ strange, and large


WRONG: list[Any] = [
    None,
    "",
    "x",
    -1,
    0,
    1.5,
    float("nan"),
    float("inf"),
    1e308,
    [],
    {},
    [[]],
    True,
]


def test_a_strange_header_or_record_is_refused_in_words() -> None:
    """Every field with every wrong value: the result is made and shown, or refused as damaged."""
    header, records = made_study(3, units=("relu", "gelu"), rates=4)
    refused = 0
    tried = 0
    for name in header:
        for value in WRONG:
            tried += 1
            refused += is_refused({**header, name: value}, records)
    for part in ("metric", "rates"):
        for name in header[part]:
            for value in WRONG:
                tried += 1
                refused += is_refused({**header, part: {**header[part], name: value}}, records)
    for name in records[0]:
        for value in WRONG:
            tried += 1
            refused += is_refused(header, [{**records[0], name: value}, *records[1:]])
    assert refused > tried / 2 and tried - refused > 20


def is_refused(header: Any, records: Any) -> bool:
    try:
        result = ComparisonResult(header, records)
        assert result.lines and result.to_dict()
    except DamagedFileError as problem:
        assert "\n" not in str(problem) and len(str(problem)) < 500
        return True
    return False


def test_what_is_no_study_is_refused() -> None:
    header, records = made_study(3, units=("relu", "gelu"), rates=4)
    twice = [*records, records[0]]
    stranger = [*records, {**records[0], "unit": "swish"}]
    for wrong in (({}, []), ([], []), (header, twice), (header, stranger), (header, [1])):
        with pytest.raises(DamagedFileError):
            ComparisonResult(*wrong)  # type: ignore[arg-type]


def test_ten_thousand_records_take_less_than_30_seconds() -> None:
    header = made_header(74)
    records = [
        made_record(header, "conv", unit, step, seed)
        for unit in UNITS
        for step in range(-8, 9)
        for seed in range(74)
    ]
    begin = time.process_time()
    result = ComparisonResult(header, [*records])
    assert result.lines and len(records) == 10_064 and not result.is_preliminary
    assert time.process_time() - begin < 20


def test_a_row_says_how_many_pairs_its_interval_is_left_with() -> None:
    values = {"relu": (0.36, 0.34, 0.54), "gelu": (0.36, 0.37, 0.52)}

    def value_of(unit: str, model: int, step: int, seed: int) -> float:
        return values[unit][seed]

    options = {"units": ("relu", "gelu"), "rates": 1, "chance": 0.4, "value_of": value_of}
    result = made_result(3, **options)
    said = "1 of 3 pairs left; interval from the worst case"
    assert result["gelu"].reason == said and said in str(result)
    assert "pairs left" not in str(made_result(3, **options | {"chance": 0.1}))


def test_a_table_with_diverged_runs_says_how_many_pairs_are_left() -> None:
    table = {"method": ["relu"] * 4 + ["gelu"] * 4, "seed": [0, 1, 2, 3] * 2}
    table["accuracy"] = [0.8, 0.81, 0.82, 0.8, 0.85, math.nan, 0.84, 0.86]
    row = gw.compare_records(table)["gelu"]
    assert row.reason.endswith("3 of 4 pairs left; interval from the worst case")
    table["accuracy"][5] = 0.9
    assert "pairs left" not in gw.compare_records(table)["gelu"].reason


def test_the_first_line_says_for_how_long_units_were_trained() -> None:
    settings = {"recipe": {"epochs": 14}}
    shown = made_result(settings=settings).lines[1]
    assert shown.startswith("Every unit was trained for 14 epochs at the same 5 learning rates (")
    one = made_result(3, rates=1, settings=settings).lines[1]
    assert one.startswith("Every unit was trained for 14 epochs at one learning rate (")
    assert made_result(3, settings={}).lines[1].startswith("Every unit was trained at the same")


def test_a_single_rate_has_no_column_of_best_rates() -> None:
    assert "best rate" in made_result(3).lines[4]
    assert not any("best rate" in line for line in made_result(3, rates=1).lines)
