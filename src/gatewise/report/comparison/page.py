"""The page of a comparison: the answer first, then every difference, cost and run."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gatewise.files import write_text
from gatewise.report.charts import Chart, Forest, Panels, Table
from gatewise.report.comparison import figures, runs, tables
from gatewise.report.comparison.answer import answer_words, further_words
from gatewise.report.comparison.diagnoses import diagnosis_items, read_diagnoses
from gatewise.report.comparison.fairness import fairness_lines
from gatewise.report.comparison.findings import Block, Findings, read_findings
from gatewise.report.comparison.limits import MOST_BLOCKS, MOST_TABLES
from gatewise.report.comparison.rate_figures import rate_items
from gatewise.report.comparison.toml_format import toml_text
from gatewise.report.sheet import Code, Folded, Section, Sheet, Text, sheet_page
from gatewise.studies import StudyResult
from gatewise.words import plural

AGAIN = (
    "Save the study below as study.toml and run it. Finished runs are not run again. "
    "The same versions on the same kind of processor give the same bits."
)
AGAIN_WITHOUT_FILE = {
    "gw.compare": (
        "These runs come from gw.compare in Python, on a model and data that no file describes. "
        "Make the same call with the same folder as out to resume. Finished runs are not repeated."
    ),
    "recorder": (
        "These runs were recorded from other training loops. "
        "To repeat them, run those loops again into another folder."
    ),
    "table": "These runs were made elsewhere and read from a table, as follows.",
}


def comparison_page(
    result: StudyResult | Mapping[str, Any],
    *,
    folder: str | None = "",
    diagnoses: Mapping[str, Mapping[str, Any]] | None = None,
) -> str:
    """Return the page of a study as one HTML text that needs no other file and no network.

    Args:
        result: The result of a study, or its plain values.
        folder: The path from the page to the study's folder, for links to the runs: ``""`` if the
            page is in it, ``"study"`` if the page is next to it, None for no links.
        diagnoses: The plain records of diagnoses of some runs, by the key of the run.
    """
    return sheet_page(comparison_sheet(read_findings(result), folder, diagnoses or {}))


def write_comparison(
    result: StudyResult | Mapping[str, Any],
    out: str | Path,
    study: str | Path | None = None,
) -> Path:
    """Write the page of a study to a file.

    Args:
        result: The result of a study, or its plain values.
        out: The file to write.
        study: The folder of the runs. The page links to it if it is below the page's folder, and
            shows the diagnoses in it.

    Returns:
        The path of the page.
    """
    target = Path(out)
    findings = read_findings(result)
    folder = None
    diagnoses: dict[str, Mapping[str, Any]] = {}
    if study is not None:
        folder = _path_to(target, Path(study))
        diagnoses = read_diagnoses(Path(study), [run.key for run in findings.runs])
    write_text(target, sheet_page(comparison_sheet(findings, folder, diagnoses)))
    return target


def _path_to(page: Path, study: Path) -> str | None:
    """The path from the page to the study's folder; None if that is not below the page's."""
    here = page.resolve().parent
    there = study.resolve()
    if not there.is_relative_to(here):
        return None
    path = there.relative_to(here).as_posix()
    return "" if path == "." else path


def comparison_sheet(
    findings: Findings,
    folder: str | None,
    diagnoses: Mapping[str, Mapping[str, Any]],
) -> Sheet:
    """Return the page as a record. Arguments as for :func:`comparison_page`."""
    forests = list(figures.forests(findings))
    sections = [
        Section(f"Each unit against {findings.baseline}", list(_pairs(findings, forests[1:]))),
        Section("Over the learning rate", list(rate_items(findings))),
        Section("Costs", list(_costs(findings))),
        Section("Learning curves", list(_curves(findings))),
        Section("What was equal and what was not", list(_fairness(findings))),
        Section("The numbers", list(_numbers(findings))),
        Section("Diagnoses of single runs", list(diagnosis_items(findings, diagnoses, folder))),
        Section("Runs", list(_runs(findings, folder))),
        Section("How to run this again", list(_again(findings))),
    ]
    kept = [section for section in sections if section.items]
    units = len(findings.units)
    title = findings.title or f"{units} units: which differ from {findings.baseline}?"
    answer = answer_words(findings)
    return Sheet(title, _about(findings), answer, kept, kind="compare", lead=forests[:1])


def _about(findings: Findings) -> str:
    """A line on the size of the study and how much of it is finished."""
    finished = sum(run.status == "finished" for run in findings.runs)
    counts = [plural(len(findings.units), "unit")]
    names = ("backbone", "data set", "recipe")
    if findings.origin == "table":  # it has tasks, and no networks or recipes
        counts = [plural(len(findings.units), "method")]
        names = ("", "task", "")
    for place, name in enumerate(names):
        if not name:
            continue
        counts.append(plural(len({run.block[place] for run in findings.runs}), name))
    counts.append(plural(len({run.seed for run in findings.runs}), "seed"))
    done = f"{finished} of {len(findings.runs)} runs finished"
    version = findings.result.content.get("gatewise") or ""
    return f"{', '.join(counts)}: {done}. gatewise {version}"


def _pairs(findings: Findings, forests: Sequence[Forest]) -> Iterator[Any]:
    """Yield how to read a forest plot, then those that do not stand at the top of the page."""
    if any(block.compared for block in findings.blocks):
        yield Text([figures.how_to_read(findings)])
    else:
        yield Text(["No unit has finished a seed that the baseline has finished too."])
    yield from forests
    pooled = list(figures.pooled_forests(findings))
    if pooled:
        yield Text(["Means over blocks hide what holds on one of them only."])
        yield from pooled
    yield Text(further_words(findings))


def _costs(findings: Findings) -> Iterator[Any]:
    """Yield charts and a table of costs for each block; a table of runs has no costs."""
    if findings.origin == "table":
        return
    for block in findings.blocks[:MOST_BLOCKS]:
        if not block.has_costs:
            continue
        items = list(figures.cost_charts(findings, block))
        charts = [item for item in items if isinstance(item, Chart)]
        equal = [item for item in items if isinstance(item, str)]
        if items:
            about = "The differences above against their cost."
            if equal:
                about += f" No chart for {', '.join(equal)}."
            yield Panels(block.name, about, charts)
        yield tables.cost_table(block)


def _curves(findings: Findings) -> Iterator[Any]:
    """Yield learning curves of the metric, and those of the training loss folded."""
    display = findings.display
    yield from _curve_panels(findings, display.metric, display.factor, display.label)
    losses = _curve_panels(findings, "train_loss", 1.0, "training loss")
    if losses:
        yield Folded("Training loss", losses)


def _curve_panels(
    findings: Findings,
    metric: str,
    factor: float,
    words: str,
) -> list[Panels]:
    """The curves of one metric for each block that has curves."""
    panels = []
    for block in findings.blocks[:MOST_BLOCKS]:
        panel = figures.curve_panels(block, metric, factor, words)
        if panel:
            panels.append(panel)
    return panels


def _fairness(findings: Findings) -> Iterator[Any]:
    """Yield what was equal for all units and what was not."""
    yield Text(fairness_lines(findings), points=True)
    left_out = tables.left_out_table(findings)
    if left_out:
        yield left_out


def _numbers(findings: Findings) -> Iterator[Any]:
    """Yield paired differences, ranks over data sets, and the seeds needed."""
    yield from _tables(findings, tables.paired_table)
    hidden = len(findings.blocks) - MOST_TABLES
    if hidden > 0:
        yield Text([f"{hidden:,} more blocks have no table here; the JSON has them."])
    ranks = tables.rank_table(findings)
    if ranks:
        yield Text([tables.rank_words(findings)])
        yield ranks
    seeds = _tables(findings, tables.undecided_table)
    if seeds:
        yield Folded("What would have been found, and the seeds needed", seeds)


def _tables(findings: Findings, make: Callable[[Findings, Block], Table | None]) -> list[Table]:
    """The table of each block that has one."""
    rows = [make(findings, block) for block in findings.blocks[:MOST_TABLES]]
    return [table for table in rows if table]


def _runs(findings: Findings, folder: str | None) -> Iterator[Any]:
    """Yield the failed runs, all runs, and the environment they ran in."""
    damaged = runs.damaged_table(findings)
    if damaged:
        yield damaged
    failed = runs.failed_table(findings)
    if failed:
        yield failed
    yield Folded(f"All {len(findings.runs)} runs", [runs.runs_table(findings, folder)])
    environment = runs.environment_table(findings)
    if environment:
        yield Folded("Environment", [environment])


def _reading(study: Mapping[str, Any]) -> Iterator[str]:
    """Yield how a table of runs was read, if the runs come from one."""
    columns = study.get("columns")
    if isinstance(columns, Mapping):
        names = ", ".join(f"{role} = {column}" for role, column in columns.items())
        yield f"Source: {study.get('source')}. Columns: {names}."
    for note in study.get("notes") or ():
        yield str(note)


def _again(findings: Findings) -> Iterator[Any]:
    """Yield how to repeat the study."""
    if findings.origin:
        again = AGAIN_WITHOUT_FILE.get(findings.origin, AGAIN_WITHOUT_FILE["recorder"])
        yield Text([again])
        for line in _reading(findings.study):
            yield Text([line])
        return
    yield Text([AGAIN])
    yield Code("gatewise compare study.toml --out study")
    yield Folded("study.toml", [Code(toml_text(findings.study))])
