"""Formulas and curves as geometry."""

import math
import re

import pytest

from gatewise.report import Curve, Kink, Line, Plot
from gatewise.report.charts import scale
from gatewise.report.gallery import figure, formula, plot

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


@pytest.mark.parametrize(
    "latex",
    [
        r"\max(x, 0)",
        r"\tfrac{1}{2}\lvert x\rvert",
        r"\begin{cases} x & x \ge 0 \\ 0 & x < 0\end{cases}",
        r"\dots",
    ],
)
def test_formulas_are_drawn_as_outlines_only(latex):
    drawn = formula.draw(latex)
    assert drawn and drawn.width > 0 and drawn.height > 0
    assert re.fullmatch(r"[MLQCZ0-9. \-]+", drawn.path)


@pytest.mark.parametrize(
    "latex",
    ["", r"\nonsense{x}", "$", "a$b", r"\begin{cases}", "{", "<script>$</script>", r"\frac"],
)
def test_what_cannot_be_read_is_none_and_not_an_error(latex):
    assert formula.draw(latex) is None


def test_lines_break_at_kinks_and_kinks_are_marked():
    value, slope = plot.panels(RELU)
    assert [stroke.path.count("M") for stroke in (*value.strokes, *slope.strokes)] == [2, 2]
    assert [(dot.x, dot.style) for dot in slope.dots] == [(plot.INNER_WIDTH / 2, "line-1")]


def test_a_wild_option_does_not_flatten_the_default_curve():
    wild = Curve(
        "wild", (Line("", ((-2.0, -1e9), (2.0, 1e9)), ((-2.0, math.inf), (2.0, math.nan))),)
    )
    value, _ = plot.panels(Plot((*RELU.curves, wild)))
    heights = [float(y) for y in re.findall(r" (-?[\d.]+)", value.strokes[-1].path)]
    assert max(heights) - min(heights) > plot.INNER_HEIGHT / 3
    assert all(
        abs(float(n)) <= 9 * plot.INNER_HEIGHT
        for s in value.strokes
        for n in re.findall(r"-?[\d.]+", s.path)
    )


@pytest.mark.parametrize(
    "low, high", [(0.0, 1.0), (-4.0, 4.0), (1e-9, 3e-9), (-1e12, 5.0), (0.95, 1.05)]
)
def test_ticks_are_few_and_inside(low, high):
    found = scale.ticks(low, high)
    assert 2 <= len(found) <= 7 and all(low - 1e-9 <= t <= high + 1e-9 for t in found)


def test_the_legend_says_nothing_where_there_is_one_line():
    assert plot.legend(RELU) == ()
    two = Plot(
        (
            Curve("default", (Line("part 1", (), ()), Line("part 2", (), ()))),
            Curve("b = 2", (Line("", (), ()),)),
        )
    )
    assert [entry.label for entry in plot.legend(two)] == [
        "default, part 1",
        "default, part 2",
        "b = 2",
    ]


def test_an_empty_or_endless_plot_is_still_a_plot():
    assert plot.panels(Plot()) == () and plot.thumbnail(Plot()) == ()
    nothing = Plot((Curve("", (Line("", ((0.0, math.nan),), ()),)),))
    assert len(plot.panels(nothing)) == 2


def test_hostile_titles_are_text_in_a_picture():
    picture = figure("<script>alert(1)</script> $\\frac$", RELU, "svg").decode()
    assert "<script>" not in picture
