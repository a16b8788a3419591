"""The page of a diagnosis, from its plain record."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gatewise.errors import ArgumentError
from gatewise.files import make_folder, write_text
from gatewise.report.charts import Cell, Chart, Series, Table, Words
from gatewise.report.diagnosis import (
    gate_sections,
    map_sections,
    training_sections,
    unit_sections,
    weight_sections,
)
from gatewise.report.diagnosis.generic_section import show_facts
from gatewise.report.diagnosis.layer_charts import Facts
from gatewise.report.sheet import Code, Folded, Section, Sheet, Text, sheet_page

FORMAT = "gatewise diagnosis 2"
MOST_NAMES = 7  # questions whose names fit below a chart
PAGE, RECORD = "index.html", "diagnosis.json"
# What the section of a question shows, by the name of the question. Any other question has a
# section with its facts in tables.
SHOWN: dict[str, Callable[[Facts], list[Any]]] = {
    **gate_sections.SHOWN,
    **weight_sections.SHOWN,
    **map_sections.SHOWN,
    **training_sections.SHOWN,
    **unit_sections.SHOWN,
}


def write_diagnosis(diagnosis: Mapping[str, Any], folder: str | Path) -> tuple[Path, Path]:
    """Write the page of a diagnosis and its record as JSON.

    Args:
        diagnosis: What ``Diagnosis.to_dict()`` returns.
        folder: Where to write both files. It is created if it does not exist.

    Returns:
        The paths of the page and of the record.
    """
    home = Path(folder)
    page = diagnosis_page(diagnosis)
    make_folder(home)
    write_text(home / RECORD, json.dumps(diagnosis, indent=1, allow_nan=False) + "\n")
    write_text(home / PAGE, page)
    return home / PAGE, home / RECORD


def is_diagnosis(record: object) -> bool:
    """Return whether these are the plain values of a diagnosis."""
    return isinstance(record, Mapping) and record.get("format") == FORMAT


def diagnosis_page(diagnosis: Mapping[str, Any]) -> str:
    """Return the page as one HTML text that needs no other file and no network.

    Args:
        diagnosis: What ``Diagnosis.to_dict()`` returns.

    Raises:
        ArgumentError: If this is not a diagnosis, or a part of it is missing.
    """
    if not is_diagnosis(diagnosis):
        raise ArgumentError(
            "page: this is not a diagnosis", got=type(diagnosis).__name__, allowed=FORMAT
        )
    try:
        return sheet_page(_sheet(diagnosis))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as problem:
        if isinstance(problem, ArgumentError):
            raise
        reason = f"{type(problem).__name__}: {problem}"
        raise ArgumentError(
            f"page: the diagnosis is not complete ({reason})",
            fix="run gatewise diagnose again",
        ) from problem


def _sheet(diagnosis: Mapping[str, Any]) -> Sheet:
    """The page as a record: summary, advice, answers, one section per question."""
    questions = diagnosis["questions"]
    advice = diagnosis["advice"]
    sections = []
    answered = [question for question in questions if question["state"] == "answered"]
    first = 3 if advice else 2  # the number of the first section of a question
    numbers = {question["name"]: first + place for place, question in enumerate(answered)}
    if advice:
        sections.append(Section("Evidence and commands", _advice(advice, numbers)))
    sections.append(Section("Questions and answers", _answers(questions, numbers)))
    for question in answered:
        show = SHOWN.get(question["name"], show_facts)
        items = [Text([question["line"]]), *show(question["facts"])]
        sections.append(Section(question["title"], items))
    sections.append(Section("How this was made", _how(diagnosis)))
    parameters = diagnosis["model"]["parameters"]
    about = f"{parameters:,} parameters, measured on {diagnosis['data']['about']}."
    title = f"{diagnosis['name']}: what its activation functions do"
    summary = _summary(diagnosis, len(answered))
    return Sheet(title, about, summary, sections, "diagnosis", contents=False)


def _summary(diagnosis: Mapping[str, Any], answered: int) -> list[Words]:
    """What to do, whether the inputs are real, and how many questions were answered."""
    lines: list[Words] = []
    for place, advice in enumerate(diagnosis["advice"], 1):
        lines.append(f"{place}. {advice['text']}")
    if not lines:
        lines.append("No problems found. The measurements are below.")
    if not diagnosis["data"]["real"]:
        words = (
            " No data were given. The results about weights hold; "
            "those about gates, regions and images describe random inputs."
        )
        lines.append([Cell("Random inputs.", look="down"), words])
    asked = len(diagnosis["questions"])
    words = f"{answered} of {asked} questions answered."
    if answered < asked:
        words += " The table gives the reason for the others."
    lines.append([Cell(words, look="mute")])
    return lines


def _advice(advice: Sequence[Facts], numbers: Mapping[str, int]) -> list[Any]:
    """The evidence and the command of each piece of advice, in the order of the summary."""
    items: list[Any] = []
    for place, entry in enumerate(advice, 1):
        question = entry["question"]
        link = f"#section-{numbers[question]}" if question in numbers else ""
        source = Cell(question, link=link)
        items.append(Text([[f"{place}. {entry['evidence']} (", source, ")"]]))
        items.append(Code(entry["command"]))
    return items


def _answers(questions: Sequence[Facts], numbers: Mapping[str, int]) -> list[Any]:
    """One row per question, with a link to its section, and tracebacks of failed questions."""
    rows = []
    tracebacks = []
    for question in questions:
        words = question["line"]
        link = ""
        look = ""
        if question["state"] == "answered":
            link = f"#section-{numbers[question['name']]}"
        else:
            look = "down" if question["state"] == "failed" else "mute"
            if question["detail"]:
                words += f" ({question['detail']})"
        seconds = question["seconds"]
        rows.append(
            [
                Cell(question["title"], link=link, look=look),
                Cell(words, look=look),
                Cell(f"{seconds:.1f}", value=seconds),
            ]
        )
        if question.get("traceback"):
            summary = f"Traceback of the failure: {question['title']}"
            tracebacks.append(Folded(summary, [Code(question["traceback"])]))
    return [Table(["question", "answer", "s"], rows, align="llr"), *tracebacks]


def _how(diagnosis: Mapping[str, Any]) -> list[Any]:
    """Versions, inputs, and the time of the slowest questions."""
    slowest = sorted(diagnosis["questions"], key=lambda question: -question["seconds"])
    points = []
    names = []
    for place, question in enumerate(slowest[:MOST_NAMES]):
        points.append((place, question["seconds"]))
        names.append(question["name"])
    versions = ", ".join(f"{name} {version}" for name, version in diagnosis["versions"].items())
    shapes = "; ".join("x".join(map(str, shape)) for shape in diagnosis["data"]["shapes"])
    return [
        Text(
            [
                f"{diagnosis['seconds']:.0f} s in total, with {versions}.",
                f"Inputs: {diagnosis['data']['about']}; shape of each: {shapes}. "
                f"All numbers are in {RECORD} next to this page.",
            ]
        ),
        Chart(
            "Time per question",
            "The slowest questions.",
            "question",
            "seconds",
            [Series("seconds", points, kind="bars")],
            x_names=names,
        ),
    ]
