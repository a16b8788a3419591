"""The page of a diagnosis, from its plain record."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gatewise.errors import ArgumentError
from gatewise.files import make_folder, write_text
from gatewise.report.charts import Cell, Chart, Series, Table, Words
from gatewise.report.diagnosis import gate_sections as diagnosis_gates
from gatewise.report.diagnosis import map_sections as diagnosis_maps
from gatewise.report.diagnosis import training_sections as diagnosis_training
from gatewise.report.diagnosis import unit_sections as diagnosis_units
from gatewise.report.diagnosis import weight_sections as diagnosis_weights
from gatewise.report.sheet import Code, Section, Sheet, Text, sheet_page

FORMAT = "gatewise diagnosis 1"
LONGEST = 7  # questions whose names fit under a chart
PAGE, RECORD = "index.html", "diagnosis.json"
Facts = Mapping[str, Any]
# What each question's section shows, by the question's name: text, charts, tables and pictures.
SHOWN: dict[str, Callable[[Facts], list[Any]]] = {
    **diagnosis_gates.SHOWN,
    **diagnosis_weights.SHOWN,
    **diagnosis_maps.SHOWN,
    **diagnosis_training.SHOWN,
    **diagnosis_units.SHOWN,
}


def write_diagnosis(diagnosis: Mapping[str, Any], folder: str | Path) -> tuple[Path, Path]:
    """Write the page and the record itself as JSON into ``folder``, made if need be.

    Returns both paths.
    """
    home = Path(folder)
    page = diagnosis_page(diagnosis)
    make_folder(home)
    write_text(home / RECORD, json.dumps(diagnosis, indent=1, allow_nan=False) + "\n")
    write_text(home / PAGE, page)
    return home / PAGE, home / RECORD


def is_diagnosis(record: object) -> bool:
    """Whether these are the plain values of a diagnosis."""
    return isinstance(record, Mapping) and record.get("format") == FORMAT


def diagnosis_page(diagnosis: Mapping[str, Any]) -> str:
    """One HTML text that needs no other file and no network, from ``Diagnosis.to_dict()``."""
    if not is_diagnosis(diagnosis):
        raise ArgumentError(
            "page: is not a diagnosis of ours", got=type(diagnosis).__name__, allowed=FORMAT
        )
    try:
        return sheet_page(_sheet(diagnosis))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as problem:
        if isinstance(problem, ArgumentError):
            raise
        reason = f"{type(problem).__name__}: {problem}"
        raise ArgumentError(
            f"page: the diagnosis is not whole ({reason})", fix="make it anew"
        ) from problem


def _sheet(found: Mapping[str, Any]) -> Sheet:
    questions, advice = found["questions"], found["advice"]
    answered = [each for each in questions if each["state"] == "answered"]
    first = 3 if advice else 2  # the number of the first question's section
    places = {each["name"]: first + place for place, each in enumerate(answered)}
    sections = [Section("Evidence and commands", _advice(advice, places))] * bool(advice)
    sections.append(Section("Questions and answers", [_answers(questions, places)]))
    sections += [Section(each["title"], _shown(each)) for each in answered]
    sections.append(Section("How this was made", _how(found)))
    about = f"{found['model']['parameters']:,} parameters, looked at with {found['data']['about']}."
    title = f"What {found['name']} does with its inputs"
    return Sheet(title, about, _summary(found, answered), sections, "diagnosis", contents=False)


def _summary(found: Mapping[str, Any], answered: Sequence[Facts]) -> list[Words]:
    """What to do, and how much was found out."""
    lines: list[Words] = [
        f"{place}. {each['text']}" for place, each in enumerate(found["advice"], 1)
    ]
    if not lines:
        lines = [
            "Nothing that was found supports advice. What was found is below, question by question."
        ]
    if not found["data"]["real"]:
        rest = " No data were given: what is said of weights stands; gates, regions and images are those of noise."
        lines.append([Cell("Random inputs.", look="down"), rest])
    asked = len(found["questions"])
    others = "" if len(answered) == asked else "; the others say why not"
    lines.append([Cell(f"{len(answered)} of {asked} questions answered{others}.", look="mute")])
    return lines


def _advice(advice: Sequence[Facts], places: Mapping[str, int]) -> list[Any]:
    """The evidence and the command of each piece of advice, in the order of the summary."""
    items: list[Any] = []
    for place, each in enumerate(advice, 1):
        link = f"#section-{places[each['question']]}" if each["question"] in places else ""
        source = Cell(each["question"], link=link)
        items += [Text([[f"{place}. {each['evidence']} (", source, ")"]]), Code(each["command"])]
    return items


def _answers(questions: Sequence[Facts], places: Mapping[str, int]) -> Table:
    """One row a question; those that were answered lead to their section."""
    rows = []
    for each in questions:
        done = each["state"] == "answered"
        link = f"#section-{places[each['name']]}" if done else ""
        words = each["line"] if done or not each["detail"] else f"{each['line']} ({each['detail']})"
        look = "" if done else "down" if each["state"] == "failed" else "mute"
        first = Cell(each["title"], link=link, look=look)
        rows.append(
            [first, Cell(words, look=look), Cell(f"{each['seconds']:.1f}", value=each["seconds"])]
        )
    return Table(["question", "answer", "s"], rows, align="llr")


def _shown(question: Facts) -> list[Any]:
    show = SHOWN.get(question["name"])
    return [Text([question["line"]]), *(show(question["facts"]) if show else [])]


def _how(found: Mapping[str, Any]) -> list[Any]:
    questions = sorted(found["questions"], key=lambda each: -each["seconds"])[:LONGEST]
    taken = Series(
        "seconds", [(place, each["seconds"]) for place, each in enumerate(questions)], kind="bars"
    )
    names = [each["name"] for each in questions]
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    shapes = "; ".join("x".join(map(str, each)) for each in found["data"]["shapes"])
    inputs = f"Inputs: {found['data']['about']}; each of shape {shapes}. All numbers are in {RECORD} beside this page."
    return [
        Text([f"{found['seconds']:.0f} s in all, with {versions}.", inputs]),
        Chart(
            "Where the time went",
            "The questions that took longest.",
            "question",
            "seconds",
            [taken],
            x_names=names,
        ),
    ]
