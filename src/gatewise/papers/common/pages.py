"""The page of all records, generated: one row a claim, with the verdict and what decided it.

Note [What counts]. Records of the scales ``desk`` and ``full`` count. Records of short training
were made before the values of every seed were kept. They stand in a table of their own and count
nowhere. Records of the scale ``tiny`` are never kept.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gatewise.files import read_json
from gatewise.papers.common.data_notes import UNFINISHED
from gatewise.papers.common.experiment import COST
from gatewise.papers.common.records import verdict_words
from gatewise.papers.common.writing import RESULT
from gatewise.stats import Judgement
from gatewise.studies import StudyFolder
from gatewise.words import plural

HOUR = 3600
SHORT = "short_training"  # the folder of records of short training
BEGIN = "<!-- generated from results/ by `gatewise reproduce --pages`: do not edit -->"
END = "<!-- end of the generated part -->"
COUNTED = ("desk", "full")
COLUMNS = ("what", "claim of the paper", "verdict", "n", "what decided it", "scale")
BEGUN_COLUMNS = ("what", "cost, timed before it started", "finished", "to resume it")
BEGUN = (
    "These experiments have begun and have no verdicts yet. Their finished parts are kept in "
    "`results/`, and the command goes on from them on any machine."
)

Record = Mapping[str, Any]


def read_records(folder: Path) -> tuple[list[Record], list[Record]]:
    """Return the records that count, and those of short training, by name.

    Args:
        folder: of all results.
    """
    counted: list[Record] = []
    short: list[Record] = []
    for path in sorted(folder.rglob(RESULT)):
        record = read_json(path)
        if SHORT in path.relative_to(folder).parts:
            short.append(record)
        elif record["scale"] in COUNTED:
            counted.append(record)
    return counted, short


def generated_part(folder: Path, paper: str | None = None) -> str:
    """Return the tables of verdicts as Markdown, between two marks.

    Args:
        folder: of all results.
        paper: only its records; all papers if None.
    """
    counted, short = read_records(folder)
    if paper is not None:
        counted = [one for one in counted if one["experiment"].startswith(f"{paper}/")]
        short = [one for one in short if one["experiment"].startswith(f"{paper}/")]
    parts = [BEGIN, "", _summary(counted), "", *_table(counted)]
    begun = _begun(folder, paper)
    if begun:
        parts += ["", BEGUN, "", *begun]
    if short:
        parts += ["", _short_summary(short), "", *_table(short)]
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


def _begun(folder: Path, paper: str | None) -> list[str]:
    """Return one row for each experiment that has finished cells and no record."""
    rows = []
    for path in sorted(folder.rglob(COST)):
        cost = read_json(path)
        name, scale = cost["experiment"], cost["scale"]
        is_finished = (path.parent / RESULT).exists()
        if is_finished or (paper is not None and not name.startswith(f"{paper}/")):
            continue
        keys = [one.parent.name for one in path.parent.glob(f"{UNFINISHED}/cells/*/cell.json")]
        kept = StudyFolder(path.parent / UNFINISHED).records(keys)
        seconds = [
            cell["process_seconds"]
            for cell in kept.readable.values()
            if cell["status"] == "finished"
        ]
        finished = f"{plural(len(seconds), 'part')} in {sum(seconds) / HOUR:.2g} core-hours"
        where = f"{cost['machine']['processor']}, scale {scale}"
        command = f"gatewise reproduce {name} --scale {scale} --seeds {cost['seeds']} --out results"
        rows.append(f"| {name} | {cost['words']} {where} | {finished} | `{command}` |")
    if not rows:
        return []
    return [f"| {' | '.join(BEGUN_COLUMNS)} |", "|---" * len(BEGUN_COLUMNS) + "|", *rows]


def _summary(records: Sequence[Record]) -> str:
    """Say how many claims have which verdict."""
    if not records:
        return "No record of the scales desk or full is kept yet."
    return f"{_counts(records)}, in {len(records)} records of the scales desk and full."


def _short_summary(records: Sequence[Record]) -> str:
    """Say what the records of short training are, and how many claims have which verdict."""
    return (
        f"In short training, which settles nothing about the papers: {_counts(records)}, in "
        f"{len(records)} records. They were made before the values of "
        "every seed were kept, and are judged by the printed differences."
    )


def _counts(records: Sequence[Record]) -> str:
    """Return the number of claims with each verdict."""
    found = Counter(claim["verdict"] for one in records for claim in one["findings"]["claims"])
    counts = [f"{found[verdict.value]} {verdict.value}" for verdict in Judgement]
    return f"{found.total()} claims: {', '.join(counts)}"


def _table(records: Iterable[Record]) -> list[str]:
    """Return one row a claim."""
    lines = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    for record in records:
        scale = f"{record['scale']}: {record['reduced'] or 'as in the paper'}"
        for claim in record["findings"]["claims"]:
            cells = (
                record["experiment"],
                claim["published"],
                _verdict(claim, record),
                _pairs(claim),
                _decided(claim),
                scale,
            )
            lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    return lines


def _verdict(claim: Mapping[str, Any], record: Record) -> str:
    """Return the verdict, and whether it was decided in short training."""
    is_short = record.get("short_training", False)
    return verdict_words(Judgement(claim["verdict"]), bool(claim["compared"]), is_short)


def _pairs(claim: Mapping[str, Any]) -> str:
    """Return the smallest number of pairs behind a claim; a count needs none."""
    return str(min((one["n"] for one in claim["compared"]), default="-"))


def _decided(claim: Mapping[str, Any]) -> str:
    """Return the evidence, the reason, and the smallest difference that could be shown."""
    texts = [text for text in (claim["reason"], claim["evidence"]) if text]
    if claim["verdict"] == Judgement.UNDECIDED.value and claim["detectable"] is not None:
        texts.append(f"smallest difference that could have been shown: {claim['detectable']:.3g}")
    return "; ".join(texts)
