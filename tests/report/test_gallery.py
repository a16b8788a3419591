"""The gallery page: no text becomes markup, nothing is fetched, headings are in order."""

import base64
import dataclasses
import hashlib
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from typing import Any

import pytest

from gatewise.report import Card, Curve, ErrorRow, Fact, Gallery, Kink, Line, Plot
from gatewise.report.gallery import gallery_page

PAYLOADS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onload='alert(1)",
    "javascript:alert(1)",
    "]]><b>",
    "</style><script>alert(1)</script>",
    "</svg><iframe src=//evil.example>",
    "<!--",
    "--><i>",
    "{{ 7*7 }}",
    "{% raw %}",
    "&lt;b&gt;",
    "\0\x1b[31m",
    "https://evil.example/x",
    "url(https://evil.example)",
    "\u202egnp.exe",
    "</title><base href=//evil>",
    r"\begin{cases}<b>\end{cases}",
    "$<b>$",
    r"\mathrm{<b onclick=1>}",
    "<" * 500,
    "é\ud7ff\U0001f600",
    "@import 'x'",
    "`${1}`",
)


def line(part: str = "") -> Line:
    return Line(
        part, ((-4.0, 0.0), (0.0, 0.0), (4.0, 4.0)), ((-4.0, 0.0), (0.0, float("nan")), (4.0, 1.0))
    )


def error(**changes: Any) -> ErrorRow:
    row = ErrorRow("float16", "forward", 65536, "1 ulp", 1.0, -2.0, 1e-7, 0.5, True, 3.0, 1e-3)
    return dataclasses.replace(row, **changes)


def card(**changes: Any) -> Card:
    plot = Plot(
        (Curve("default", (line("a"), line("b"))), Curve("b = 2", (line(),))),
        (Kink(0.0, (0.0, 0.0), 0.0),),
        "about",
    )
    made = Card(
        name="plain",
        title="Plain unit",
        family="soft",
        formula=r"\max(x, 0)",
        call="gw.create_unit('plain')",
        channels="1",
        parameters="beta",
        note="a note",
        facts=(Fact("Kinks", "none"),),
        plot=plot,
        errors=(error(),),
    )
    return dataclasses.replace(made, **changes)


def gallery(*cards: Card) -> Gallery:
    return Gallery(
        "1.0",
        "a machine",
        cards or (card(),),
        (Fact("soft", "soft gates"),),
        (Fact("maso", "a paper"),),
    )


class Structure(HTMLParser):
    """Elements with the names of their attributes, and what could fetch or run something."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.links: list[str] = []
        self.headings: list[int] = []
        self.ids: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.elements.append((tag, tuple(found)))
        self.links += [
            v or ""
            for k, v in attrs
            if k in ("href", "src", "srcset", "action", "xlink:href", "data", "poster")
        ]
        self.ids += [found["id"] or ""] if "id" in found else []
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))

    handle_startendtag = handle_starttag


def with_text(record: Any, payload: str) -> Any:
    """``record`` with ``payload`` in every string there is in it."""
    if isinstance(record, str):
        return payload
    if isinstance(record, tuple):
        return tuple(with_text(item, payload) for item in record)
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        changes = {
            f.name: with_text(getattr(record, f.name), payload) for f in dataclasses.fields(record)
        }
        return dataclasses.replace(record, **changes)
    return record


def string_fields(record: Any, path: tuple = ()) -> list[tuple]:
    """The place of every string in ``record``."""
    if isinstance(record, str):
        return [path]
    if isinstance(record, tuple):
        return [p for i, item in enumerate(record) for p in string_fields(item, (*path, i))]
    if dataclasses.is_dataclass(record):
        return [
            p
            for f in dataclasses.fields(record)
            for p in string_fields(getattr(record, f.name), (*path, f.name))
        ]
    return []


def with_one(record: Any, path: tuple, payload: str) -> Any:
    """``record`` with ``payload`` at one place."""
    if not path:
        return payload
    head, *rest = path
    if isinstance(record, tuple):
        return tuple(
            with_one(item, tuple(rest), payload) if i == head else item
            for i, item in enumerate(record)
        )
    return dataclasses.replace(
        record, **{head: with_one(getattr(record, head), tuple(rest), payload)}
    )


def structure_without_formulas(page: str) -> list[tuple[str, tuple[str, ...]]]:
    """The elements, leaving out those of formulas."""
    page = re.sub(r'<code class="formula-text">.*?</code>', "<eq>", page, flags=re.DOTALL)
    return Structure(page).elements


PLAIN = structure_without_formulas(gallery_page(gallery()))


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_hostile_text_everywhere_adds_no_element_and_no_attribute(payload):
    page = gallery_page(with_text(gallery(), payload))
    assert structure_without_formulas(page) == PLAIN
    assert all(
        link.startswith("#unit-") or link in ("#units", "#index") for link in Structure(page).links
    )
    assert all(re.fullmatch(r"[a-z][a-z0-9_-]*", found) for found in Structure(page).ids)


@pytest.mark.parametrize("path", string_fields(gallery()), ids=lambda p: ".".join(map(str, p)))
def test_hostile_text_in_each_single_field_adds_nothing(path):
    for payload in PAYLOADS[:9]:
        assert structure_without_formulas(gallery_page(with_one(gallery(), path, payload))) == PLAIN


@pytest.mark.slow
def test_a_thousand_made_up_payloads_add_nothing():
    import random

    pieces = [*PAYLOADS, "<", ">", '"', "'", "&", "=", "/", " ", "on", "x"]
    for seed in range(1000):
        payload = "".join(random.Random(seed).choices(pieces, k=6))  # noqa: S311
        assert structure_without_formulas(gallery_page(with_text(gallery(), payload))) == PLAIN


def test_the_check_would_see_an_added_element():
    assert (
        structure_without_formulas(gallery_page(gallery()).replace("a note", "<b>a note</b>"))
        != PLAIN
    )


def test_the_page_can_fetch_nothing_and_run_only_its_own_script():
    page = gallery_page(gallery())
    assert page.count("<script>") == 1
    script = page[page.index("<script>") + 8 : page.index("</script>")]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src &#39;sha256-{digest}&#39;" in page
    page = page.replace(script, "").replace("<script></script>", "")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy and policy[1].startswith("default-src &#39;none&#39;; style-src &#39;sha256-")
    found = Structure(page)
    assert not {tag for tag, _ in found.elements} & {
        "script",
        "link",
        "img",
        "iframe",
        "object",
        "embed",
        "form",
        "base",
    }
    assert not [
        name
        for _, names in found.elements
        for name in names
        if name.startswith("on") or name == "style"
    ]
    assert not re.search(
        r"https?:|//[a-z]|url\(|@import|javascript:", page.replace("http-equiv", "")
    )


def test_headings_are_in_order_and_drawings_have_a_label():
    page = gallery_page(gallery(card(), card(name="other")))
    found = Structure(page)
    assert found.headings[0] == 1 and found.headings.count(1) == 1
    assert all(b - a <= 1 for a, b in zip(found.headings, found.headings[1:], strict=False))
    assert len(found.ids) == len(set(found.ids))
    nested = [names for tag, names in found.elements if tag == "svg" and "x" not in names]
    assert nested and all("aria-label" in names or "aria-hidden" in names for names in nested)
    assert all(target[1:] in found.ids for target in found.links)


def test_units_of_one_name_get_anchors_of_their_own():
    ids = Structure(gallery_page(gallery(card(), card(), card(name="A B")))).ids
    assert len(ids) == len(set(ids)) and {"unit-plain", "unit-2", "unit-3"} <= set(ids)


def test_the_answer_comes_first_and_tells_the_truth():
    assert "The one unit measured stays within its error bound" in " ".join(
        gallery_page(gallery()).split()
    )
    assert "All 2 units stay within their error bound" in gallery_page(
        gallery(card(), card(name="b"))
    )
    assert "1 of 2 units exceeds its error bound" in gallery_page(
        gallery(card(), card(name="b", errors=(error(kept=False),)))
    )
    assert "without measuring" in gallery_page(gallery(card(errors=())))


def test_torch_s_columns_are_there_only_where_torch_has_the_function():
    assert "torch’s largest" in gallery_page(gallery())
    without = error(torch_ulps=None, torch_absolute=None)
    assert "torch’s largest" not in gallery_page(gallery(card(errors=(without,))))


def test_the_page_does_not_say_that_torch_returns_nan():
    """Torch's functions do so at infinities only."""
    text = gallery_page(gallery())
    assert "returns NaN" not in text and "return NaN" not in text
    assert not any("nan" in field.name for field in dataclasses.fields(ErrorRow))


def test_a_formula_is_shown_as_text():
    odd = gallery(card(formula=r"\nonsense{\alpha}"))
    assert '<code class="formula-text">nonsenseα</code>' in gallery_page(odd)


def test_the_page_is_the_same_every_time():
    assert gallery_page(gallery()) == gallery_page(gallery())


def contrast(one: str, other: str) -> float:
    """The contrast of two colours as WCAG defines it."""

    def luminance(colour: str) -> float:
        full = colour if len(colour) == 7 else "#" + "".join(2 * c for c in colour[1:])
        parts = [int(full[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_text_and_lines_stand_out_in_light_dark_and_print():
    sheets = re.findall(r":root\{([^}]*)\}", gallery_page(gallery()))
    themes = [sheet for sheet in sheets if "--bg:" in sheet]
    assert len(themes) == 3
    for theme in themes:
        colours = dict(re.findall(r"--([a-z]+):(#[0-9a-f]+)", theme))
        for back in ("bg", "card"):
            assert all(
                contrast(colours[ink], colours[back]) >= 4.5
                for ink in ("ink", "mute", "up", "down", "base")
            )
            assert all(contrast(colours[drawn], colours[back]) >= 3 for drawn in ("two", "light"))


@pytest.mark.browser
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_browser_opens_the_page_without_complaint(tmp_path, dark):
    """Also looks at the picture: it must not be one colour, and dark must be dark."""
    from PIL import Image

    (tmp_path / "page.html").write_text(
        gallery_page(gallery(card(), card(name="b"))), encoding="utf-8"
    )
    log = open_in_browser(tmp_path, dark)
    assert not [text for text in log.splitlines() if "CONSOLE" in text or "Refused" in text], log
    with Image.open(tmp_path / "page.png") as picture:
        small = picture.convert("L").resize((40, 60))
    shades = list(small.tobytes())
    assert len(set(shades)) > 10
    assert (sum(shades) / len(shades) < 100) is dark


def open_in_browser(folder, dark: bool) -> str:
    """Take a picture of ``page.html`` and return what the browser logged."""
    browser = next(
        found
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (found := shutil.which(name))
    )
    quiet = "--disable-gpu --disable-quic --no-first-run --disable-background-networking"
    quiet += " --disable-component-update --disable-sync"
    look = (
        ["--blink-settings=preferredColorScheme=0"]
        if dark
        else ["--blink-settings=preferredColorScheme=1"]
    )
    result = subprocess.run(
        [
            browser,
            "--headless",
            "--no-sandbox",
            *quiet.split(),
            *look,
            f"--user-data-dir={folder}/profile",
            "--hide-scrollbars",
            "--enable-logging=stderr",
            "--v=0",
            "--window-size=1000,1500",
            f"--screenshot={folder}/page.png",
            (folder / "page.html").as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env=dict(os.environ),
    )
    return result.stderr


@pytest.mark.parametrize(
    "measured, words, at",
    [
        ({"ulps": 0.0, "absolute": 0.0}, "exact", None),
        ({"ulps": 2.0, "absolute": 0.0}, "2 ulp", -2.0),
        ({"ulps": 7e4, "absolute": 1e-8}, "1e−8 absolute", 0.5),
        ({"ulps": 7e4, "absolute": 1e-2, "kept": False}, "7e4 ulp, 0.01 absolute", 0.5),
    ],
)
def test_the_largest_error_is_in_the_measure_that_decides(measured, words, at):
    row = error(**measured)
    assert (row.largest, row.largest_at) == (words, at)
