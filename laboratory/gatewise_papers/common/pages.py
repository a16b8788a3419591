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
COST_IS_IN = "[Reproductions](reproductions.md#results) has their cost and their commands."
OVERVIEW_COLUMNS = ("experiment", "state", "core-hours", "command")
CORE_HOURS = (
    "Core-hours stand where there is no record of all seeds. They are processor time without "
    "evaluation, estimated from three training steps of each network"
)

Record = Mapping[str, Any]


def read_records(folder: Path) -> list[Record]:
    """Return the records that count, by name.

    Args:
        folder: of all results.
    """
    records = [read_json(path) for path in sorted(folder.rglob(RESULT))]
    return [record for record in records if record["scale"] in COUNTED]


def claims_part(folder: Path, names: Sequence[str]) -> str:
    """Return the claims of a paper as Markdown, between two marks.

    Args:
        folder: of all results.
        names: of the paper's experiments.
    """
    records = [record for record in read_records(folder) if record["experiment"] in names]
    missing = set(names) - {record["experiment"] for record in records}
    missing |= set(names) & set(_costs(folder))
    parts = [*_summary(records), "", *_table(records)]
    if missing:
        listed = ", ".join(f"`{name}`" for name in names if name in missing)
        parts += ["", f"Without a record of all seeds: {listed}.", COST_IS_IN]
    return _between_marks(parts)


def overview_part(folder: Path, experiments: Mapping[str, Experiment]) -> str:
    """Return one row for each experiment as Markdown, between two marks.

    Args:
        folder: of all results.
        experiments: by name.
    """
    records = read_records(folder)
    states = {record["experiment"]: _state(record) for record in records}
    costs = _costs(folder)
    rows = []
    for name, experiment in experiments.items():
        state, hours, command = states.get(name, "not run"), "-", f"gatewise reproduce {name}"
        if name in costs:
            cost = costs[name]
            state = cost["state"]
            hours = cost["reason"] or f"{cost['core_hours']:.3g}"
            command += "" if cost["scale"] == "desk" else f" --scale {cost['scale']}"
        title = f"[{experiment.title}]({name.partition('/')[0]}.md#results)"
        rows.append((title, state, hours, f"`{command}`"))
    parts = [*_summary(records), "", *_markdown(OVERVIEW_COLUMNS, rows)]
    if costs:
        processors = sorted({cost["machine"]["processor"] for cost in costs.values()})
        parts += ["", f"{CORE_HOURS} on {' and '.join(processors)}."]
    return _between_marks(parts)


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


def _costs(folder: Path) -> dict[str, Record]:
    """Return the kept costs of experiments without a record of all seeds, and their state."""
    costs = {}
    for path in sorted(folder.rglob(COST)):
        cost = read_json(path)
        kept = path.parent / KEPT
        if (path.parent / RESULT).exists() and not kept.exists():
            continue
        state = "not run"
        if kept.exists():
            state = f"{plural(len(import_study(kept)[1]), 'part')} finished"
        costs[cost["experiment"]] = {**cost, "state": state}
    return costs


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
