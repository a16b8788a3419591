"""The comparison page in a real browser.

It loads whole and alone, scripts only add to it, and copies are right.
"""

import csv
import io
import json
from dataclasses import replace

import pytest
from browser import Browser, settle
from PIL import Image
from report.made_study import UNITS, made_study
from report.parsed import parse

from gatewise.report import Cell, Chart, Panels, Section, Series, Table, sheet_page
from gatewise.report.comparison import comparison_page
from gatewise.report.comparison.page import comparison_sheet
from gatewise.studies import ComparisonResult

pytestmark = pytest.mark.browser
KEEP_COPY = (
    "navigator.clipboard.writeText = text => { window.copied = text; return Promise.resolve(); }"
)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A comparison, with charts and a long table below it."""
    text = json.dumps(made_study(6)).replace('"elu"', '"=elu <b>| & _"')
    sheet = comparison_sheet(ComparisonResult(*json.loads(text)))
    lines = [Series(name, [(x, x**power) for x in range(9)]) for power, name in enumerate("abc")]
    charts = [Chart(f"chart {place}", "", "x", "y", lines) for place in range(12)]
    runs = [[unit, Cell(str(seed), seed)] for unit in UNITS for seed in range(6)]
    sections = [
        *sheet.sections,
        Section("Charts", [Panels("many", "", charts)]),
        Section("Runs", [Table(["unit", "seed"], runs, "all runs", "lr")]),
    ]
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(sheet_page(replace(sheet, sections=sections)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser():
    with Browser() as made:
        yield made


@pytest.fixture
def page(browser, file):
    opened = browser.open(file)
    yield opened
    assert not opened.complaints and not opened.requests


def test_it_loads_without_a_complaint_or_a_request(page):
    assert page.evaluate("document.title").startswith("Which units")
    tools = page.evaluate("document.querySelectorAll('.plot .tools').length")
    assert tools == page.evaluate("document.querySelectorAll('.plot:not(.rate-rows)').length")


def test_the_driver_hears_complaints_and_requests(browser, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<script>console.error('no'); throw Error('x')</script><img src='http://127.0.0.1:9/x.png'>"
    )
    opened = browser.open(bad)
    settle(opened, "document.images[0].complete")
    assert any("no" in each for each in opened.complaints) and opened.requests == [
        "http://127.0.0.1:9/x.png"
    ]


def test_without_scripts_everything_is_there_but_the_buttons(browser, file):
    """Text and drawings are all in the file.

    A picture of the page without scripts is a picture of the same page.
    """
    opened = browser.open(file, scripts=False)
    tree = parse(file.read_text(encoding="utf-8"))
    assert not tree.all("button") and not tree.all("input") and len(tree.all("figure", "plot")) > 10
    assert not opened.complaints and not opened.requests


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1000, 390])
def test_it_is_dark_or_light_and_fits_its_window(page, tmp_path, dark, width):
    picture = Image.open(page.screenshot(tmp_path / "page.png", dark=dark, width=width)).convert(
        "L"
    )
    assert picture.width == width  # nothing sticks out
    shades = list(picture.resize((40, 60)).tobytes())
    assert len(set(shades)) > 10 and (sum(shades) / len(shades) < 100) is dark


def test_long_names_do_not_widen_the_page(browser, tmp_path):
    text = json.dumps(made_study(3, models=("conv", "mlp")))
    text = text.replace('"silu"', f'"{"s" * 100}"').replace('"conv"', f'"{"c" * 100}"')
    result = ComparisonResult(*json.loads(text))
    (tmp_path / "long.html").write_text(comparison_page(result), encoding="utf-8")
    opened = browser.open(tmp_path / "long.html")
    for width in (1000, 390):
        opened.look(width=width)
        assert opened.evaluate("document.documentElement.scrollWidth") == width
    assert not opened.complaints


def test_no_text_in_a_drawing_is_smaller_on_a_narrow_screen(page):
    sizes = []
    for width in (1000, 390):
        page.look(width=width)
        sizes.append(
            page.evaluate(
                "Math.min(...[...document.querySelectorAll('svg text')]"
                ".map(t => t.getBoundingClientRect().height).filter(height => height))"
            )
        )
    assert sizes[0] == pytest.approx(sizes[1], rel=0.01) and sizes[1] >= 11


def test_labels_of_one_axis_do_not_touch(page):
    for width in (1000, 390):
        page.look(width=width)
        touching = page.evaluate("""[...document.querySelectorAll('svg.across')].filter(axis => {
            const boxes = [...axis.querySelectorAll('text')].map(t => t.getBoundingClientRect())
                .filter(box => box.width);
            return boxes.some((b, i) => i && b.left < boxes[i - 1].right + 2);}).length""")
        assert touching == 0


CHART = "document.querySelector('.many .plot:not(.small)')"


def test_zoom_shows_a_part_with_its_own_ticks_and_comes_back(page):
    before = page.evaluate(f"{CHART}.outerHTML")
    page.click(".many .plot:not(.small) .tools button:nth-child(1)")
    box = [
        float(v)
        for v in page.evaluate(f"{CHART}.querySelector('svg.data').getAttribute('viewBox')").split()
    ]
    assert box == pytest.approx([187.5, 187.5, 625, 625])
    # every tick still stands at its own value
    off = page.evaluate(f"""(() => {{
        const axis = {CHART}.querySelector('svg.across');
        const low = +axis.dataset.low, high = +axis.dataset.high;
        return Math.max(...[...axis.querySelectorAll('text')].map(t => {{
            const value = +t.textContent.replaceAll(',', '').replace('\\u2212', '-');
            const at = ((value - low) / (high - low) * 1000 - {box[0]}) / {box[2]} * 100;
            return Math.abs(at - parseFloat(t.getAttribute('x')));}}));}})()""")
    assert off < 0.01
    page.click(".many .plot:not(.small) .tools button:nth-child(3)")
    after = page.evaluate(f"{CHART}.outerHTML")
    assert (
        page.evaluate(f"{CHART}.querySelector('svg.data').getAttribute('viewBox')")
        == "0 0 1000 1000"
    )
    for each in (
        "text",
        "line",
        "path",
        "svg",
    ):  # all drawn things are there again, in their places
        assert sorted(node_texts(before, each)) == sorted(node_texts(after, each))


def node_texts(html: str, tag: str) -> list[str]:
    found = parse(f"<div>{html}</div>").all(tag)
    skip = {"style", "hidden", "tabindex"}
    return [
        str(sorted((k, v) for k, v in n.attributes.items() if k not in skip)) + n.text
        for n in found
    ]


def test_zoomed_charts_move_with_the_pointer(page):
    page.click(".many .plot:not(.small) .tools button:nth-child(1)")
    x, y, width = page.evaluate(f"""(() => {{
            const b = {CHART}.querySelector('svg.field').getBoundingClientRect();
        return [b.x + b.width / 2, b.y + b.height / 2, b.width];}})()""")
    page.mouse("mousePressed", x, y, button="left", clickCount=1)
    page.mouse("mouseMoved", x - width / 10, y, button="left", buttons=1)
    page.mouse("mouseReleased", x - width / 10, y, button="left")
    left = float(
        page.evaluate(f"{CHART}.querySelector('svg.data').getAttribute('viewBox')").split()[0]
    )
    assert left == pytest.approx(187.5 + 62.5, abs=1)


def test_the_wheel_zooms_only_with_a_modifier(page):
    page.evaluate(f"{CHART}.scrollIntoView({{block: 'center'}})")
    x, y = page.evaluate(f"""(() => {{
            const b = {CHART}.querySelector('svg.field').getBoundingClientRect();
        return [b.x + b.width / 2, b.y + b.height / 2];}})()""")
    view = f"{CHART}.querySelector('svg.data').getAttribute('viewBox')"
    wheel = (
        "new WheelEvent('wheel', "
        "{{deltaY: -100, ctrlKey: {}, clientX: {}, clientY: {}, cancelable: true}})"
    )
    page.evaluate(
        f"{CHART}.querySelector('svg.field').dispatchEvent({wheel.format('false', x, y)})"
    )
    assert page.evaluate(view) == "0 0 1000 1000"
    page.evaluate(f"{CHART}.querySelector('svg.field').dispatchEvent({wheel.format('true', x, y)})")
    assert [float(v) for v in page.evaluate(view).split()] == pytest.approx(
        [100, 100, 800, 800], abs=2
    )


def test_a_series_can_be_hidden_and_shown(page):
    shown = f"getComputedStyle({CHART}.querySelector('g[data-series=\"1\"]')).display"
    assert page.evaluate(shown) == "inline"
    page.click(".many .plot:not(.small) .legend button")
    assert page.evaluate(shown) == "none"
    page.click(".many .plot:not(.small) .legend button")
    assert page.evaluate(shown) == "inline"


def copied(page, how: str) -> str:
    """The first paired table, copied."""
    page.evaluate(KEEP_COPY)
    tables = "[...document.querySelectorAll('.kit-table')]"
    at = f"{tables}.find(t => t.textContent.includes('plateau'))"
    page.evaluate(
        f"[...{at}.querySelectorAll('.tools button')].find(b => b.textContent === '{how}').click()"
    )
    settle(page, f"{at}.querySelector('[role=status]').textContent === 'copied'")
    return page.evaluate("window.copied")


def test_a_copy_as_csv_holds_the_numbers_in_full_and_no_formula(page):
    found = list(csv.reader(io.StringIO(copied(page, "CSV"))))
    assert found[0][:3] == ["unit", "verdict", "at the peak"] and len(found) == 1 + len(UNITS)
    by_name = {row[0]: dict(zip(found[0], row, strict=True)) for row in found}
    assert "'=elu <b>| & _" in by_name
    for column in ("at the peak", "difference"):
        assert len(by_name["silu"][column]) > 8 and float(by_name["silu"][column])
    assert all("\N{MINUS SIGN}" not in cell for row in found for cell in row)


def test_a_copy_as_markdown_is_one_table_whatever_the_names(page):
    lines = copied(page, "Markdown").splitlines()
    assert lines[1].startswith("| --- | --- | ---: |") and len(lines) == 2 + len(UNITS)
    assert any("=elu \\<b\\>\\| & _" in line for line in lines)


def test_a_copy_as_latex_is_escaped(page):
    text = copied(page, "LaTeX")
    assert (
        "\\begin{tabular}{llrrrrrrlr}" in text
        and "=elu \\textless{}b\\textgreater{}| \\& \\_" in text
    )
    assert "$-$" in text and "\N{MINUS SIGN}" not in text
    assert all(line.count(" & ") == 9 for line in text.splitlines() if line.endswith("\\\\"))


def test_long_tables_can_be_filtered(page):
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    shown = """(() => {
        const boxes = [...document.querySelectorAll('.kit-table')];
        const box = boxes.find(t => t.querySelector('input'));
        const input = box.querySelector('input');
        input.value = 'PSC';
        input.dispatchEvent(new Event('input'));
        const rows = [...box.querySelectorAll('tbody tr')].filter(r => !r.hidden);
        return rows.map(r => r.cells[0].textContent);})()"""
    assert page.evaluate(shown) == ["psc"] * 6


def test_everything_can_be_reached_and_worked_by_keyboard(page):
    page.evaluate(f"{CHART}.querySelector('.tools button').focus()")
    for kind in ("keyDown", "keyUp"):
        page.call(
            "Input.dispatchKeyEvent", type=kind, key="+", text="+" if kind == "keyDown" else ""
        )
    assert page.evaluate(f"{CHART}.classList.contains('zoomed')")


@pytest.mark.parametrize("width", [1280, 1000])
def test_the_table_of_numbers_is_not_cut_off(page, width):
    page.look(width=width)
    cut = page.evaluate("""[...document.querySelectorAll('.kit-table .scroll')].filter(
        box => box.scrollWidth > box.clientWidth).length""")
    assert cut == 0


def test_the_halves_of_a_row_stack_on_a_narrow_screen(page):
    beside = """(() => {
        const row = [...document.querySelectorAll('.rate-row')].find(r => r.querySelector('b'));
        const [left, right] = [...row.querySelectorAll('svg.field')].map(
            svg => svg.getBoundingClientRect());
        return right.left >= left.right;})()"""
    for width, wanted in ((1280, True), (400, False)):
        page.look(width=width)
        assert page.evaluate(beside) is wanted


def test_on_paper_there_are_no_buttons(page):
    page.look(print=True)
    assert page.evaluate(
        "[...document.querySelectorAll('.tools')]"
        ".every(t => getComputedStyle(t).display === 'none')"
    )
