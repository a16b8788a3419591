"""The page of a diagnosis in a real browser.

Nothing fails, nothing is fetched, sections open, screenshots are kept.
"""

import re
from pathlib import Path

import pytest
import torch
from browser import Browser, settle
from torch import nn

import gatewise as gw
from gatewise.report import Section, Sheet, sheet_page
from gatewise.report.charts import Regions

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser():
    with Browser() as made:
        yield made


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    torch.manual_seed(0)
    model = nn.Sequential()
    model.add_module("<b>conv</b>", nn.Conv2d(3, 8, 3, padding=1))
    model.add_module("unit", nn.ReLU())
    model.add_module(
        "rest", nn.Sequential(nn.Conv2d(8, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(216, 4))
    )
    weight = model.get_submodule("<b>conv</b>").weight.data
    weight[4:] = -weight[:4]
    earlier = [
        {name: part * value for name, value in model.state_dict().items()} for part in (0.5, 0.8)
    ]
    batches = [(torch.randn(12, 3, 8, 8), torch.arange(12) % 3)]
    made = gw.diagnose(model, batches, seconds=1.0, checkpoints=earlier, questions="all")
    assert not [each.detail for each in made if each.state == "failed"]
    return gw.write_page(made, tmp_path_factory.mktemp("diagnosis") / "page.html")


@pytest.mark.slow
def test_nothing_fails_to_load_and_nothing_is_fetched(browser, path) -> None:
    page = browser.open(path)
    assert page.complaints == [] and page.requests == []
    assert page.evaluate(
        "[...document.images].every(image => image.complete && image.naturalWidth > 0)"
    )
    assert page.evaluate("document.images.length") > 10


def test_the_first_page_of_a_small_network_is_short(browser, tmp_path) -> None:
    layers = (nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 4))
    found = gw.diagnose(nn.Sequential(*layers), torch.randn(100, 8))
    page = browser.open(gw.write_page(found, tmp_path / "page.html"), width=1280, height=900)
    assert page.evaluate("document.documentElement.scrollHeight") < 8 * 900


def test_every_link_of_the_table_leads_to_its_section(browser, path) -> None:
    page = browser.open(path)
    script = (
        "[...document.querySelectorAll('.kit-table a')]"
        ".map(a => [a.getAttribute('href'), a.textContent])"
    )
    links = page.evaluate(script)
    assert len(links) >= 10
    for target, title in links:
        assert page.evaluate(f"document.querySelector({target!r} + ' h2').textContent") == title
    page.click(".kit-table a")
    assert page.evaluate("location.hash") == links[0][0]
    assert page.complaints == []


def test_folded_parts_open_and_charts_zoom(browser, path) -> None:
    page = browser.open(path)
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = false)")
    page.click("details > summary")
    assert page.evaluate("document.querySelector('details').open")
    for chart in (".plot", ".regions"):
        before = page.evaluate(
            f"document.querySelector('{chart} svg.data').getAttribute('viewBox')"
        )
        page.evaluate(f"document.querySelector('{chart} .tools button').click()")
        assert (
            page.evaluate(f"document.querySelector('{chart} svg.data').getAttribute('viewBox')")
            != before
        )
    assert page.complaints == []


def test_a_film_is_played_one_picture_at_a_time(browser, path) -> None:
    page = browser.open(path)
    shown = (
        "[...document.querySelectorAll('.film .many > *')]"
        ".map(frame => getComputedStyle(frame).display !== 'none')"
    )
    assert page.evaluate(shown) == [True, True, True]
    page.click(".film .tools button")
    assert page.evaluate(shown) == [True, False, False]
    settle(page, f"{shown}[1]")  # and it goes on by itself
    page.click(".film .tools button")
    page.evaluate(
        "(() => {const s = document.querySelector('.film input'); s.value = 2;"
        "s.dispatchEvent(new Event('input'));})()"
    )
    assert page.evaluate(shown) == [False, False, True]
    assert (
        page.evaluate("document.querySelector('.film .tools [role=status]').textContent")
        == "3 of 3"
    )
    page.click(".film .tools button:last-of-type")
    assert page.evaluate(shown) == [True, True, True] and page.complaints == []


def test_without_scripts_a_film_stands_side_by_side(browser, path) -> None:
    page = browser.open(path, scripts=False)
    assert page.evaluate("document.querySelectorAll('.film .many > .regions').length") == 3
    assert page.evaluate("document.querySelectorAll('.film .tools').length") == 0


def test_the_legend_of_regions_is_no_button(browser, path) -> None:
    page = browser.open(path)
    assert page.evaluate("document.querySelectorAll('.regions .legend button').length") == 0
    assert (
        page.evaluate("document.querySelectorAll('.plot:not(.regions) .legend button').length") > 0
    )


def test_names_in_a_picture_of_regions_move_with_it_and_are_light_on_dark(
    browser, tmp_path
) -> None:
    square = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]
    drawn = Regions("one", "", [square], [], [("here", (0.25, 0.75))], (0.0, 0.0), (1.0, 1.0))
    made = tmp_path / "page.html"
    made.write_text(sheet_page(Sheet("t", "", [], [Section("s", [drawn])])), encoding="utf-8")
    page = browser.open(made, dark=True)
    at = (
        "['x', 'y'].map(name => "
        "parseFloat(document.querySelector('.regions .mark').getAttribute(name)))"
    )
    assert page.evaluate(at) == [25, 25]
    page.evaluate(
        "document.querySelector('.regions .tools button').click()"
    )  # the middle 1 / 1.6 of it
    assert page.evaluate(at) == pytest.approx([50 - 25 * 1.6] * 2, abs=0.01)
    colour = page.evaluate("getComputedStyle(document.querySelector('.regions .mark text')).fill")
    assert min(int(part) for part in re.findall(r"\d+", colour)) > 150 and page.complaints == []


def test_a_hostile_layer_name_is_shown_as_text(browser, path) -> None:
    page = browser.open(path)
    assert page.evaluate("document.body.textContent.includes('<b>conv</b>')")
    assert page.evaluate(
        "[...document.querySelectorAll('main b')].every(each => each.textContent !== 'conv')"
    )


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
@pytest.mark.parametrize("width", [1000, 390])
def test_the_page_fits_its_width(browser, path, width, scripts) -> None:
    page = browser.open(path, scripts=scripts, width=width)
    page.look(width=width)
    assert page.call("Page.getLayoutMetrics")["cssContentSize"]["width"] <= width


@pytest.mark.parametrize("width", [1000, 390])
def test_names_below_a_chart_do_not_touch(browser, path, width) -> None:
    page = browser.open(path, width=width)
    page.look(width=width)
    touching = page.evaluate("""[...document.querySelectorAll('svg.across')].filter(axis => {
        const boxes = [...axis.querySelectorAll('text')]
            .map(t => t.getBoundingClientRect()).filter(b => b.width);
        return boxes.some((b, i) => i && b.left < boxes[i - 1].right + 2);}).length""")
    assert touching == 0


@pytest.mark.slow
def test_screenshots_are_kept_and_are_not_blank(browser, path, tmp_path) -> None:
    import numpy as np
    from PIL import Image

    page = browser.open(path)
    looks = {
        "light": {},
        "dark": {"dark": True},
        "narrow": {"width": 390},
        "print": {"print": True},
    }
    means = {}
    for name, look in looks.items():
        shot = np.asarray(
            Image.open(page.screenshot(tmp_path / f"{name}.png", **look)).convert("L"), dtype=float
        )
        assert shot.std() > 10
        means[name] = shot.mean()
    assert means["dark"] < 90 < 200 < means["light"]
