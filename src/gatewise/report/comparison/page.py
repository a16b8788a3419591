"""The page of a comparison: the answer first, then every difference, cost and run behind it."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gatewise.files import write_text
from gatewise.report.charts import Chart, Panels
from gatewise.report.comparison import figures as charts
from gatewise.report.comparison import runs as runs
from gatewise.report.comparison import tables as tables
from gatewise.report.comparison.answer import answer
from gatewise.report.comparison.diagnoses import diagnosis_items, read_diagnoses
from gatewise.report.comparison.fairness import fairness
from gatewise.report.comparison.findings import Findings, findings
from gatewise.report.comparison.toml_format import toml_text
from gatewise.report.sheet import Code, Folded, Section, Sheet, Text, sheet_page

AGAIN = (
    "Save the study below as study.toml, and run it. Runs that are done are not run again. "
    "The same versions on the same kind of processor give the same bits."
)
AGAIN_OWN = {
    "gw.compare": "This was gw.compare in Python, on a model and data that no file describes: the same call with the "
    "same folder as out goes on where it was, and runs nothing twice.",
    "recorder": "These runs were recorded from other training loops: run those again, into another folder.",
}


def comparison_page(
    result: Mapping[str, Any],
    *,
    folder: str | None = "",
    diagnoses: Mapping[str, Mapping[str, Any]] | None = None,
) -> str:
    """The page of a study from its plain result.

    One HTML text that needs no other file and no network.

    ``folder`` is the way from the page to the study's folder, for links to the runs: ``""`` if the
    page lies in it, ``"study"`` if the page lies beside it, None for no links. ``diagnoses`` are
    the plain records of diagnoses of some runs, by their keys.
    """
    return sheet_page(comparison_sheet(findings(result), folder, diagnoses or {}))


def write_comparison(
    result: Mapping[str, Any], out: str | Path, study: str | Path | None = None
) -> Path:
    """Write the page of a study to the file ``out``, with links to the runs if their folder ``study`` is below it."""
    target = Path(out)
    found, way, diagnoses = findings(result), None, {}
    if study is not None:
        way, diagnoses = (
            _way(target, Path(study)),
            read_diagnoses(Path(study), [run.key for run in found.runs]),
        )
    write_text(target, sheet_page(comparison_sheet(found, way, diagnoses)))
    return target


def _way(page: Path, study: Path) -> str | None:
    """From the page to the study's folder, if that is where the page lies or below."""
    here, there = page.resolve().parent, study.resolve()
    way = there.relative_to(here).as_posix() if there.is_relative_to(here) else None
    return "" if way == "." else way


def comparison_sheet(
    found: Findings, folder: str | None, diagnoses: Mapping[str, Mapping[str, Any]]
) -> Sheet:
    """The page as a record."""
    sections = [
        Section(f"Against {found.baseline}, pair by pair", list(_pairs(found))),
        Section("What it costs", list(_costs(found))),
        Section("Learning curves", list(_curves(found))),
        Section("What was equal, and what was not", list(_fair(found))),
        Section("The numbers", list(_numbers(found))),
        Section("Diagnoses of single runs", list(diagnosis_items(found, diagnoses, folder))),
        Section("Runs", list(_runs(found, folder))),
        Section("How to run this again", list(_again(found))),
    ]
    title = found.title or f"{len(found.units)} units: who differs from {found.baseline}?"
    kept = [section for section in sections if section.items]
    return Sheet(title, _about(found), answer(found), kept, kind="compare")


def _about(found: Findings) -> str:
    finished, parts = (
        sum(run.status == "finished" for run in found.runs),
        zip(*(run.block for run in found.runs), strict=True),
    )
    kinds = [
        (len(set(names)), what)
        for names, what in zip(parts, ("backbone", "data set", "recipe"), strict=True)
    ]
    counts = [(len(found.units), "unit"), *kinds, (len({run.seed for run in found.runs}), "seed")]
    said = ", ".join(f"{n} {what}{'s' * (n > 1)}" for n, what in counts)
    return f"{said}: {finished} of {len(found.runs)} runs finished. gatewise {found.version}"


def _pairs(found: Findings) -> Iterator[Any]:
    shown = list(charts.forests(found))
    yield Text(
        [
            charts.how_to_read(found)
            if shown
            else "No unit has finished a seed that the baseline has finished too."
        ]
    )
    yield from shown


def _costs(found: Findings) -> Iterator[Any]:
    for block in found.blocks:
        shown = list(charts.cost_charts(found, block))
        drawn = [each for each in shown if isinstance(each, Chart)]
        said = [each for each in shown if isinstance(each, str)]
        left_out = f"No chart for {', '.join(said)}." if said else ""
        if shown:
            yield Panels(
                block.name, f"The differences above against what they cost. {left_out}", drawn
            )
        yield tables.cost_table(block)


def _curves(found: Findings) -> Iterator[Any]:
    metric = found.metric
    panels = [
        charts.curve_panels(found, block, metric.key, metric.factor, metric.label)
        for block in found.blocks
    ]
    yield from (each for each in panels if each)
    loss = [
        charts.curve_panels(found, block, "train_loss", 1.0, "training loss")
        for block in found.blocks
    ]
    if shown := [each for each in loss if each]:
        yield Folded("Training loss", shown)


def _fair(found: Findings) -> Iterator[Any]:
    yield Text(fairness(found), points=True)
    if tuned := tables.tuned_table(found):
        yield tuned


def _numbers(found: Findings) -> Iterator[Any]:
    yield from _tables(found, tables.paired_table)
    if ranks := tables.rank_table(found):
        yield Text([tables.rank_words(found)])
        yield ranks
    if seeds := _tables(found, tables.seeds_table):
        yield Folded("Seeds needed to show a difference", seeds)


def _tables(found: Findings, make: Any) -> list[Any]:
    made = [make(found, block) for block in found.blocks]
    return [table for table in made if table]


def _runs(found: Findings, folder: str | None) -> Iterator[Any]:
    if failed := runs.failed_table(found):
        yield failed
    yield Folded(f"All {len(found.runs)} runs", [runs.runs_table(found, folder)])
    if environment := runs.environment_table(found):
        yield Folded("Environment", [environment])


def _again(found: Findings) -> Iterator[Any]:
    if found.origin:
        return (yield Text([AGAIN_OWN[found.origin]]))
    yield Text([AGAIN])
    yield Code("gatewise compare study.toml --out study")
    yield Folded("study.toml", [Code(toml_text(found.study))])
