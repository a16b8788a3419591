"""The gallery in a browser: the grid comes first, and sliders redraw what the units compute."""

import re

import pytest
import torch
from browser import Browser

import gatewise as gw
from gatewise.cli.commands.units_gallery import card
from gatewise.report import Fact, Gallery, gallery_page
from gatewise.units import FAMILIES

pytestmark = pytest.mark.browser
SET = """(() => {{
  const input = document.querySelector('[data-unit={unit}] .dials input');
  input.value = '{value}';
  input.dispatchEvent(new Event('input', {{bubbles: true}}));
  const live = document.querySelectorAll('[data-unit={unit}] g.live path');
  return [...live].map(path => path.getAttribute('d'));
}})()"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    families = tuple(Fact(name, text) for name, text in FAMILIES.items())
    cards = tuple(card(name, errors=False) for name in ("relu", "swish", "leaky_relu"))
    file = tmp_path_factory.mktemp("gallery") / "units.html"
    file.write_text(gallery_page(Gallery("1", "here", cards, families, ())), encoding="utf-8")
    with Browser() as browser:
        opened = browser.open(file)
        yield opened
        assert not opened.complaints and not opened.requests


def test_search_and_curves_are_above_the_fold(page):
    page.look(width=1200, height=800)
    tops = page.evaluate(
        "[...document.querySelectorAll('#search, .grid-of-tiles, #units, #reading')]"
        ".map(e => e.getBoundingClientRect().top)"
    )
    assert tops == sorted(tops) and tops[1] < 250


FIND = """(() => {{
  const search = document.querySelector('#search');
  search.value = '{}';
  search.dispatchEvent(new Event('input'));
  const shown = [...document.querySelectorAll('.tile, .card, .family')].filter(e => e.offsetParent);
  return shown.map(e => e.dataset.unit || e.getAttribute('aria-label'));
}})()"""


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("SWISH", ["soft", "swish", "swish"]),
        ("rectified leaky", ["max-affine", "leaky_relu", "leaky_relu"]),
        ("max-affine", ["max-affine", "relu", "leaky_relu", "relu", "leaky_relu"]),
        ("nothing", []),
    ],
)
def test_the_search_leaves_units_with_all_words(page, words: str, found: list[str]):
    assert page.evaluate(FIND.format(words)) == found
    assert len(page.evaluate(FIND.format(""))) == 2 + 3 + 3


def test_only_units_with_numbers_have_sliders(page):
    names = page.evaluate(
        "[...document.querySelectorAll('.card')].filter(c => c.querySelector('.dials'))"
        ".map(c => c.dataset.unit)"
    )
    assert names == ["swish", "leaky_relu"]


def test_a_slider_draws_what_the_unit_computes(page):
    tile, value, slope = page.evaluate(SET.format(unit="swish", value=2))
    axis = "document.querySelectorAll('[data-unit=swish] .axis.up')[{}].dataset.{}"
    unit = gw.create_unit("swish", channels=1, beta=2.0).double()
    for drawn, low, high, derivative in (
        (tile, -2.0, 4.0, False),
        (value, *(float(page.evaluate(axis.format(0, end))) for end in ("low", "high")), False),
        (slope, *(float(page.evaluate(axis.format(1, end))) for end in ("low", "high")), True),
    ):
        numbers = [float(n) for n in re.findall(r"-?[\d.]+", drawn)]
        across, down = torch.tensor(numbers).double().view(-1, 2).unbind(1)
        x = (across / 1000 * 8 - 4).requires_grad_()
        y = unit(x[None, None]).flatten()
        if derivative:
            (y,) = torch.autograd.grad(y.sum(), x)
        inside = (down > -1000) & (down < 2000)  # far outside of the chart, lines are cut
        seen = high - down / 1000 * (high - low)
        # Coordinates are rounded to 0.1 of 1000: 0.05 across at a slope of up to 1.2, and down.
        bound = 0.05 / 1000 * (1.2 * 8 + high - low) * 1.01
        assert (seen - y.detach())[inside].abs().max() <= bound


def test_defaults_bring_the_first_curves_back(page):
    page.evaluate(SET.format(unit="leaky_relu", value=0.5))
    page.evaluate("document.querySelector('[data-unit=leaky_relu] .dials button').click()")
    left = "document.querySelectorAll('[data-unit=leaky_relu] .{}').length"
    assert page.evaluate(left.format("live")) == page.evaluate(left.format("replaced")) == 0
