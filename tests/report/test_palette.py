"""The colours of charts can be told apart: sixteen lines, in light and dark, by every eye."""

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from report.colours import BLINDNESS, ciede2000, contrast, seen

import gatewise.report
from gatewise.report.charts import CATEGORIES, DARK_CATEGORIES, category_style, first_dash

CARDS = {"light": "#ffffff", "dark": "#1a1e22"}  # what charts are drawn on
PALETTES = {"light": CATEGORIES, "dark": DARK_CATEGORIES}


@pytest.mark.parametrize(
    "one, other, difference",
    [  # Sharma, Wu and Dalal 2005
        ((50, 2.6772, -79.7751), (50, 0, -82.7485), 2.0425),
        ((50, -1.3802, -84.2814), (50, 0, -82.7485), 1.0000),
        ((50, 2.5, 0), (50, 0, -2.5), 4.3065),
        ((50, 2.5, 0), (61, -5, 29), 22.8977),
        ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082),
    ],
)
def test_the_difference_is_that_of_the_standard(one, other, difference):
    assert ciede2000(np.array(one), np.array(other)) == pytest.approx(difference, abs=1e-4)


@pytest.mark.parametrize("mode, least", [("light", 19.0), ("dark", 20.0)])
def test_any_two_colours_differ(mode, least):
    palette = PALETTES[mode]
    assert len(palette) == 16
    for one, other in combinations(palette, 2):
        assert ciede2000(seen(palette[one]), seen(palette[other])) >= least, (one, other)


@pytest.mark.parametrize("blindness", BLINDNESS)
@pytest.mark.parametrize("mode, least", [("light", 10.0), ("dark", 14.0)])
def test_colours_of_one_line_style_differ_with_colour_blindness(mode, least, blindness):
    palette = PALETTES[mode]
    for one, other in combinations(palette, 2):
        if first_dash(one) != first_dash(other):
            continue
        apart = ciede2000(seen(palette[one], blindness), seen(palette[other], blindness))
        assert apart >= least, (one, other)


@pytest.mark.parametrize("mode", PALETTES)
def test_colours_stand_out_from_the_background(mode):
    for name, colour in PALETTES[mode].items():
        assert contrast(colour, CARDS[mode]) >= 3, name


def test_the_style_sheet_has_the_colours_of_both_modes():
    light, dark = category_style().split("@media")
    for sheet, palette in ((light, CATEGORIES), (dark, DARK_CATEGORIES)):
        assert dict(re.findall(r"--(hue-\d+):(#\w+)", sheet)) == palette


def test_the_categories_are_defined_once():
    folder = Path(gatewise.report.__file__).parent / "templates"
    assert not [sheet.name for sheet in folder.glob("*.css") if "hue-" in sheet.read_text()]
