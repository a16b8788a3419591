"""The page of a diagnosis, from its plain record."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gatewise.errors import ArgumentError
from gatewise.extensions import load_extensions
from gatewise.files import make_folder, write_text
from gatewise.report.charts import Cell, Chart, Series, Table
from gatewise.report.diagnosis import (
    gate_sections,
    map_sections,
    training_sections,
    unit_sections,
    weight_sections,
)
from gatewise.report.diagnosis.explanations import EXPLANATIONS
from gatewise.report.diagnosis.fact_tables import folded_table, show_facts, shown
from gatewise.report.diagnosis.layer_charts import (
    Facts,
    layer_labels,
    percent,
    with_layer_names,
)
from gatewise.report.diagnosis.overview import SUSPECT, WARNING, overview
from gatewise.report.sheet import Code, Folded, Section, Sheet, Text, sheet_page
from gatewise.units import registered_units

FORMAT = "gatewise diagnosis 2"
FIRST = 2  # the section of the first question, after the answers
GENERIC = {"Sequential", "Module", "ModuleList", "GraphModule"}
NOT_TRUSTED = f"{WARNING} This depends on the inputs, which are probably preprocessed wrongly."
# Questions whose facts name activations, where a page names the layers before them.
BY_ACTIVATION = {"gates", "overlap", "invariance", "flips", "cost"}
MOST_NAMES = 7  # questions whose names fit below a chart
PAGE, RECORD = "index.html", "diagnosis.json"
# What the section of a question shows, by the name of the question. Any other question has a
# section with its facts in tables. Other packages add theirs with `show_question`.
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
        links = _links(diagnosis)
        sheet = _sheet(diagnosis, links)
        top = overview(diagnosis, links)
        return sheet_page(sheet, template="diagnosis.html", style="diagnosis.css", top=top)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as problem:
        if isinstance(problem, ArgumentError):
            raise
        reason = f"{type(problem).__name__}: {problem}"
        raise ArgumentError(
            f"page: the diagnosis is not complete ({reason})",
            fix="diagnose the model again",
        ) from problem


def _links(diagnosis: Mapping[str, Any]) -> dict[str, str]:
    """The address of the section of each answered question."""
    links = {}
    for question in diagnosis["questions"]:
        if question["state"] == "answered":
            links[question["name"]] = f"#section-{FIRST + len(links)}"
    return links


def show_question(name: str, show: Callable[[Facts], list[Any]]) -> None:
    """Add the section of a question.

    Args:
        name: the name of the question.
        show: returns the items of the section for the facts of an answer.
    """
    SHOWN[name] = show


def _section_of(name: str) -> Callable[[Facts], list[Any]]:
    """Return what the section of a question shows."""
    if name not in SHOWN:
        load_extensions("questions")
    return SHOWN.get(name, show_facts)


def _sheet(diagnosis: Mapping[str, Any], links: Mapping[str, str]) -> Sheet:
    """The sections below the top of the page: answers, then one section per question."""
    questions = diagnosis["questions"]
    suspect = diagnosis["input_check"]["state"] == SUSPECT
    sections = [
        Section("Questions and answers", _answers(questions, links, suspect)),
    ]
    labels = layer_labels(diagnosis["layers"])
    for question in questions:
        if question["name"] not in links:
            continue
        show = _section_of(question["name"])
        facts = question["facts"]
        if question["name"] in BY_ACTIVATION:
            facts = with_layer_names(facts, labels)
        words = [question["line"], EXPLANATIONS.get(question["name"], "")]
        items: list[Any] = [*(Text([each]) for each in words if each), *show(facts)]
        if suspect and question.get("reads_inputs", True):
            items.insert(0, Text([[Cell(NOT_TRUSTED, look="down")]]))
        sections.append(Section(question["title"], items))
    if diagnosis["more"]:
        sections.append(Section("More analyses", _more(diagnosis)))
    rows = diagnosis["layers"]
    sections.append(Section("All layers", [folded_table(rows, LAYER_COLUMNS, "layers")]))
    sections.append(Section("How this was made", _how(diagnosis)))
    return Sheet(_title(diagnosis), _about(diagnosis), [], sections, "diagnosis", contents=False)


def _more(diagnosis: Mapping[str, Any]) -> list[Any]:
    """The questions that were not asked, and how to ask them."""
    rows = [[title, name] for name, title in diagnosis["more"].items()]
    return [
        Text(["These analyses were not computed. Name them, or ask all:"]),
        Code(diagnosis["ask_all"]),
        Table(["question", "name"], rows, align="ll"),
    ]


def _title(diagnosis: Mapping[str, Any]) -> str:
    """``SqueezeNet: what its 26 relu layers do``."""
    units = {row["unit"] for row in diagnosis["layers"]}
    count = len(diagnosis["layers"])
    what = "what its activation functions do"
    if len(units) == 1:
        unit = next(iter(units))
        kind = registered_units()[unit].module.__name__ if unit in registered_units() else unit
        layers = f"{count} {kind} layers do" if count > 1 else f"{kind} layer does"
        what = f"what its {layers}"
    model = diagnosis["model"]["class"]
    # A class such as Sequential is no name.
    name = diagnosis["name"] if model in GENERIC else model
    return f"{name}: {what}"


def _about(diagnosis: Mapping[str, Any]) -> str:
    """Size of the model, and the inputs."""
    channels = sum(row["channels"] for row in diagnosis["layers"])
    words = f"{diagnosis['model']['parameters']:,} parameters"
    if channels:
        count = len(diagnosis["layers"])
        activations = "1 activation" if count == 1 else f"{count} activations"
        words += f", {activations} with {channels:,} channels"
    return f"{diagnosis['name']}: {words}. Inputs: {diagnosis['data']['about']}."


LAYER_COLUMNS = {
    "layer": "layer",
    "unit": "unit",
    "on means": "on",
    "channels": "channels",
    "compute": shown("operations_share", percent),
    "parameters": "parameters",
    "on": shown("on_rate", percent),
    "dead": "dead",
    "always off": "always_off",
    "always on": "always_on",
    "bits": "entropy",
    "shared gates": shown("overlap", percent),
    "opposite": "opposite",
    "random": "opposite_random",
    "reads": lambda row: ", ".join(row["reads"]) or "input",
}


def _answers(questions: Sequence[Facts], links: Mapping[str, str], suspect: bool) -> list[Any]:
    """One row per question, with a link to its section, and tracebacks of failed questions."""
    rows = []
    tracebacks = []
    for question in questions:
        words = question["line"]
        link = ""
        look = ""
        if question["state"] == "answered":
            link = links[question["name"]]
            if suspect and question.get("reads_inputs", True):
                words = f"{WARNING} {words}"
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
