"""The page of all records, generated: one row a claim, with the verdict and what decided it.

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
from gatewise_papers.common.experiment import COST
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
    "scale",
)
NOT_RUN_COLUMNS = ("what", "cost, timed on one machine", "finished", "to run or resume it")
NOT_RUN = (
    "These experiments have no record of all seeds. The command runs them, and goes on from "
    "finished parts that are kept in `results/`."
)

Record = Mapping[str, Any]


def read_records(folder: Path) -> list[Record]:
    """Return the records that count, by name.

    Args:
        folder: of all results.
    """
    records = [read_json(path) for path in sorted(folder.rglob(RESULT))]
    return [record for record in records if record["scale"] in COUNTED]


def generated_part(folder: Path, paper: str | None = None) -> str:
    """Return the tables of verdicts as Markdown, between two marks.

    Args:
        folder: of all results.
        paper: only its records; all papers if None.
    """
    records = read_records(folder)
    if paper is not None:
        records = [one for one in records if one["experiment"].startswith(f"{paper}/")]
    parts = [BEGIN, "", *_summary(records), "", *_table(records)]
    not_run = _not_run(folder, paper)
    if not_run:
        parts += ["", NOT_RUN, "", *not_run]
    return "\n".join([*parts, "", END])


def with_generated_part(text: str, part: str) -> str:
    """Return a page with its generated part replaced.

    Args:
        text: the page.
        part: of :func:`generated_part`.
    """
    before, mark, rest = text.partition(BEGIN)
    if not mark:
        return f"{text.rstrip()}\n\n{part}\n"
    _, _, after = rest.partition(END)
    return before + part + after


def _not_run(folder: Path, paper: str | None) -> list[str]:
    """Return one row for each experiment whose cost is kept and that has no record."""
    rows = []
    for path in sorted(folder.rglob(COST)):
        cost = read_json(path)
        name, scale = cost["experiment"], cost["scale"]
        kept = path.parent / KEPT
        is_finished = (path.parent / RESULT).exists() and not kept.exists()
        if is_finished or (paper is not None and not name.startswith(f"{paper}/")):
            continue
        where = f"{cost['machine']['processor']}, scale {scale}"
        finished = plural(len(import_study(kept)[1]), "part") if kept.exists() else "not run"
        command = f"gatewise reproduce {name} --scale {scale} --seeds {cost['seeds']} --out results"
        rows.append(f"| {name} | {cost['words']} {where} | {finished} | `{command}` |")
    if not rows:
        return []
    return [f"| {' | '.join(NOT_RUN_COLUMNS)} |", "|---" * len(NOT_RUN_COLUMNS) + "|", *rows]


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
    lines = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    for record in records:
        scale = f"{record['scale']}: {record['reduced'] or 'as in the paper'}"
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
            lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    return lines


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
