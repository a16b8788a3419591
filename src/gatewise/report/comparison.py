"""The page of a comparison: the answer first, then every difference, cost and run behind it."""

from collections.abc import Iterator, Mapping
from typing import Any

from gatewise.report import comparison_charts as charts
from gatewise.report import comparison_tables as tables
from gatewise.report.charts import Chart, Words
from gatewise.report.comparison_answer import answer
from gatewise.report.comparison_fairness import fairness
from gatewise.report.findings import Findings, findings
from gatewise.report.sheet import Code, Folded, Section, Sheet, Text, sheet_page
from gatewise.report.toml_text import toml_text


def comparison_page(result: Mapping[str, Any], *, folder: str | None = "") -> str:
    """The page of a study from its plain result: one HTML text that needs no other file and no network.

    ``folder`` is the way from the page to the study's folder, for links to the runs: ``""`` if the page lies in it,
    ``"study"`` if the page lies beside it, None for no links.
    """
    return sheet_page(comparison_sheet(findings(result), folder))


def comparison_sheet(found: Findings, folder: str | None = "") -> Sheet:
    """The page as a record."""
    sections = [
        Section(
            f"Against {found.baseline}, pair by pair",
            list(charts.forests(found)) or [Text(["No unit has finished a seed that the baseline has finished too."])],
        ),
        Section("What it costs", list(_costs(found))),
        Section("Learning curves", list(_curves(found))),
        Section("What was equal, and what was not", [Text(fairness(found), points=True)]),
        Section("The numbers", list(_numbers(found))),
        Section("Runs", list(_runs(found, folder))),
        Section("How to run this again", list(_again(found))),
    ]
    title = found.title or f"{len(found.units)} units: who differs from {found.baseline}?"
    return Sheet(
        title, _about(found), answer(found), [section for section in sections if section.items], kind="compare"
    )


def _about(found: Findings) -> Words:
    finished = sum(run.status == "finished" for run in found.runs)
    seeds = len({run.seed for run in found.runs})
    kinds = [
        (len({run.block[i] for run in found.runs}), what) for i, what in enumerate(("backbone", "data set", "recipe"))
    ]
    counted = ", ".join(
        f"{n} {what}{'s' * (n > 1)}" for n, what in ((len(found.units), "unit"), *kinds, (seeds, "seed"))
    )
    return f"{counted}: {finished} of {len(found.runs)} runs finished. gatewise {found.version}"


def _costs(found: Findings) -> Iterator[Any]:
    for block in found.blocks:
        shown = list(charts.cost_charts(found, block))
        yield from (each for each in shown if isinstance(each, Chart))
        if said := [each for each in shown if isinstance(each, str)]:
            yield Text([f"{block.name}: no chart for {'; '.join(said)}."])
    for block in found.blocks:
        yield tables.cost_table(block)


def _curves(found: Findings) -> Iterator[Any]:
    metric = found.metric
    panels = [charts.curve_panels(found, block, metric.key, metric.factor, metric.label) for block in found.blocks]
    yield from (each for each in panels if each)
    loss = [charts.curve_panels(found, block, "train_loss", 1.0, "training loss") for block in found.blocks]
    if shown := [each for each in loss if each]:
        yield Folded("Training loss", shown)


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
    if failed := tables.failed_table(found):
        yield failed
    yield Folded(f"All {len(found.runs)} runs", [tables.runs_table(found, folder)])
    if environment := tables.environment_table(found):
        yield Folded("Environment", [environment])


def _again(found: Findings) -> Iterator[Any]:
    yield Text(
        [
            "Save the study below as study.toml, and run it. Runs that are done are not run again; the same versions on the same processor give the same bits."
        ]
    )
    yield Code("gatewise compare study.toml --out study")
    yield Folded("study.toml", [Code(toml_text(found.study))])
