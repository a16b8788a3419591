"""The page of a comparison says what was shown, and no text of a study becomes markup."""

import copy
import json
import math
import random
import re
from itertools import pairwise
from typing import Any

import pytest
from gatewise.report.comparison.findings import read_findings
from gatewise.studies.older import Study
from report.made_study import BACKBONES, UNITS, made_study, made_tuned_study, write_study
from report.parsed import Node, parse, rows

from gatewise.errors import GatewiseError
from gatewise.report.comparison import comparison_page, write_comparison
from gatewise.report.comparison.page import comparison_sheet

PAYLOADS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onload='alert(1)",
    "javascript:alert(1)",
    "</style><script>alert(1)</script>",
    "</svg><iframe src=//evil.example>",
    "<!--",
    "--><i>",
    "{{ 7*7 }}",
    "{% raw %}",
    "&lt;b&gt;",
    "\0\x1b[31m",
    "https://evil.example/x",
    "</title><base href=//evil>",
    "<" * 300,
    "é\ud7ff\U0001f600",
    "../../etc/passwd",
    "`${1}`",
    "=cmd|' /C calc'!A0",
    "</script><script>alert(1)</script>",
    "\u202egnp.exe",
    "%2e%2e/x",
    "]]><b>",
    "__proto__",
    "constructor",
)
SAFE_LINK = re.compile(r"#(main|section-\d+)|cells/[\w-]+/")


def few() -> dict[str, Any]:
    """Small, and without the resampling that takes a page's time: two seeds have no intervals."""
    return made_study(2, units=UNITS[:3])


def answer(result: dict[str, Any]) -> str:
    return parse(comparison_page(result)).one("div", "answer").text


def with_values(result: dict[str, Any], values: Any) -> dict[str, Any]:
    """The study with the accuracy of every run set to ``values(unit, backbone, seed)``."""
    for record in result["records"]:
        value = values(record["unit"], record["backbone"], record["seed"])
        record["metrics"] = {"test_accuracy": value, "test_loss": 1 - value}
    return result


def test_what_differs_is_said_and_what_does_not_is_not():
    said = answer(made_study())
    assert re.search(r"conv 16-32-32: psc \+\d\.\d\d", said) and "are better than relu" in said
    assert re.search(r"Undecided: [^.]*leaky_relu", said) and "no difference" not in said.lower()


def test_units_that_are_equal_are_never_coloured():
    chance = random.Random(1)  # noqa: S311
    noise = with_values(made_study(10, troubles=False), lambda *_: 0.9 + chance.gauss(0, 0.01))
    page = parse(comparison_page(noise))
    verdicts = {
        row["verdict"].text
        for table in page.all("table")
        if table.all("thead") and "p (corrected)" in table.one("thead").text
        for row in rows(table)
    }
    assert verdicts <= {"undecided", "undecided: depends on normality", "the baseline"}
    assert not page.one("div", "answer").all("b", "up") and not page.one("div", "answer").all(
        "b", "down"
    )
    assert not [row for figure in page.all("figure", "forest") for row in figure.all("tr", "c-up")]
    assert not [
        cell
        for table in page.all("table")
        for cell in [*table.all("td", "up"), *table.all("td", "down")]
    ]


def test_fewer_than_three_seeds_have_no_interval_and_that_is_said():
    page = parse(comparison_page(made_study(2, troubles=False)))
    said = page.one("div", "answer").text
    assert "Undecided (fewer than three seeds): " in said and "better than relu" not in said
    assert not page.all("path", "interval")
    assert all(not cell.text.startswith("p 0") for cell in page.all("td", "p"))


def test_an_order_that_reverses_is_said_and_not_averaged():
    said = parse(comparison_page(made_study())).text
    assert (
        "Reversed: iieu_b is better than relu on mlp 128-128 and worse on conv 16-32-32 "
        "(corrected for all blocks)." in said
    )


def test_units_that_change_places_without_crossing_the_baseline_are_said_too():
    gaps = {"relu": (0, 0), "leaky_relu": (0.05, 0.02), "swish": (0.02, 0.05)}
    chance = random.Random(0)  # noqa: S311

    def value(unit: str, backbone: str, seed: int) -> float:
        return 0.9 + gaps[unit][BACKBONES.index(backbone)] + chance.gauss(0, 0.002)

    study = with_values(made_study(10, units=UNITS[:3], troubles=False), value)
    said = parse(comparison_page(study)).text
    assert "Reversed" not in said
    assert (
        "leaky_relu is ahead of swish on conv 16-32-32 and behind it on mlp 128-128 "
        "(tested pair by pair, corrected for all pairs and blocks)" in said
    )


def test_for_a_loss_less_is_better():
    result = made_study(10, troubles=False) | {"metric": "test_loss"}
    said = answer(result)
    assert (
        re.search(r"psc \N{MINUS SIGN}0\.\d{3}.* better than relu", said) and "points" not in said
    )


def test_runs_that_are_missing_are_said_with_what_follows():
    page = parse(comparison_page(made_study()))
    assert "157 of 160 runs finished" in page.text
    assert "1 run not done yet (soft_relu), 1 run failed (psc)" in page.text
    assert "Diverged runs: beta_vq abs 1. A diverged run is a result" in page.text
    assert (
        "worker lost three times" in page.text and "the loss was not finite at step 12" in page.text
    )


def test_a_study_that_has_only_begun_has_a_page():
    result = made_study(10)
    for kept in (0, 1, 5):
        page = comparison_page(result | {"records": result["records"][:kept]})
        assert "nothing to compare with relu yet" in page or kept == 5


def test_one_unit_one_seed_one_backbone():
    result = made_study(1, units=("relu", "swish"), troubles=False)
    keep = [cell for cell in result["cells"] if cell["backbone"] == BACKBONES[0]]
    page = parse(comparison_page(result | {"cells": keep}))
    assert "fewer than three seeds" in page.text and "mean rank" not in page.text
    alone = [cell for cell in keep if cell["unit"] == "relu"]
    assert "nothing to compare with relu yet" in comparison_page(result | {"cells": alone})


def test_unequal_rates_and_machines_are_said():
    result = made_study(6, units=UNITS[:2], troubles=False)
    for cell in result["cells"]:
        if cell["unit"] == "leaky_relu":
            cell["config"]["recipe"]["optimiser"]["lr"] = 0.01
    result["records"][0]["environment"]["torch"] = "2.6.0"
    said = parse(comparison_page(result)).text
    assert "Not tuned: the units were trained with the learning rates that were given" in said
    assert "Not equal, recipe.optimiser.lr: leaky_relu on conv 16-32-32 0.01" in said
    assert "Not equal, machines: torch" in said and "2.6.0 (1 runs)" in said


def test_the_study_on_the_page_is_the_study():
    plain = Study.load("demo").plain
    page = parse(comparison_page(few() | {"study": plain}))
    text = next(node for node in page.all("code") if "units = " in node.text)
    assert (
        Study.read("".join(each for each in text.children if isinstance(each, str))).plain == plain
    )


def test_links_lead_to_the_runs_from_where_the_page_lies(tmp_path):
    study = tmp_path / "demo" / "study"
    for out, way in (
        (study / "report.html", "cells/"),
        (tmp_path / "demo" / "report.html", "study/cells/"),
        (tmp_path / "x" / "y.html", None),
    ):
        out.parent.mkdir(parents=True, exist_ok=True)
        write_comparison(few(), out, study)
        links = [
            a.attributes["href"]
            for a in parse(out.read_text()).all("a")
            if "#" not in a.attributes["href"]
        ]
        assert all(link.startswith(way) for link in links) and bool(links) if way else not links


def test_a_diagnosis_in_a_run_s_folder_is_told_and_linked(tmp_path):
    result = few()
    folder = write_study(tmp_path / "study", result)
    good, bad, empty = (
        folder / "cells" / record["key"] / "diagnosis.json" for record in result["records"][:3]
    )
    good.write_text(json.dumps({"advice": [{"text": "swap <b>conv1</b> for crelu"}]}))
    bad.write_text("{")
    empty.write_text(json.dumps({"advice": []}))
    write_comparison(result, folder / "report.html", folder)
    page = parse((folder / "report.html").read_text())
    section = next(
        s
        for s in page.all("section")
        if s.all("h2") and s.one("h2").text == "Diagnoses of single runs"
    )
    assert "swap <b>conv1</b> for crelu" in section.text and len(section.all("details")) == 2
    assert section.one("a").attributes["href"] == f"cells/{result['records'][0]['key']}/index.html"
    assert "Diagnoses of single runs" not in comparison_page(result)


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"study": {}},
        [],
        None,
        {"study": {}, "cells": [], "records": [], "baseline": "relu"},
        few() | {"cells": [{}]},
        few() | {"baseline": "gelu"},
        few() | {"records": [1]},
        few() | {"cells": None},
    ],
    ids=range(9),
)
def test_what_is_no_study_is_refused_in_words(broken):
    with pytest.raises(GatewiseError) as caught:
        comparison_page(broken)
    assert str(caught.value).startswith("report:")


def test_the_page_is_the_same_every_time():
    assert comparison_page(made_study(4)) == comparison_page(made_study(4))


def test_the_page_can_fetch_nothing_and_runs_one_script_that_is_ours():
    page = comparison_page(few())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert (
        policy.startswith("default-src &#39;none&#39;; style-src &#39;sha256-")
        and "unsafe" not in policy
    )
    assert len(parse(page).all("script")) == 1
    assert not re.search(
        r"https?:|//[a-z]|url\(|@import|javascript:|eval\(|innerHTML",
        page.replace("http-equiv", "").replace("// ", ""),
    )


def test_headings_are_in_order_and_every_name_is_there_once():
    page = parse(comparison_page(made_study(3)))
    levels = [int(node.tag[1]) for node in page.walk() if re.fullmatch("h[1-6]", node.tag)]
    assert levels[0] == 1 and levels.count(1) == 1 and all(b - a <= 1 for a, b in pairwise(levels))
    names = [node.attributes["id"] for node in page.walk() if "id" in node.attributes]
    assert len(names) == len(set(names))
    inside = [
        a.attributes["href"][1:] for a in page.all("a") if a.attributes["href"].startswith("#")
    ]
    assert inside and set(inside) <= set(names)


def kinds(page: Node) -> set[tuple[str, tuple[str, ...]]]:
    return {(node.tag, tuple(sorted(node.attributes))) for node in page.walk()}


KNOWN = (
    kinds(parse(comparison_page(made_study(3))))
    | kinds(parse(comparison_page(made_study(6, troubles=False))))
    | kinds(parse(comparison_page(made_tuned_study(3))))
)


def nothing_added(page: str) -> None:
    tree = parse(page)
    assert kinds(tree) <= KNOWN
    assert len(tree.all("script")) == 1 and len(tree.all("style")) == 1
    assert all(SAFE_LINK.fullmatch(a.attributes["href"]) for a in tree.all("a"))
    assert all(
        re.fullmatch(r"[a-z0-9 -]*", node.attributes.get("class", "")) for node in tree.walk()
    )


def with_text(value: Any, payload: str) -> Any:
    """``value`` with ``payload`` in every string and every key of free tables there is in it."""
    if isinstance(value, dict):
        return {key: with_text(each, payload) for key, each in value.items()}
    if isinstance(value, list):
        return [with_text(each, payload) for each in value]
    return payload if isinstance(value, str) else value


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_hostile_names_of_units_backbones_and_reasons_are_text(payload):
    text = json.dumps(few())
    safe = json.dumps(payload)[1:-1]
    for name in (
        "relu",
        "leaky_relu",
        "swish",
        *BACKBONES,
        "adamw 60",
        "worker lost three times",
        "threads",
        "widths",
    ):
        text = text.replace(f'"{name}"', f'"{safe}{name}"')
    nothing_added(comparison_page(json.loads(text)))


def string_places(value: Any, path: tuple = ()) -> list[tuple]:
    if isinstance(value, dict):
        return [p for key, each in value.items() for p in string_places(each, (*path, key))]
    if isinstance(value, list):
        return [p for i, each in enumerate(value) for p in string_places(each, (*path, i))]
    return [path] if isinstance(value, str) else []


def each_field(result: dict[str, Any]) -> list[tuple]:
    """One place of every kind of string field: of lists, only the first two entries."""
    return [
        path
        for path in string_places(result)
        if all(not isinstance(step, int) or step < 2 for step in path)
    ]


def whole() -> dict[str, Any]:
    """A study with everything that a page can show: tuned, with a margin, and left-out units."""
    left_out = [{"unit": "psc", "backbone": "mlp", "data": "digits", "reason": "does not fit"}]
    damaged = [{"key": "00", "problem": "cut off"}]
    return made_tuned_study(3) | {"left_out": left_out, "damaged": damaged, "margin": 0.005}


@pytest.mark.thorough
@pytest.mark.parametrize("path", each_field(whole()), ids=lambda path: ".".join(map(str, path)))
def test_hostile_text_in_each_single_field_adds_nothing(path):
    """Some fields then make no sense, and are refused in words."""
    for payload in PAYLOADS[:2]:
        result = copy.deepcopy(whole())
        place = result
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = payload
        try:
            nothing_added(comparison_page(result))
        except GatewiseError as refused:
            assert re.match("report:|compare|metric:|mode:", str(refused))


def all_places(value: Any, path: tuple = ()) -> list[tuple]:
    """Every place in the plain values: of lists, only the first entry."""
    if isinstance(value, dict):
        inside = [p for key, each in value.items() for p in all_places(each, (*path, key))]
    elif isinstance(value, list) and value:
        inside = all_places(value[0], (*path, 0))
    else:
        inside = []
    return [path, *inside] if path else inside


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(None, marks=pytest.mark.thorough),
        pytest.param("x", marks=pytest.mark.thorough),
        *(
            pytest.param(value, marks=pytest.mark.slow)
            for value in (7, math.nan, [], {}, [None], {"a": 1})
        ),
    ],
    ids=str,
)
def test_a_value_of_the_wrong_type_is_shown_or_refused_in_words(wrong):
    """A study file can be edited by hand."""
    study = whole()
    for path in all_places(study):
        result = copy.deepcopy(study)
        place = result
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = wrong
        try:
            findings = read_findings(result)
            findings.result.to_dict()
            comparison_sheet(findings, None, {})
        except GatewiseError:
            pass
        except Exception as problem:
            raise AssertionError(f"{path} = {wrong!r}") from problem


@pytest.mark.slow
def test_a_thousand_made_up_payloads_add_nothing():
    pieces = [*PAYLOADS, "<", ">", '"', "'", "&", "=", "/", " ", "on", "x"]
    for seed in range(1000):
        payload = "".join(random.Random(seed).choices(pieces, k=6))  # noqa: S311
        result = with_text(made_study(2, units=UNITS[:2], troubles=False), payload)
        for i, (cell, record) in enumerate(zip(result["cells"], result["records"], strict=True)):
            cell["key"] = record["key"] = f"{payload}{i}"
            cell["unit"] = result["baseline"] if i % 2 else f"other {payload}"
            record["status"] = "finished"
        nothing_added(comparison_page(result))


def test_the_check_would_see_an_added_element():
    with pytest.raises(AssertionError):
        nothing_added(comparison_page(few()).replace("<h1>", "<h1><img src=x onerror=x>"))
