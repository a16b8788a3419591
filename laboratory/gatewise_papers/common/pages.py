"""The generated parts of the pages: a paper's page has a row for each claim, with what decided it.

The page of all papers has a row for each experiment.

Note [What counts]. Records of the scales ``desk`` and ``full`` count. Records of the scale ``tiny``
are never kept.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gatewise.files import read_json
from gatewise.studies import import_study
from gatewise.words import plural
from gatewise_papers.common.data_notes import KEPT
from gatewise_papers.common.experiment import COST, Experiment
from gatewise_papers.common.judgements import Judgement
from gatewise_papers.common.writing import RESULT

BEGIN = "<!-- generated from results/ by `gatewise reproduce --pages`: do not edit -->"
END = "<!-- end of the generated part -->"
COUNTED = ("desk", "full")
COLUMNS = (
    "what",
    "claim of the paper",
    "verdict",
    "level: ours (the paper's)",
    "n",
    "what decided it",
    "scale, and what differs from the paper",
)
NOT_RUN_COLUMNS = ("what", "core-hours", "timed on", "state", "to run or resume it")
NOT_RUN = (
    "These experiments have no record of all seeds. The command runs or resumes them. Core-hours "
    "are processor time without evaluation, estimated from three training steps of each network."
)
OVERVIEW_COLUMNS = ("experiment", "state", "core-hours", "command")

Record = Mapping[str, Any]


def read_records(folder: Path) -> list[Record]:
    """Return the records that count, by name.

    Args:
        folder: of all results.
    """
    records = [read_json(path) for path in sorted(folder.rglob(RESULT))]
    return [record for record in records if record["scale"] in COUNTED]


def claims_part(folder: Path, paper: str) -> str:
    """Return the claims of a paper as Markdown, between two marks.

    Args:
        folder: of all results.
        paper: whose records are shown.
    """
    records = [one for one in read_records(folder) if one["experiment"].startswith(f"{paper}/")]
    parts = [*_summary(records), "", *_table(records)]
    not_run = _not_run(_costs(folder, paper))
    if not_run:
        parts += ["", NOT_RUN, "", *not_run]
    return _between_marks(parts)


def overview_part(folder: Path, experiments: Mapping[str, Experiment]) -> str:
    """Return one row for each experiment as Markdown, between two marks.

    Args:
        folder: of all results.
        experiments: by name.
    """
    records = read_records(folder)
    recorded = {record["experiment"]: record for record in records}
    costs = {cost["experiment"]: cost for cost in _costs(folder)}
    rows = []
    for name, experiment in experiments.items():
        hours = _core_hours(costs[name]) if name in costs else "-"
        state = _state(recorded[name]) if name in recorded else "not run"
        if name in costs:
            state = costs[name]["state"]
        title = f"[{experiment.title}]({name.partition('/')[0]}.md#results)"
        rows.append((title, state, hours, f"`gatewise reproduce {name}`"))
    return _between_marks([*_summary(records), "", *_markdown(OVERVIEW_COLUMNS, rows)])


def with_generated_part(text: str, part: str) -> str:
    """Return a page with its generated part replaced.

    Args:
        text: the page.
        part: of this module.
    """
    before, mark, rest = text.partition(BEGIN)
    if not mark:
        return f"{text.rstrip()}\n\n{part}\n"
    _, _, after = rest.partition(END)
    return before + part + after


def _between_marks(lines: Sequence[str]) -> str:
    return "\n".join([BEGIN, "", *lines, "", END])


def _markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a table as lines of Markdown."""
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for row in rows:
        lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |")
    return lines


def _costs(folder: Path, paper: str | None = None) -> list[Record]:
    """Return the kept costs of experiments without a record of all seeds, and their state."""
    costs = []
    for path in sorted(folder.rglob(COST)):
        cost = read_json(path)
        kept = path.parent / KEPT
        is_finished = (path.parent / RESULT).exists() and not kept.exists()
        if is_finished or (paper and not cost["experiment"].startswith(f"{paper}/")):
            continue
        state = "not run"
        if kept.exists():
            state = f"{plural(len(import_study(kept)[1]), 'part')} finished"
        costs.append({**cost, "state": state})
    return costs


def _core_hours(cost: Record) -> str:
    """Return the core-hours, or why they are not known."""
    return cost["reason"] or f"{cost['core_hours']:.3g}"


def _not_run(costs: Sequence[Record]) -> list[str]:
    """Return one row for each experiment whose cost is kept and that has no record."""
    rows = []
    for cost in costs:
        name, scale = cost["experiment"], cost["scale"]
        command = f"gatewise reproduce {name} --scale {scale} --seeds {cost['seeds']} --out results"
        processor = cost["machine"]["processor"]
        rows.append((name, _core_hours(cost), processor, cost["state"], f"`{command}`"))
    return _markdown(NOT_RUN_COLUMNS, rows) if rows else []


def _state(record: Record) -> str:
    """Return how many claims of an experiment have which verdict."""
    counts = Counter(claim["verdict"] for claim in record["findings"]["claims"])
    known = [verdict.value for verdict in Judgement if counts[verdict.value]]
    words = ", ".join(f"{counts[verdict]} {verdict}" for verdict in known)
    return words if record["scale"] == "desk" else f"{words}; scale {record['scale']}"


def _summary(records: Sequence[Record]) -> list[str]:
    """Say how many claims have which verdict: those that are exact, and those that are measured."""
    if not records:
        return ["No record of the scales desk or full is kept yet."]
    exact: Counter[str] = Counter()
    measured: Counter[str] = Counter()
    for record in records:
        for claim in record["findings"]["claims"]:
            (exact if claim["exact"] else measured)[claim["verdict"]] += 1
    supported, contradicted, _, not_tested = (exact[verdict.value] for verdict in Judgement)
    counts = [f"{measured[verdict.value]} {verdict.value}" for verdict in Judgement]
    return [
        f"{plural(len(records), 'record')} of the scales desk and full:",
        "",
        f"- Exact results (counts, closed forms, theorems): {exact.total()}. {supported} hold as "
        f"printed, {contradicted} are misprints or errors of the paper, {not_tested} not tested.",
        f"- Measured claims (trained networks, random starts, times): {measured.total()}. "
        f"{', '.join(counts)}.",
    ]


def _table(records: Iterable[Record]) -> list[str]:
    """Return one row a claim."""
    rows = []
    for record in records:
        scale = record["scale"]
        if record["reduced"]:
            scale += f": {record['reduced']}"
        for claim in record["findings"]["claims"]:
            cells = (
                record["experiment"],
                claim["published"],
                claim["verdict"],
                _level(claim, record),
                _pairs(claim),
                _decided(claim),
                scale,
            )
            rows.append(cells)
    return _markdown(COLUMNS, rows)


def _level(claim: Mapping[str, Any], record: Record) -> str:
    """Return how well the networks behind a claim are trained, beside the paper's."""
    words = []
    for level in record["findings"]["levels"]:
        decides = claim["published"].startswith(tuple(level["claims"]) or "")
        if not claim["exact"] and decides:
            words.append(level["words"])
    return "; ".join(words) or "-"


def _pairs(claim: Mapping[str, Any]) -> str:
    """Return the smallest number of pairs behind a claim; a count needs none."""
    return str(min((one["n"] for one in claim["compared"]), default="-"))


def _decided(claim: Mapping[str, Any]) -> str:
    """Return the evidence, the reason, and the smallest difference that could be shown."""
    texts = [text for text in (claim["reason"], claim["evidence"]) if text]
    if claim["verdict"] == Judgement.UNDECIDED.value and claim["detectable"] is not None:
        texts.append(f"smallest difference that could have been shown: {claim['detectable']:.3g}")
    return "; ".join(texts)
