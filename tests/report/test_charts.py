"""The chart model: points are where their numbers say, and nothing is left out silently."""

import base64
import io
import math
import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from report.parsed import parse, rows

from gatewise.errors import ArgumentError
from gatewise.report import Code, Folded, Section, Sheet, Text, sheet_page
from gatewise.report.charts import (
    Cell,
    Chart,
    Mark,
    Panels,
    Picture,
    RateRow,
    RateRows,
    Series,
    Table,
    grid,
    lay_out,
    log_ticks,
    scale,
    tick_label,
)

NUMBERS = st.floats(-1e9, 1e9, allow_nan=False)


def chart(*series: Series, **more) -> Chart:
    return Chart("a title", "about it", "x", "y", series, **more)


def places(path: str) -> list[tuple[float, float]]:
    return [(float(a), float(b)) for a, b in re.findall(r"[ML]([-\d.e]+) ([-\d.e]+)", path)]


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=2, max_size=20))
def test_every_point_lies_where_its_numbers_say(points):
    drawn = lay_out(chart(Series("s", points, kind="dots")))
    for (x, y), shape in zip(points, drawn.drawn[0].shapes, strict=True):
        [(left, top)] = places(shape.path)
        assert 0 <= left <= 1000 and 0 <= top <= 1000
        back_x = drawn.x.low + left / 1000 * (drawn.x.high - drawn.x.low)
        back_y = drawn.y.low + (1 - top / 1000) * (drawn.y.high - drawn.y.low)
        # two decimals of a thousand are kept
        assert abs(back_x - x) <= 1e-5 * (drawn.x.high - drawn.x.low) and abs(
            back_y - y
        ) <= 1e-5 * (drawn.y.high - drawn.y.low)


@given(st.lists(st.floats(1e-12, 1e12), min_size=2, max_size=20))
def test_logarithmic_places_are_those_of_the_logarithm(values):
    drawn = lay_out(
        chart(Series("s", [(v, v) for v in values], kind="dots"), x_log=True, y_log=True)
    )
    low, high = math.log10(drawn.x.low), math.log10(drawn.x.high)
    for value, shape in zip(values, drawn.drawn[0].shapes, strict=True):
        left = places(shape.path)[0][0]
        assert low + left / 1000 * (high - low) == pytest.approx(
            math.log10(value), abs=1e-5 * (high - low) + 1e-12
        )


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9))
def test_ticks_are_few_apart_and_say_their_own_value(low, width):
    width = max(width, 1e-6 * abs(low))  # closer together, a float cannot hold them
    made = scale([low, low + width], 1000)
    found = grid(made)
    assert 2 <= len(found) <= 8 and len({tick.label for tick in found}) == len(found)
    for tick in found:
        said = float(tick.label.replace("\N{MINUS SIGN}", "-").replace(",", ""))
        assert abs(made(said) - tick.at) <= 0.02


@pytest.mark.parametrize(
    "low, high, ticks",
    [
        (1, 1000, [1, 10, 100, 1000]),
        (1, 20, [1, 2, 5, 10, 20]),
        (100, 140, [100, 110, 120, 130, 140]),
    ],
)
def test_logarithmic_ticks_are_round(low, high, ticks):
    assert log_ticks(low, high) == pytest.approx(ticks)


@pytest.mark.parametrize(
    "value, text",
    [
        (0.9725, "0.9725"),
        (12_000, "12,000"),
        (-12_000, "−12,000"),
        (1e6, "1e6"),
        (0.1 + 0.2, "0.3"),
        (0, "0"),
    ],
)
def test_tick_labels(value, text):
    assert tick_label(value) == text


def test_what_has_no_place_is_left_out_and_counted():
    points = [(1.0, 1.0), (2.0, math.nan), (-3.0, 1.0), (math.inf, 2.0), (4.0, 3.0)]
    drawn = lay_out(chart(Series("s", points), x_log=True))
    assert drawn.missing == 3 and len(drawn.drawn[0].shapes) == 2
    assert drawn.drawn[0].line.count("M") == 2  # the line breaks there
    assert "3 points not drawn: not finite, or not positive on a logarithmic axis." in page(
        chart(Series("s", points), x_log=True)
    )
    assert "not drawn" not in page(chart(Series("s", [(1.0, 1.0)])))


def test_bars_stand_on_zero_and_beside_each_other():
    one, two = (
        Series("a", [(0, 2.0), (1, 4.0)], kind="bars"),
        Series("b", [(0, 1.0), (1, 3.0)], kind="bars"),
    )
    drawn = lay_out(chart(one, two, x_names=["p", "q"]))
    assert drawn.y.low == 0 and [tick.label for tick in drawn.across] == ["p", "q"]
    spans = []
    for each in drawn.drawn:
        for shape, (_, value) in zip(each.shapes, each.series.points, strict=True):
            left, foot, top, width = map(
                float, re.match(r"M([-\d.]+) ([\d.]+)V([\d.]+)h([\d.]+)V", shape.path).groups()
            )
            assert foot == 1000 and top == drawn.y(value)
            spans.append((left, left + width))
    assert all(a[1] <= b[0] + 1e-6 for a, b in pairwise(sorted(spans)))


def test_negative_bars_hang_from_zero():
    drawn = lay_out(chart(Series("a", [(0, -2.0), (1, 4.0)], kind="bars")))
    feet = {re.match(r"M[-\d.]+ ([\d.]+)V", shape.path)[1] for shape in drawn.drawn[0].shapes}
    assert feet == {f"{drawn.y(0):g}"} and 0 < drawn.y(0) < 1000


def test_steps_hold_each_value_until_the_next():
    drawn = lay_out(chart(Series("a", [(0, 1.0), (1, 2.0), (2, 3.0)], kind="steps")))
    held = [y for _, y in places(drawn.drawn[0].line)]
    assert held == [drawn.y(v) for v in (1, 1, 2, 2, 3)]


def test_series_of_one_colour_are_dashed_apart():
    drawn = lay_out(chart(*(Series(str(i), [(0, 0), (1, i)], colour="two") for i in range(3))))
    assert [each.dash for each in drawn.drawn] == [0, 1, 2]


def test_a_mark_is_a_line_at_one_coordinate():
    drawn = lay_out(
        chart(
            Series("s", [(0, 0), (4, 8)]),
            marks=[Mark("from here", x=2), Mark("level", y=3)],
        )
    )
    assert [rule.note for rule in drawn.rules] == ["from here", "level"]
    assert (
        drawn.rules[0].path == f"M{drawn.x(2):g} 0V1000"
        and drawn.rules[1].path == f"M0 {drawn.y(3):g}H1000"
    )
    for places in ({}, {"x": 1, "y": 2}):
        with pytest.raises(ArgumentError, match="needs x or y"):
            Mark("here", **places)


def rate_rows(*rows: RateRow) -> RateRows:
    base = RateRow("relu", "", "flat", [(0.1, 1.0), (0.01, 2.0)])
    return RateRows("t", "", rows or [UNIT], base, "accuracy", "points")


UNIT = RateRow(
    "a",
    "better",
    "up",
    [(0.01, 1.5), (0.1, math.nan), (1.0, 3.0)],
    [(1.0, 2.0), (math.nan, math.nan), (2.5, 3.5)],
    best=(1.0, 3.0),
    value=2.0,
    low=1.5,
    high=2.5,
    figures="+2.0",
)


def test_rows_share_one_scale_with_zero_on_it():
    other = RateRow("b", "undecided", "flat", value=-1.0)
    drawn = lay_out(rate_rows(UNIT, other))
    assert any(tick.zero for tick in drawn.along)
    first, second = drawn.rows
    assert places(first.bar.replace("H", f"L{drawn.d(1.5)} "))[0][0] == drawn.d(1.5)
    assert second.bar == "" and places(second.point)[0][0] == drawn.d(-1.0)
    assert places(first.best)[0] == pytest.approx((drawn.x(1.0), drawn.y(3.0)))
    # A rate at which every run diverged breaks the curve.
    assert first.line.count("M") == 2 and len(first.points) == 2 and second.line == ""
    assert [tick.label for tick in drawn.across] == ["1e−2", "0.1", "1"]


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 3)])
def test_a_picture_holds_its_pixels(shape):
    pixels = np.random.default_rng(0).integers(0, 256, shape)
    drawn = lay_out(Picture("p", pixels.tolist(), scale=3))
    data = base64.b64decode(drawn.address.removeprefix("data:image/png;base64,"))
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(data))), pixels)
    assert (drawn.width, drawn.height) == (21, 15)


@pytest.mark.parametrize(
    "make",
    [
        lambda: lay_out(Picture("p", [[300]])),
        lambda: lay_out(Picture("p", [[-1]])),
        lambda: lay_out(Picture("p", [[0.5]])),
        lambda: lay_out(Picture("p", [1, 2])),
        lambda: lay_out(Picture("p", [])),
        lambda: lay_out(Picture("p", np.zeros((2, 2, 4), dtype=np.uint8))),
        lambda: lay_out("text"),
        lambda: Series("s", [(0, 0)], kind="pie"),
        lambda: Series("s", [(0, 0)], colour="red"),
        lambda: Series("s", [(0, 0)], band=[(0, 1), (0, 1)]),
        lambda: Series("s", [(0, 0)], notes=["a", "b"]),
        lambda: Table(["a", "b"], [["1"]]),
        lambda: Table(["a", "b"], [["1", "2"]], align="lx"),
        lambda: Table(["a", "b"], [["1", "2"]], align="l"),
        *(
            lambda link=link: Cell("x", link=link)
            for link in (
                "javascript:alert(1)",
                "//host/x",
                "/etc/passwd",
                "../up",
                "a/../b",
                "https://host",
                "a b",
                "a/./b",
                "%2e%2e/x",
                "data:text/html,x",
                "\\\\host",
                "#a b",
                "a//b",
                ".hidden",
            )
        ),
    ],
    ids=range(28),
)
def test_what_cannot_be_shown_is_refused_in_words(make):
    with pytest.raises(ArgumentError) as caught:
        make()
    assert "Traceback" not in str(caught.value) and len(str(caught.value)) > 15


def page(*items) -> str:
    return sheet_page(Sheet("title", "about", ["the answer"], [Section("part", items)]))


def test_a_table_keeps_its_numbers_in_full():
    shown = Table(
        ["name", "value"],
        [["a", Cell("0.33", 1 / 3, look="up")], ["b", Cell("away", link="cells/b/")]],
        "caption",
        "lr",
    )
    found = parse(page(shown)).one("table")
    assert [cell.attributes["scope"] for cell in found.all("th")] == ["col", "col", "row", "row"]
    first, second = rows(found)
    assert float(first["value"].attributes["data-value"]) == 1 / 3 and first["value"].classes == {
        "n",
        "up",
    }
    assert second["value"].one("a").attributes["href"] == "cells/b/"


def test_a_sheet_shows_every_kind_of_record():
    small = chart(Series("s", [(0, 1), (1, 2)], band=[(0, 2), (1, 3)]), small=True)
    shown = parse(
        page(
            small,
            rate_rows(),
            Picture("p", [[0, 255]]),
            Table(["a"], [["1"]]),
            Panels("many", "side by side", [small, small]),
            Text(["one", ["two ", Cell("three", look="up")]]),
            Text(["a point"], points=True),
            Code("run <this>"),
            Folded("more", [Text(["inside"])]),
        )
    )
    assert (
        len(shown.all("figure", "plot")) == 4
        and len(shown.all("img")) == 1
        and len(shown.all("table")) == 1
    )
    assert shown.one("pre").text == "run <this>" and "inside" in shown.one("details").text
    assert shown.one("details").one("summary").text == "more"


def test_every_drawing_has_words_for_those_who_cannot_see_it():
    shown = parse(
        page(
            chart(Series("s", [(0, 1), (1, 2)])),
            rate_rows(),
        )
    )
    fields = shown.all("svg", "field")
    assert [field.attributes["aria-label"] for field in fields] == [
        "a title: y against x for s",
        "a: accuracy",
        "a: +2.0, better",
    ]
    assert all(field.attributes["role"] == "img" for field in fields)
    assert all(
        axis.attributes.get("aria-hidden") or axis.attributes["class"]
        for axis in shown.all("svg", "axis")
    )
