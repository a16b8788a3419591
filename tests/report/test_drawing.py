"""Formulas and curves as geometry."""

import math
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

import gatewise.report
from gatewise.report import Card, Curve, Gallery, Kink, Line, Plot, figure, gallery_page
from gatewise.report.charts import (
    COLOURS,
    Chart,
    Mark,
    Panels,
    Picture,
    Series,
    category_style,
    lay_out,
    ticks,
)
from gatewise.report.gallery import tile, unit_panels
from gatewise.report.picture_files import picture_file

RELU = Plot(
    (
        Curve(
            "default",
            (
                Line(
                    "",
                    ((-2.0, 0.0), (0.0, math.nan), (2.0, 2.0)),
                    ((-2.0, 0.0), (0.0, math.nan), (2.0, 1.0)),
                ),
            ),
        ),
    ),
    (Kink(0.0, (0.0,), 0.0),),
)


def test_lines_break_at_kinks_and_kinks_are_marked():
    value, slope = map(lay_out, unit_panels(RELU).items)
    assert [layout.drawn[0].line.count("M") for layout in (value, slope)] == [2, 2]
    assert [drawn.series.kind for drawn in slope.drawn] == ["line", "rings"]
    assert [shape.path for shape in slope.drawn[1].shapes] == [f"M500 {slope.y(0):g}h0"]
    assert value.missing == slope.missing == 0  # a break is no missing point


def test_a_wild_option_does_not_flatten_the_default_curve():
    wild = Curve(
        "wild", (Line("", ((-2.0, -1e9), (2.0, 1e9)), ((-2.0, math.inf), (2.0, math.nan))),)
    )
    value = lay_out(unit_panels(Plot((*RELU.curves, wild))).items[0])
    heights = [float(y) for y in re.findall(r" (-?[\d.]+)", value.drawn[0].line)]
    assert max(heights) - min(heights) > 1000 / 3
    for drawn in value.drawn:
        assert all(abs(float(n)) <= 9000 for n in re.findall(r"-?[\d.]+", drawn.line))


@pytest.mark.parametrize(
    "low, high", [(0.0, 1.0), (-4.0, 4.0), (1e-9, 3e-9), (-1e12, 5.0), (0.95, 1.05)]
)
def test_ticks_are_few_and_inside(low, high):
    found = ticks(low, high)
    assert 2 <= len(found) <= 7 and all(low - 1e-9 <= t <= high + 1e-9 for t in found)


def test_the_legend_says_nothing_where_there_is_one_line():
    def legend(plot: Plot) -> list[str]:
        return [drawn.series.name for drawn in lay_out(unit_panels(plot).items[0]).named]

    assert len(legend(RELU)) == 1 and '<ul class="legend">' not in gallery_page(gallery_of(RELU))
    part = ((0.0, 0.0), (1.0, 1.0))
    two = Plot(
        (
            Curve("default", (Line("part 1", part, part), Line("part 2", part, part))),
            Curve("b = 2", (Line("part 1", part, part), Line("part 2", part, part))),
        )
    )
    assert legend(two) == ["default, part 1", "default, part 2", "b = 2"]
    assert gallery_page(gallery_of(two)).count('<ul class="legend">') == 1


def gallery_of(plot: Plot) -> Gallery:
    return Gallery("1.0", "a machine", (Card("a", "A", "soft", "x", "", "1", "", plot=plot),))


def test_other_options_are_drawn_behind_and_in_different_styles():
    line = RELU.curves[0].lines
    plot = Plot(tuple(Curve(f"b = {i}", line) for i in range(5)))
    layout = lay_out(unit_panels(plot).items[0])
    assert [drawn.dash for drawn in layout.drawn] == [0, 0, 1, 2, 3]
    assert layout.painted[-1].series.name == "b = 0" and layout.painted[-1].series.colour == "base"


def test_an_empty_or_endless_plot_is_still_a_plot():
    assert unit_panels(Plot()).items == [] and tile(Plot()) is None
    nothing = Plot((Curve("", (Line("", ((0.0, math.nan),), ()),)),))
    assert len([lay_out(chart) for chart in unit_panels(nothing).items]) == 2


def test_hostile_titles_are_text_in_a_picture():
    picture = figure("<script>alert(1)</script> $\\frac$", RELU).decode()
    assert "<script>" not in picture


EVERYTHING = Panels(
    "all kinds",
    "",
    [
        Chart(
            "chart",
            "",
            "x",
            "y",
            [
                Series("line", [(1, 1.0), (10, 2.0)], band=[(0.5, 1.5), (1.5, 2.5)]),
                Series("steps", [(1, 1.0), (10, 3.0)], kind="steps", colour="hue-3"),
                Series("dots", [(2, 1.0)], band=[(0.5, 1.5)], kind="dots", colour="size-9"),
                Series("rings", [(2, math.nan), (5, 2.0)], kind="rings", colour="light"),
            ],
            x_log=True,
            marks=[Mark("here", 2, 2.0), Mark("level", y=1.5), Mark("from", x=3)],
        ),
        Chart(
            "bars",
            "",
            "",
            "",
            [Series("a", [(0, 2.0), (1, -1.0)], kind="bars")],
            x_names=["p", "q"],
        ),
        Picture("grey", [[0, 255], [128, 3]]),
    ],
)


def texts(file: bytes) -> list[str]:
    """Every text of an SVG file, which must be well-formed XML."""
    found = ElementTree.fromstring(file).iter("{http://www.w3.org/2000/svg}text")  # noqa: S314
    return ["".join(text.itertext()).strip() for text in found]


def test_every_kind_of_chart_goes_into_a_file_and_the_same_bytes_come_out():
    file = picture_file(EVERYTHING)
    assert file.startswith(b"<svg xmlns") and file == picture_file(EVERYTHING)
    assert b"data:image/png;base64," in file


def test_a_file_has_the_ticks_and_the_legend_of_the_page():
    drawn = texts(picture_file(EVERYTHING))
    layout = lay_out(EVERYTHING.items[0])
    shown = [*layout.across, *layout.up]
    assert {tick.label for tick in shown} <= set(drawn)
    assert {"line", "steps", "dots", "rings", "here", "p", "q", "all kinds"} <= set(drawn)


def test_the_room_of_a_file_grows_with_its_legend():
    def height(lines: int) -> float:
        series = [Series(f"line {i}", [(0, i), (1, i)]) for i in range(lines)]
        file = picture_file(Panels("", "", [Chart("", "", "x", "y", series)]))
        return float(ElementTree.fromstring(file).get("height", "nan"))  # noqa: S314

    assert height(16) - height(4) == 6 * 16


def test_the_style_sheet_has_every_colour_of_the_palette():
    css = Path(gatewise.report.__file__).parent / "templates"
    light = {}
    for sheet in ((css / "page.css").read_text(), category_style()):
        light |= re.findall(r"--([\w-]+):(#[0-9a-f]+)", sheet[: sheet.index("@media")])
    classes = (css / "charts.css").read_text() + category_style()
    colours = dict(re.findall(r"\.c-([\w-]+)\{--c:([^}]+)\}", classes))
    assert colours.keys() == COLOURS.keys()
    for name, colour in colours.items():
        named = re.fullmatch(r"var\(--([\w-]+)\)", colour)
        assert (light[named[1]] if named else colour) == COLOURS[name], name
