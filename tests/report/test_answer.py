"""The answer of a comparison is the same on the terminal, in JSON and on the page."""

import base64
import copy
import json
import math
import random
import re

import hypothesis
import numpy as np
import pytest
from gatewise.report.comparison.figures import cost_charts, forests, pooled_forests
from gatewise.report.comparison.findings import read_findings
from gatewise.report.comparison.rate_figures import rate_items
from hypothesis import strategies as st
from report.made_study import (
    BACKBONES,
    GRID,
    PEAKS,
    UNITS,
    cell,
    made_study,
    made_tuned_study,
    write_study,
)
from report.parsed import number, parse, rows

from gatewise.report.charts import colour_of, lay_out, picture_file
from gatewise.report.comparison import comparison_page
from gatewise.report.comparison.tables import paired_table, rank_table
from gatewise.stats import compare_runs
from gatewise.studies import StudyResult, plain_text, read_study
from gatewise.words import MINUS, rate, signed


def result_of(plain: dict) -> StudyResult:
    return read_findings(plain).result


def with_values(plain: dict, value, metric: str = "test_accuracy") -> dict:
    for record in plain["records"]:
        found = value(record["unit"], record["backbone"], record["seed"])
        if found is None:
            record |= {"status": "failed", "metrics": None, "reason": "x"}
        elif math.isnan(found):
            record |= {"status": "diverged", "metrics": None, "reason": "x"}
        else:
            record["metrics"] = {metric: found}
    return plain | {"metric": metric}


# ---- one interval decides


@st.composite
def studies(draw) -> dict:
    """Any number of units and seeds, effects of any size, ties, lost and diverged runs."""
    units = UNITS[: draw(st.integers(2, 4))]
    seeds = draw(st.integers(1, 8))
    chance = random.Random(draw(st.integers(0, 10**6)))  # noqa: S311
    steps = draw(st.sampled_from([10, 1497, 10**6]))
    size = draw(st.sampled_from([0.0, 0.001, 0.01, 0.2]))
    noise = draw(st.sampled_from([0.0, 0.001, 0.02]))
    lost = draw(st.sampled_from([0.0, 0.1, 0.5]))
    metric = draw(st.sampled_from(["test_accuracy", "test_loss", "perplexity"]))
    effects = {unit: chance.gauss(0, size) for unit in units}

    def value(unit: str, _backbone: str, _seed: int) -> float | None:
        if chance.random() < lost:
            return chance.choice([math.nan, None])
        exact = 0.5 + effects[unit] + chance.gauss(0, noise)
        return min(1.0, max(0.0, round(exact * steps) / steps))

    plain = with_values(made_study(seeds, units=units, troubles=False), value, metric)
    if draw(st.booleans()):
        plain["margin"] = draw(st.sampled_from([0.001, 0.05]))
    return plain


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(studies())
def test_verdict_colour_p_and_bar_never_contradict_each_other(plain):
    findings = read_findings(plain)
    higher = findings.display.higher_is_better
    drawn = {forest.title: lay_out(forest) for forest in forests(findings)}
    for block in findings.blocks:
        table = paired_table(findings, block)
        shown = {row[0]: row for row in table.rows} if table else {}
        bars = {row.interval.name: row for row in drawn[block.name].rows} if table else {}
        for difference in block.compared:
            low, high = difference.interval
            bar = bars[difference.name]
            cells = dict(zip(table.columns, shown[difference.name], strict=True))
            outside = low > 0 or high < 0
            coloured = bar.colour != "flat"
            assert coloured == outside == (difference.p_corrected <= 0.05)
            assert coloured == (difference.verdict in ("better", "worse"))
            assert coloured == bool(cells["verdict"].look) == bool(cells["difference"].look)
            if coloured:
                good = (low > 0) == higher
                assert bar.colour == cells["verdict"].look == ("up" if good else "down")
                assert difference.verdict == ("better" if good else "worse")
            assert (bar.bar != "") == ("[" in bar.figures) == math.isfinite(low)
            ends = bar.figures.partition("[")[2].rstrip("]").split(", ")
            for end, text in zip((low, high), ends if bar.bar else (), strict=False):
                assert (float(text.replace(MINUS, "-")) == 0) == (end == 0)
        for chart in cost_charts(findings, block):
            for series in () if isinstance(chart, str) else chart.series[1:]:
                for ends in series.band:
                    assert colour_of(ends, higher_is_better=higher) == series.colour


def test_the_property_sees_a_colour_that_is_not_of_the_ends(monkeypatch):
    """The control."""
    from gatewise.report.charts import forest_layout

    check = test_verdict_colour_p_and_bar_never_contradict_each_other.hypothesis.inner_test
    check(made_study(4))
    monkeypatch.setattr(forest_layout, "colour_of", lambda *_, **__: "up")
    with pytest.raises(AssertionError):
        check(made_study(4))


@pytest.mark.parametrize("value", [0.0, 1e-12, -3e-7, 0.0004, -0.004, 0.0049, 0.005, 5.0, math.nan])
def test_only_zero_reads_as_zero(value):
    text = signed(value, 2, exact_zero=True)
    if math.isnan(value):
        assert text == ""
    else:
        assert (float(text.replace(MINUS, "-")) == 0) == (value == 0)
        assert value <= 0 or text.startswith("+")


def test_the_level_is_of_the_family_and_said():
    page = parse(comparison_page(made_study(5, troubles=False)))
    captions = [figure.one("figcaption").text for figure in page.all("figure", "forest")]
    assert all("99.3 % each, 95 % for all 7" in caption for caption in captions)
    assert "difference [99.3 %]" in page.one("figure", "forest").one("thead").text
    assert "at most 5 % for each of 2 blocks" in page.text
    hidden = [th.text for th in page.all("th") if "hidden" in th.attributes]
    assert sum("95 % alone" in text for text in hidden) == 4  # in both tables, for CSV only
    shown = [node.text for node in page.all("th") if "hidden" not in node.attributes]
    assert not any("alone" in text for text in shown)


# ---- the headline


def outlets(plain: dict) -> tuple[str, str, str]:
    """The first line of the answer on the terminal, in JSON and on the page."""
    result = result_of(plain)
    content = json.loads(json.dumps(result.to_dict()))
    assert content["answer"][0] == content["headline"]
    page = parse(comparison_page(plain))
    return str(result).splitlines()[2], content["headline"], page.one("div", "answer").one("p").text


NOT_TUNED = (
    "Not tuned: every unit was trained with learning rate 3e-3. "
    "At other rates the order can differ."
)


def test_not_tuned_is_the_headline_everywhere():
    plain = made_study(3, units=UNITS[:2])
    assert set(outlets(plain)) == {NOT_TUNED}
    untuned = plain | {"tuning": {"mode": "none", "why": "", "groups": []}}
    assert set(outlets(untuned)) == {NOT_TUNED}
    why = "the loader has neither validation data nor folds"
    reason = plain | {"tuning": {"mode": "none", "why": why, "groups": []}}
    assert set(outlets(reason)) == {NOT_TUNED.replace("Not tuned:", f"Not tuned ({why}):")}


def test_tuned_is_said_in_one_sentence_everywhere():
    [said] = set(outlets(made_tuned_study(4)))
    assert said.startswith("Tuned: for each unit, the best of 5 learning rates (1e-3 to 0.1)")
    assert "17 runs that the comparison does not use" in said


def test_runs_made_elsewhere_are_not_called_tuned_or_untuned():
    [said] = set(outlets(made_study(3, units=UNITS[:2]) | {"origin": "recorder"}))
    assert said.startswith("Not known whether the learning rates were tuned")


def answers(plain: dict) -> set[str]:
    """The whole answer on the terminal, in JSON and on the page."""
    result = result_of(plain)
    page = parse(comparison_page(plain)).one("div", "answer")
    return {str(result), "\n".join(result.to_dict()["answer"]), page.text}


def test_a_rate_at_the_end_of_the_grid_is_said_everywhere():
    plain = made_tuned_study(4)
    assert not any("At the end of the rates" in text for text in answers(plain))
    plain["tuning"]["groups"][1]["at_the_edge"] = True
    unit, lr = (plain["tuning"]["groups"][1][name] for name in ("unit", "lr"))
    for text in answers(plain):
        assert f"At the end of the rates: {unit} ({rate(lr)}). The chosen rate is the" in text


def test_batches_that_are_not_paired_are_said_and_not_called_equal():
    plain = made_study(3, units=UNITS[:2])
    equal = "batches and their order"
    assert equal in parse(comparison_page(plain)).text
    plain["batches"] = {"paired": False, "why": "the sampler cannot be seeded"}
    for text in answers(plain):
        assert "Batches are not paired: the sampler cannot be seeded." in text
    page = parse(comparison_page(plain)).text
    assert equal not in page and "Not equal, batches: the sampler cannot be seeded." in page


def test_a_rate_reads_as_people_type_it():
    assert [rate(value) for value in (3e-3, 0.01, 0.1, 1.0, 10**-2.5)] == [
        "3e-3",
        "1e-2",
        "0.1",
        "1",
        "3.2e-3",
    ]


# ---- tuned studies


def test_a_tuned_verdict_needs_the_neighbours():
    plain = made_tuned_study()
    comparison = result_of(plain).compare()
    assert comparison["swish"].verdict == "better" and comparison["psc"].verdict == "worse"
    assert comparison["crelu"].reason == "depends on the learning rate"
    without = [each for each in plain["cells"] if each["role"] == "final"]
    page = parse(comparison_page(plain | {"cells": without}))
    assert "Undecided (not confirmed at the neighbouring learning rates): " in page.text
    assert not page.one("div", "answer").all("b", "up")
    row = next(row for row in page.all("tr") if row.all("th") and row.one("th").text == "swish")
    assert "c-flat" in row.classes and not row.all("path", "interval")


def test_the_interval_spans_the_rates_that_were_run():
    plain = made_tuned_study()
    result = result_of(plain)
    [block] = result.blocks
    values = result.rate_values(block)
    chosen = {unit: GRID[place] for unit, (_, _, place) in PEAKS.items()}
    assert result.chosen_rates(block) == chosen
    lows = []
    for base in values["relu"].values():
        runs = {"relu": base, "swish": values["swish"][chosen["swish"]]}
        lows.append(compare_runs(runs, "relu", comparisons=4, resolution=1 / 1497)["swish"])
    assert result.compare()["swish"].interval[0] == min(each.interval[0] for each in lows)


def test_the_chart_over_the_rate_draws_all_runs_and_says_which():
    plain = made_tuned_study()
    page = parse(comparison_page(plain))
    section = next(s for s in page.all("section") if s.all("h2") and "rate" in s.one("h2").text)
    about = section.one("p", "panels-about").text
    assert "tuning runs on held-out training examples" in about and "neighbouring rates" in about
    figures = {f.one("figcaption").one("b").text: f for f in section.all("figure", "plot")}
    assert set(figures) == set(PEAKS)
    [tested] = figures["relu"].all("g", "dots")
    dots = tested.all("path", "dot")
    assert len(dots) == 3  # chosen and both neighbours
    drawn = {dot.text.split(":")[0]: dot.text for dot in dots}
    for place in (2, 3, 4):
        values = result_of(plain).rate_values(result_of(plain).blocks[0])["relu"][GRID[place]]
        assert f"{100 * np.mean(list(values.values())):.2f}" in drawn[rate(GRID[place])]
    assert figures["swish"].all("g", "c-up") and figures["psc"].all("g", "c-down")
    table = rows(section.one("table"))
    by_unit = {row["unit"].text: row for row in table}
    assert by_unit["relu"]["best"].text == f"1e{MINUS}2"
    assert by_unit["relu"]["good rates"].text == f"3.2e{MINUS}3 to 3.2e{MINUS}2"
    assert number(by_unit["relu"]["decades"].text) == 1.0
    assert "better" in by_unit["swish"][f"at 3.2e{MINUS}2"].text
    assert by_unit["swish"]["at 0.1"].text == "(93.10)"  # only tuning runs


@pytest.mark.parametrize("left", [0, 1, 3])
def test_rates_at_which_runs_diverged_are_in_the_table(left):
    """Of the units that still have a result, and of none."""
    plain = made_tuned_study(3)
    plain["tuning"] = {**plain["tuning"], "groups": []}
    alive = list(PEAKS)[:left]
    for record in plain["records"]:
        if record["unit"] not in alive:
            record |= {"status": "diverged", "metrics": None}
    page = parse(comparison_page(plain))
    assert "3 diverged" in page.text
    assert "psc 9" in page.one("div", "answer").text


def test_the_same_charts_are_image_files():
    [panels, _] = rate_items(read_findings(made_tuned_study(3)))
    assert picture_file(panels, "svg").startswith(b"<?xml")


def test_recipes_that_differ_in_the_rate_alone_are_drawn_over_it():
    """The verdict of swish reverses from one rate to the other."""
    chance = random.Random(0)  # noqa: S311
    one = made_study(4, units=("relu", "swish"), troubles=False)
    cells, records = [], []
    for place, value in enumerate((0.003, 0.03)):
        for planned in one["cells"]:
            if planned["backbone"] == BACKBONES[0]:
                copied = copy.deepcopy(planned)
                copied |= {"key": f"{place}{planned['key']}", "recipe": f"recipe {place}"}
                copied["config"]["recipe"]["optimiser"]["lr"] = value
                cells.append(copied)
                gap = (0.02 if place else -0.02) * (planned["unit"] == "swish")
                metrics = {"test_accuracy": 0.9 + gap + chance.gauss(0, 0.001)}
                records.append({**copied, "status": "finished", "metrics": metrics})
    plain = one | {"cells": cells, "records": records}
    page = parse(comparison_page(plain))
    assert "with the same learning rate (3e-3 and 3e-2)" in page.one("div", "answer").text
    section = next(s for s in page.all("section") if s.all("h2") and "rate" in s.one("h2").text)
    [swish] = [f for f in section.all("figure", "plot") if "swish" in f.one("figcaption").text]
    assert len(swish.all("g", "c-up")) == len(swish.all("g", "c-down")) == 1
    assert "swish in conv 16-32-32: best learning rate 3e-2" in str(result_of(plain))


def test_one_rate_has_no_chart_over_it():
    assert "Over the learning rate" not in comparison_page(made_study(3, units=UNITS[:2]))


# ---- new images


def test_whether_it_holds_for_new_images_is_said():
    page = parse(comparison_page(made_tuned_study()))
    assert "swish +2.07 is better than relu. This also holds for new images." in page.text
    [table] = [t for t in page.all("table") if "on new examples" in t.text]
    by_unit = {row["unit"].text: row for row in rows(table)}
    assert by_unit["swish"]["on new examples"].text == "the same"
    assert by_unit["leaky_relu"]["on new examples"].text == ""
    without = copy.deepcopy(made_tuned_study())
    for record in without["records"]:
        del record["correct"]
    assert "For new images: not known. " in parse(comparison_page(without)).text


def test_few_images_decide_for_these_images_only():
    """Three images that one unit always gets right and the other never."""
    plain = made_study(10, units=UNITS[:2], troubles=False)
    for record in plain["records"]:
        right = np.ones(60, dtype=bool)
        right[:3] = record["unit"] != "relu"
        if record["seed"] % 3 == 0:
            right[10] = False
        record["metrics"] = {"test_accuracy": float(right.mean())}
        packed = base64.b64encode(np.packbits(right).tobytes()).decode()
        record |= {"correct": packed, "examples": 60}
    said = parse(comparison_page(plain)).one("div", "answer").text
    assert "This holds for these test images; for new images it is undecided." in said


@pytest.mark.parametrize("correct", ["!!", "", "AAAA", 7, None])
def test_answers_by_image_that_cannot_be_read_are_not_known(correct):
    plain = made_tuned_study(3)
    for record in plain["records"]:
        record["correct"] = correct
    page = parse(comparison_page(plain))
    assert "not known" in page.one("div", "answer").text
    [table] = [t for t in page.all("table") if "on new examples" in t.text]
    assert {row["on new examples"].text for row in rows(table)} == {"", "not known"}


# ---- verdicts in words


def test_equivalence_needs_a_stated_margin():
    chance = random.Random(0)  # noqa: S311
    plain = with_values(
        made_study(10, units=UNITS[:3], troubles=False),
        lambda unit, *_: 0.9 + (0.004 if unit == "swish" else 0) + chance.gauss(0, 0.0005),
    )
    assert "equivalent" not in parse(comparison_page(plain)).one("div", "answer").text
    page = parse(comparison_page(plain | {"margin": 0.005}))
    said = page.one("div", "answer").text
    assert "leaky_relu" in said and "equivalent within 0.50 points of relu" in said
    assert "better, by less than the margin" in page.text


def test_undecided_says_what_would_have_been_found_and_the_seeds():
    chance = random.Random(0)  # noqa: S311
    plain = with_values(
        made_study(10, units=UNITS[:2], troubles=False), lambda *_: 0.9 + chance.gauss(0, 0.01)
    )
    result = result_of(plain)
    sentence = result.to_dict()["blocks"][0]["sentences"]["leaky_relu"]
    assert re.search(r"undecided; \d\.\d\d points would have been found", sentence)
    assert re.search(r"seeds for half of that: \d+ \(\d+ to be safe\)", sentence)
    for text in (comparison_page(plain), str(result), json.dumps(result.to_dict())):
        assert "no difference" not in text.lower() and "holm" not in text.lower()


def test_left_out_units_are_said_with_their_reason():
    left_out = [{"unit": "psc", "backbone": "mlp", "reason": "no width has as many parameters"}]
    plain = made_study(3, units=UNITS[:2]) | {"left_out": left_out}
    page = parse(comparison_page(plain))
    assert "Left out: psc in mlp: no width has as many parameters." in page.text
    assert "Left out: psc in mlp" in str(result_of(plain))


def test_diverged_runs_are_counted_as_results():
    chance = random.Random(0)  # noqa: S311

    def value(unit: str, _: str, seed: int) -> float:
        if unit == "swish" and seed == 0:
            return math.nan
        mean = {"relu": 0.9, "swish": 0.91, "crelu": 0.6}[unit]
        return mean + chance.gauss(0, 0.001)

    plain = with_values(made_study(6, units=("relu", "swish", "crelu"), troubles=False), value)
    page = parse(comparison_page(plain))
    said = page.one("div", "answer").text
    assert "Diverged runs: swish 2." in said
    assert "Undecided (depends on what a diverged run is worth): swish" in said
    assert "(1 diverged)" in str(result_of(plain))


# ---- several blocks


def blocks_study(count: int, part: str, seeds: int = 4) -> dict:
    """The same two units on several networks or data sets, with a clear difference."""
    chance = random.Random(0)  # noqa: S311
    one = made_study(seeds, units=("relu", "swish"), troubles=False)
    keep = [each for each in one["cells"] if each["backbone"] == BACKBONES[0]]
    cells, records = [], []
    for place in range(count):
        for planned in keep:
            name = {part: f"{part} {place}"}
            cells.append(planned | name | {"key": f"{place:03d}{planned['key']}"})
            value = 0.9 + 0.01 * (planned["unit"] == "swish") + chance.gauss(0, 0.001)
            metrics = {"test_accuracy": value}
            status = {"status": "finished", "reason": None, "metrics": metrics}
            records.append({**cells[-1], **status})
    return one | {"cells": cells, "records": records}


@pytest.mark.parametrize("count, titles", [(2, 0), (3, 1), (4, 1), (5, 2)])
def test_a_mean_over_blocks_needs_three_and_of_blocks_like_these_five(count, titles):
    findings = read_findings(blocks_study(count, "backbone"))
    drawn = list(pooled_forests(findings))
    assert [forest.title for forest in drawn] == [
        f"Mean over these {count} blocks",
        "Mean over blocks like these",
    ][:titles]
    for forest in drawn:
        [row] = lay_out(forest).rows
        assert row.colour == "up" and row.interval.value == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize(
    "count, part, shown", [(9, "data", 0), (10, "data", 1), (10, "backbone", 0)]
)
def test_ranks_need_ten_data_sets(count, part, shown):
    plain = blocks_study(count, part)
    assert (rank_table(read_findings(plain)) is not None) == bool(shown)
    assert ("mean rank over" in str(result_of(plain))) == bool(shown)


# ---- any metric


@pytest.mark.parametrize(
    "metric, mode, scale, words, better",
    [
        ("perplexity", None, 40.0, "perplexity minus relu", "down"),
        ("val_f1", None, 0.8, "val f1 minus relu, points", "up"),
        ("accuracy", None, 80.0, "accuracy minus relu", "up"),
        ("reward", "max", 1e-5, "reward minus relu", "up"),
        ("reward", "min", 1e5, "reward minus relu", "down"),
    ],
)
def test_any_metric_and_direction(metric, mode, scale, words, better):
    chance = random.Random(0)  # noqa: S311
    plain = with_values(
        made_study(6, units=("relu", "swish"), troubles=False) | {"mode": mode},
        lambda unit, *_: scale * (1 + 0.05 * (unit == "swish") + chance.gauss(0, 0.005)),
        metric,
    )
    page = parse(comparison_page(plain))
    forest = page.one("figure", "forest")
    assert forest.one("thead").all("th")[1].text == words
    look = "c-up" if better == "up" else "c-down"
    assert look in forest.one("tbody").one("tr").classes
    text = forest.one("td", "figures").text
    value, low, high = (number(t) for t in re.findall(rf"[+{MINUS}]?[\d.]+(?:e{MINUS}\d+)?", text))
    factor = 100 if metric == "val_f1" else 1
    assert value == pytest.approx(0.05 * scale * factor, rel=0.1) and low < value < high
    assert low > 0


# ---- records


def test_a_damaged_record_is_named_and_the_rest_is_reported(tmp_path):
    plain = made_study(5, units=UNITS[:3], troubles=False)
    folder = write_study(tmp_path / "study", plain)
    path = folder / "cells" / plain["records"][0]["key"] / "cell.json"
    path.write_text(path.read_text()[:-40])
    result = read_study(folder)
    assert [problem["key"] for problem in result.damaged] == [plain["records"][0]["key"]]
    assert len(result.records) == len(plain["records"]) - 1
    text = str(result)
    assert "damaged record, set aside" in text and plain["records"][0]["key"] in text
    assert result.compare(BACKBONES[0])["swish"].n == 4
    again = read_findings(json.loads(json.dumps(result.to_dict()))).result
    assert again.damaged == result.damaged
    assert [plain_text(line) for line in again.answer] == [
        plain_text(line) for line in result.answer
    ]


def test_every_record_is_read_once(tmp_path, monkeypatch):
    """The work on records does not grow with the number of blocks and units."""
    from gatewise.studies.older import StudyFolder
    from gatewise.studies.older import result as module

    folder = write_study(tmp_path / "study", made_study(4, units=UNITS[:4], troubles=False))
    reads, values = [], []
    read = StudyFolder.record
    value = module.PlannedRun.value
    monkeypatch.setattr(
        StudyFolder, "record", lambda *args, **kw: reads.append(1) or read(*args, **kw)
    )
    monkeypatch.setattr(module.PlannedRun, "value", lambda *args: values.append(1) or value(*args))
    result = read_study(folder)
    str(result)
    result.to_dict()
    comparison_page(result)
    runs = len(result.runs)
    assert len(reads) == runs
    assert len(values) <= 4 * runs


@pytest.mark.thorough
def test_a_large_study_is_sampled_and_says_so():
    chance = random.Random(0)  # noqa: S311
    names = [f"unit {place}" for place in range(42)]
    plain = made_study(1, units=("unit 0", "unit 1"), troubles=False)
    plain["cells"] = [cell(unit, BACKBONES[0], seed) for unit in names for seed in range(62)]
    plain["records"] = []
    for planned in plain["cells"]:
        metrics = {"test_accuracy": 0.9 + chance.gauss(0, 0.01)}
        plain["records"].append({**planned, "status": "finished", "metrics": metrics})
    page = parse(comparison_page(plain))
    caption = page.one("figure", "forest").one("figcaption").text
    assert "40 of 41 units (the best and the worst) are shown." in caption
    assert "60 of 62 dots per unit are shown." in caption
    assert "1,000 of 2,604 runs are shown." in page.text
    assert len(page.one("figure", "forest").one("tbody").all("tr")) == 40
