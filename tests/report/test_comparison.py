"""The page of a comparison: its numbers are those of the rows, and names are text."""

import json
import math
import re
from itertools import pairwise

import pytest
from report.made_study import UNITS, made_result, made_study
from report.parsed import Node, parse

import gatewise as gw
from gatewise.errors import DamagedFileError
from gatewise.report import comparison_page, comparison_picture
from gatewise.report.charts import RateRow, RateRows, lay_out
from gatewise.report.comparison import rate_rows
from gatewise.studies import ComparisonResult

COLOURS = {"better": "c-up", "worse": "c-down"}


@pytest.fixture(scope="module")
def result() -> ComparisonResult:
    return made_result()


@pytest.fixture(scope="module")
def page(result) -> Node:
    return parse(comparison_page(result))


def unit_rows(page: Node) -> dict[str, Node]:
    found = [row for row in page.all("div", "rate-row") if row.all("p", "rate-name")]
    return {row.one("b").text: row for row in found}


def test_one_row_a_unit_in_the_order_and_colour_of_the_verdicts(page, result) -> None:
    rows = unit_rows(page)
    assert list(rows) == [row.unit for row in result.rows()[1:]]
    for row in result.rows()[1:]:
        shown = rows[row.unit]
        assert COLOURS.get(row.verdict, "c-flat") in shown.classes
        assert shown.one("p", "rate-name").one("span").text.startswith(row.verdict)
        figures = shown.one("text", "figures").text
        assert figures.startswith(result.display.difference(row.difference))
        assert result.display.interval(row.low, row.high) in figures


def test_drawn_intervals_have_the_places_of_their_numbers(result) -> None:
    layout = lay_out(rate_rows(result, result.answer()))
    for row, laid in zip(result.rows()[1:], layout.rows, strict=True):
        low, high = map(float, re.findall(r"[MH](-?[\d.]+)", laid.bar))
        zero = layout.d(0.0)
        assert (low > zero) == (row.low > 0) and (high < zero) == (row.high < 0)
        width = layout.d.high - layout.d.low
        assert (high - low) / 1000 * width == pytest.approx(100 * (row.high - row.low), abs=0.01)
        best = re.findall(r"M([\d.]+)", laid.best)
        assert float(best[0]) == pytest.approx(layout.x(row.best_rate), abs=0.1)


def test_the_table_has_every_row_with_its_numbers(page, result) -> None:
    table = next(t for t in page.all("table") if "plateau" in t.one("thead").text)
    body = table.one("tbody").all("tr")
    assert [row.one("th").text for row in body] == [row.unit for row in result.rows()]
    for shown, row in zip(body, result.rows(), strict=True):
        cells = shown.all("td")
        assert float(cells[1].attributes["data-value"]) == pytest.approx(100 * row.height)
        if math.isfinite(row.difference):
            value = float(cells[6].attributes["data-value"])
            assert value == pytest.approx(100 * row.difference)
        assert cells[0].text.startswith(row.verdict)  # in sight on a phone


def test_a_study_that_has_not_ended_has_curves_and_no_differences() -> None:
    text = comparison_page(made_result(rounds=1))
    page = parse(text)
    assert "Preliminary, 120 of " in page.one("p", "sub").text
    assert len(unit_rows(page)) == len(UNITS) - 1
    assert not page.all("text", "figures") and not page.all("path", "interval")
    assert not [word for word in ("better", "worse") if word in page.one("figure").text]


@pytest.mark.parametrize("rounds", [0, 1])
def test_a_study_that_has_only_begun_has_a_page(rounds: int) -> None:
    header, records = made_study(rounds=rounds)
    assert parse(comparison_page(ComparisonResult(header, records[:7]))).all("h1")


def test_a_study_of_the_baseline_alone_and_of_one_rate_has_a_page() -> None:
    assert parse(comparison_page(made_result(3, units=("relu",)))).all("h1")
    page = parse(comparison_page(made_result(4, rates=1)))
    assert len(unit_rows(page)) == len(UNITS) - 1 and "at one learning rate" in page.text
    assert "over the learning rate" not in page.text
    heads = [cell.text for cell in page.one("thead").all("th")]
    assert heads == ["unit", "verdict", "mean", "sd", "n", "difference", "interval", "p"]


def test_several_models_have_a_picture_each() -> None:
    page = parse(comparison_page(made_result(4, models=("conv", "mlp"))))
    assert len(page.all("figure", "rate-rows")) == 2


def test_plain_values_give_the_same_page(result) -> None:
    text = comparison_page(result)
    assert comparison_page(json.loads(json.dumps(result.to_dict()))) == text
    with pytest.raises(DamagedFileError):
        comparison_page({"header": {}, "records": []})


def test_the_page_can_fetch_nothing(page, tmp_path, result) -> None:
    metas = [node.attributes for node in page.all("meta")]
    policy = next(m["content"] for m in metas if m.get("http-equiv"))
    assert policy.startswith("default-src 'none'")
    assert gw.write_page(result, tmp_path / "page.html").stat().st_size < 200_000


PAYLOADS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=y>',
    "{{ 7 * 7 }}",
    "</svg><b>",
    "&#60;",
]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_hostile_names_are_text(payload: str, page) -> None:
    study = json.loads(json.dumps(made_study()).replace('"silu"', json.dumps(payload)))
    study[0]["title"] = study[0]["settings"]["x"] = payload
    study[1][0]["machine"] = {payload: payload}
    study[1][1]["metrics"][payload] = 1.0
    shown = parse(comparison_page(ComparisonResult(*study)))
    count = {tag: len(page.all(tag)) for tag in ("script", "img", "iframe")}
    assert {tag: len(shown.all(tag)) for tag in count} == count
    assert payload in unit_rows(shown) and shown.one("h1").text == " ".join(payload.split())


def test_pictures_are_the_same_every_time(result) -> None:
    picture = comparison_picture(result)
    assert picture.startswith(b"<svg") and picture == comparison_picture(result)
    for row in result.rows()[1:]:
        assert f">{row.unit}</text>" in picture.decode()
    assert comparison_picture(made_result(rounds=1)).startswith(b"<svg")


def test_a_diverged_run_is_listed() -> None:
    header, records = made_study(5)
    records[3].update(status="diverged", value=None, error="loss is not finite")
    page = parse(comparison_page(ComparisonResult(header, records)))
    assert "loss is not finite" in page.text


def test_curves_have_numbers_upwards_and_a_mark_where_they_leave_the_picture(page, result) -> None:
    layout = lay_out(rate_rows(result, result.answer()))
    highest, lowest = (tick.value for tick in layout.up)
    assert layout.y.low <= lowest < highest <= layout.y.high
    rows = unit_rows(page)
    for row, laid in zip(result.rows()[1:], layout.rows, strict=True):
        field = rows[row.unit].all("svg", "field")[0]
        assert [text.text for text in field.all("text", "height")] == [t.label for t in layout.up]
        outside = [100 * point.mean < layout.y.low for point in row.curve]
        crossings = sum(a != b for a, b in pairwise(outside))
        assert len(laid.leaves) == len(field.all("text", "leaves")) == crossings
        assert all(0 <= across <= 1000 and not top for across, top in laid.leaves)
    assert any(laid.leaves for laid in layout.rows)


def test_a_curve_that_is_outside_everywhere_has_marks_at_its_points() -> None:
    inside = RateRow("a", "", "flat", curve=[(1.0, 0.0), (2.0, 1.0)])
    above = RateRow("b", "", "flat", curve=[(1.0, 5.0), (2.0, 6.0)])
    steep = RateRow("c", "", "flat", curve=[(1.0, -1.0), (4.0, 3.0)])
    layout = lay_out(RateRows("", "", [above, steep], inside, "value", "", y_range=(0.0, 1.0)))
    first, second = layout.rows
    assert first.leaves == ((layout.x(1.0), True), (layout.x(2.0), True))
    places = sorted(part for part, _ in second.leaves)
    ends = layout.x(1.0), layout.x(4.0)
    assert places == pytest.approx(
        [ends[0] + part * (ends[1] - ends[0]) for part in (0.25, 0.5)], abs=0.01
    )
