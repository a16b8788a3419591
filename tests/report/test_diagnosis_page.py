"""The page of a diagnosis: what it shows is what was found, and no name in it is ever markup."""

import copy
import json
import random
from typing import Any

import pytest
import torch
from report.parsed import Node, number, parse, rows
from torch import nn

import gatewise as gw
from gatewise.errors import ArgumentError
from gatewise.report.diagnosis import diagnosis_page, write_diagnosis

PAYLOADS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</style><b>",
    "{{ 7*7 }}",
    "javascript:alert(1)",
    "]]><svg/onload=alert(1)>",
    "&lt;b&gt;&#x3c;",
    "\u202e\u0000</title><base href=//x>",
]
# Words that decide what is drawn, and bytes of pictures: another text there is another diagnosis,
# refused or not drawn.
DECIDING = {"format", "state", "bytes"}


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    """A real diagnosis with every question answered, one failed, one that does not apply."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 6, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(24, 4),
    )
    model[0].weight.data[4:] = -model[0].weight.data[:4]
    model[0].bias.data[0] = -100.0
    x, y = torch.randn(16, 3, 8, 8), torch.arange(16) % 3
    earlier = {name: 0.9 * value + 0.02 for name, value in model.state_dict().items()}
    made = gw.diagnose(
        model, [(x, y)], seconds=1.0, name="a network", checkpoints=[earlier], questions="all"
    ).to_dict()
    made["questions"] += [
        {
            "name": "lost",
            "title": "A lost question?",
            "state": "failed",
            "line": "Failed: it.",
            "reason": None,
            "detail": "RuntimeError: it",
            "seconds": 0.1,
            "facts": {},
        },
        {
            "name": "other",
            "title": "Another question?",
            "state": "does not apply",
            "line": "Does not apply: so.",
            "reason": "no images",
            "detail": "rows",
            "seconds": 0.0,
            "facts": {},
        },
    ]
    return made


@pytest.fixture(scope="module")
def page(record) -> Node:
    return parse(diagnosis_page(record))


def table_of(page: Node, *columns: str) -> list[dict[str, Node]]:
    found = [
        table
        for table in page.all("table")
        if set(columns) <= {cell.text for cell in table.one("thead").all("th")}
    ]
    return rows(found[0])


def test_every_question_has_its_row_and_every_answered_one_its_section(page, record) -> None:
    shown = {row["question"].text: row for row in table_of(page, "question", "answer", "s")}
    assert set(shown) == {each["title"] for each in record["questions"]}
    sections = {
        node.attributes["id"]: node for node in page.all("section") if "id" in node.attributes
    }
    for each in record["questions"]:
        row = shown[each["title"]]
        assert each["line"] in row["answer"].text
        links = row["question"].all("a")
        if each["state"] == "answered":
            assert sections[links[0].attributes["href"][1:]].one("h2").text == each["title"]
        else:
            assert not links and each["detail"] in row["answer"].text


def test_the_numbers_are_those_of_the_record(page, record) -> None:
    facts = {each["name"]: each["facts"] for each in record["questions"]}
    layers = {row["site"]: row["layer"] for row in record["layers"]}
    for row, layer in zip(
        table_of(page, "layer", "random filters"), facts["pairing"]["layers"], strict=True
    ):
        assert row["layer"].text == layer["layer"]
        assert float(row["mean"].attributes["data-value"]) == layer["mean"]
        assert number(row["random filters"].text) == pytest.approx(layer["chance_mean"], abs=0.0051)
        assert float(row["most similar"].attributes["data-value"]) == layer["similar_mean"]
        assert float(row["p of signs"].attributes["data-value"]) == layer["p_phases_corrected"]
    for row, site in zip(
        table_of(page, "after layer", "dead", "alike"), facts["gates"]["sites"], strict=True
    ):
        assert row["after layer"].text.startswith(layers[site["site"]])
        assert number(row["dead"].text) == len(site["dead"])
        assert number(row["always off"].text) == len(site["always_off"])
        assert number(row["channels"].text) == site["channels"]
        assert float(row["bits"].attributes["data-value"]) == site["entropy"]
    for row, layer in zip(
        table_of(page, "layer", "overlap"), facts["orthogonality"]["layers"], strict=True
    ):
        assert float(row["overlap"].attributes["data-value"]) == layer["overlap"] / layer["filters"]
        assert float(row["frame, low"].attributes["data-value"]) == layer["frame_bounds"][0]
    regions = {
        row[""].text: row["in the window"].text for row in table_of(page, "", "in the window")
    }
    assert number(regions["regions"]) == facts["partition"]["count"]
    counts = [facts["partition"]["count"], *(frame["count"] for frame in facts["film"]["frames"])]
    assert [drawn_regions(node) for node in page.all("figure", "regions")] == counts


def drawn_regions(figure: Node) -> int:
    return sum(node.attributes["d"].count("M") for node in figure.all("path", "region"))


def test_the_bound_of_theorem_2_2_stands_with_its_eigenvalues(page, record) -> None:
    facts = next(each["facts"] for each in record["questions"] if each["name"] == "reconstruction")
    shown = table_of(page, "smallest eigenvalue", "bound", "error")
    assert len(shown) == len(facts["bound"]["images"]) == 4
    for row, each in zip(shown, facts["bound"]["images"], strict=True):
        for column, key in (
            ("smallest eigenvalue", "least"),
            ("largest", "largest"),
            ("bound", "bound"),
            ("error", "ratio"),
        ):
            if each[key] is None:
                assert row[column].text == ""
            else:
                assert float(row[column].attributes["data-value"]) == each[key]


def test_a_film_has_a_picture_a_checkpoint_and_flips_a_row_a_site(page, record) -> None:
    facts = {each["name"]: each["facts"] for each in record["questions"]}
    film = page.one("figure", "film")
    titles = [each.one("figcaption").one("b").text for each in film.all("figure", "regions")]
    assert titles == facts["film"]["names"] == ["checkpoint 1", "now"]
    for row, site in zip(
        table_of(page, "after layer", "checkpoint 1 to now"),
        facts["flips"]["steps"][0]["sites"],
        strict=True,
    ):
        layers = [each["layer"] for each in record["layers"] if each["site"] == site["site"]]
        assert row["after layer"].text.startswith(layers[0])
        assert float(row["checkpoint 1 to now"].attributes["data-value"]) == site["flipped"]


def test_a_soft_film_is_of_pictures(record) -> None:
    changed = copy.deepcopy(record)
    facts = next(each for each in changed["questions"] if each["name"] == "film")["facts"]
    facts |= {
        "exact": False,
        "frames": [{"mean": 0.5, "entropy": [[0.0, 1.0], [0.5, 0.5]]}] * 2,
        "given": 9,
    }
    page = parse(diagnosis_page(changed))
    assert (
        len(page.one("figure", "film").all("img")) == 2
        and "2 of 9 checkpoints are shown" in page.text
    )


def test_a_question_without_a_section_of_its_own_shows_its_facts(record) -> None:
    changed = copy.deepcopy(record)
    facts = {
        "score": 0.123456,
        "holds": True,
        "unknown": None,
        "names": ["a", "b"],
        "long": list(range(40)),
        "nested": {"inner_count": 1234},
        "layers": [{"layer": "conv1", "size": 2.5}, {"layer": "<b>", "other": [1, 2]}],
        "nothing": [],
    }
    changed["questions"].append(
        {
            "name": "brand_new",
            "title": "A new question?",
            "state": "answered",
            "line": "Yes.",
            "reason": None,
            "detail": "",
            "seconds": 0.1,
            "facts": facts,
        }
    )
    page = parse(diagnosis_page(changed))
    page = next(node for node in page.all("section") if "A new question?" in node.text[:60])
    shown = {row["fact"].text: row["value"] for row in table_of(page, "fact", "value")}
    assert float(shown["score"].attributes["data-value"]) == 0.123456
    assert {name: cell.text for name, cell in shown.items() if name != "score"} == {
        "holds": "yes",
        "unknown": "",
        "names": "a, b",
        "long": "40 values",
        "nested, inner count": "1,234",
    }
    layers = table_of(page, "layer", "size", "other")
    assert [row["layer"].text for row in layers] == ["conv1", "<b>"]
    assert layers[1]["other"].text == "1, 2"


def test_the_traceback_of_a_failure_is_folded_below_the_answers(record) -> None:
    changed = copy.deepcopy(record)
    failed = next(each for each in changed["questions"] if each["name"] == "lost")
    failed["traceback"] = "Traceback <most recent call last>"
    page = parse(diagnosis_page(changed))
    folded = [node for node in page.all("details") if "A lost question?" in node.text]
    assert [node.one("pre").text for node in folded] == ["Traceback <most recent call last>"]
    assert "Traceback" not in parse(diagnosis_page(record)).text


def test_advice_stands_with_its_evidence_and_its_command(page, record) -> None:
    assert record["advice"]
    found = page.one("div", "find")
    items = found.all("li")
    assert len(items) == len(record["advice"]) <= 3
    for item, each in zip(items, record["advice"], strict=True):
        for key in ("title", "effect", "effect_of", "text", "evidence"):
            assert each[key] in item.text
        assert f"Evidence: {each['strength']}." in item.text
        assert item.one("code").text == each["command"]


def test_the_layers_stand_with_their_numbers(page, record) -> None:
    shown = [node for node in page.all("div") if "row" in node.attributes.get("class", "").split()]
    assert len(shown) == len(record["layers"]) > 0
    for node, row in zip(shown, record["layers"], strict=True):
        assert row["layer"] in node.text and row["on"] in node.text
        assert f"{row['dead']:,} of {row['channels']:,}" in node.text
    table = table_of(page, "layer", "on means", "shared gates")
    for cells, row in zip(table, record["layers"], strict=True):
        assert cells["unit"].text == row["unit"] and cells["on means"].text == row["on"]
        assert number(cells["dead"].text) == row["dead"]
        assert number(cells["always off"].text) == row["always_off"]


@pytest.mark.parametrize("state", ["passed", "suspect", "not checked"])
@pytest.mark.parametrize("known", [True, False])
def test_the_input_check_comes_first_and_marks_what_depends_on_inputs(record, state, known) -> None:
    changed = copy.deepcopy(record)
    changed["input_check"] |= {"state": state, "line": "The result: 9 of 10 agree."}
    changed["data"] |= {"preprocessing": "scaled by a guess", "preprocessing_known": known}
    page = parse(diagnosis_page(changed))
    check = next(n for n in page.all("div") if "check" in n.attributes.get("class", "").split())
    assert "9 of 10 agree" in check.text
    if not known:
        assert "scaled by a guess" in check.text
        assert ("not known" in check.text) == (state != "suspect")
    marked = [node for node in page.all("section") if "preprocessed wrongly" in node.text]
    titles = {node.one("h2").text for node in marked}
    expected = set()
    for each in changed["questions"]:
        if state == "suspect" and each["state"] == "answered" and each["reads_inputs"]:
            expected.add(each["title"])
    assert titles == expected


def test_pictures_are_in_the_page_and_nothing_else_is_fetched(page, record) -> None:
    sources = [node.attributes["src"] for node in page.all("img")]
    assert len(sources) > 20 and all(each.startswith("data:image/png;base64,") for each in sources)
    assert all(node.attributes["href"].startswith("#") for node in page.all("a"))
    policy = next(
        node.attributes["content"] for node in page.all("meta") if "http-equiv" in node.attributes
    )
    assert (
        policy.startswith("default-src 'none'")
        and "unsafe" not in policy
        and "img-src data:;" in policy
    )


def test_the_pages_bytes_are_the_same_every_time(record) -> None:
    assert diagnosis_page(record) == diagnosis_page(json.loads(json.dumps(record)))


def places(value: Any, path: tuple = ()) -> list[tuple]:
    """Where there are strings, but for those that decide what is drawn."""
    if isinstance(value, str):
        return [path]
    if isinstance(value, list):
        return [each for i, item in enumerate(value) for each in places(item, (*path, i))]
    if isinstance(value, dict):
        deciding = DECIDING | ({"name"} if "facts" in value else set())
        return [
            each
            for key, item in value.items()
            if key not in deciding
            for each in places(item, (*path, key))
        ]
    return []


def replaced(record: Any, where: list[tuple], payload: str) -> Any:
    changed = copy.deepcopy(record)
    for *way, last in where:
        home = changed
        for key in way:
            home = home[key]
        home[last] = payload
    return changed


def structure(page: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(node.tag, tuple(node.attributes)) for node in parse(page).walk()]


@pytest.mark.slow
@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_hostile_text_everywhere_adds_no_element_and_no_attribute(record, payload) -> None:
    where = places(record)
    plain = structure(diagnosis_page(replaced(record, where, "plain")))
    assert structure(diagnosis_page(replaced(record, where, payload))) == plain


@pytest.mark.slow
def test_a_thousand_made_up_payloads_add_nothing(record) -> None:
    where = places(record)
    plain = structure(diagnosis_page(replaced(record, where, "plain")))
    pieces = [*PAYLOADS, "<", ">", '"', "'", "&", "=", "/", " ", "on", "x"]
    for seed in range(1000):
        payload = "".join(random.Random(seed).choices(pieces, k=6))  # noqa: S311  not for secrets
        assert structure(diagnosis_page(replaced(record, where, payload))) == plain, payload


def test_a_hostile_layer_name_of_a_model_is_text() -> None:
    model = nn.Sequential()
    model.add_module("<img src=x onerror=alert(1)>", nn.Linear(4, 6))
    model.add_module("unit", nn.ReLU())
    made = gw.diagnose(
        model, torch.randn(5, 4), questions=["sites", "pairing"], name="</title><script>"
    )
    found = parse(diagnosis_page(made.to_dict()))
    assert len(found.all("script")) == 1 and not found.all("img")
    assert "<img src=x onerror=alert(1)>" in found.text


DAMAGE = {
    "no questions": lambda record: record.pop("questions"),
    "no facts": lambda record: record["questions"][1].update(facts={}),
    "facts no mapping": lambda record: record["questions"][1].update(facts=[]),
    "text for a number": lambda record: record["questions"][0].update(seconds="long"),
    "cut picture": lambda record: _first_picture(record).update(bytes="AAAA"),
    "huge picture": lambda record: _first_picture(record).update(height=10**9),
}


def _first_picture(record: dict[str, Any]) -> dict[str, Any]:
    facts = next(each["facts"] for each in record["questions"] if each["name"] == "pairing")
    return facts["pictures"][0]["pixels"]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_record_is_an_error_of_ours(record, damage) -> None:
    changed = copy.deepcopy(record)
    DAMAGE[damage](changed)
    with pytest.raises(ArgumentError):
        diagnosis_page(changed)


@pytest.mark.parametrize("given", [{}, {"format": "other"}, [], None], ids=str)
def test_what_is_no_diagnosis_has_no_page(given, tmp_path) -> None:
    with pytest.raises(ArgumentError):
        diagnosis_page(given)
    with pytest.raises(ArgumentError):
        gw.write_page(given, tmp_path / "page.html")


def test_page_and_record_are_written_side_by_side(record, tmp_path) -> None:
    page, beside = write_diagnosis(record, tmp_path / "new" / "folder")
    assert json.loads(beside.read_text()) == record and page.read_text() == diagnosis_page(record)
    assert gw.write_page(record, tmp_path / "page.html").read_text() == page.read_text()
