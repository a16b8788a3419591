"""Rows of a benchmark: measured, written, read again and compared with an older file."""

import csv
import io
import os
import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from gatewise.errors import ArgumentError
from gatewise.speed.line import Line

CLEAR_CHANGE = 0.15  # relative: smaller changes are noise of most machines


@dataclass(frozen=True)
class Row:
    """A measured line.

    Attributes:
        line: its name.
        what: what was compared with what.
        relation: ``at most`` or ``at least``.
        target: the bound.
        measured: the median ratio.
        low: the first quartile of the rounds.
        high: the third quartile of the rounds.
        rounds: the number of rounds.
        form: which form of the unit ran: native, fused or plain.
        verdict: ``met`` or ``missed``.
        reason: why it was missed.
    """

    line: str
    what: str
    relation: str
    target: float
    measured: float
    low: float
    high: float
    rounds: int
    form: str
    verdict: str
    reason: str


def measure_lines(
    lines: Iterable[Line],
    *,
    seconds: float,
    tell: Callable[[Row], None] = lambda row: None,
) -> list[Row]:
    """Measure lines, one after the other.

    Args:
        lines: what to measure.
        seconds: time for each line.
        tell: called with each row when it is measured.
    """
    rows = []
    for line in lines:
        timing, form = line.measure(seconds)
        is_met = line.is_met(timing.ratio)
        row = Row(
            line=line.name,
            what=line.what,
            relation=line.relation,
            target=line.target,
            measured=round(timing.ratio, 4),
            low=round(timing.low, 4),
            high=round(timing.high, 4),
            rounds=timing.rounds,
            form=form,
            verdict="met" if is_met else "missed",
            reason="" if is_met else line.explain(timing),
        )
        rows.append(row)
        tell(row)
    return rows


def machine_facts(device: str = "cpu") -> dict[str, str]:
    """Return date, machine, load and versions.

    Args:
        device: on which lines are measured, with the name of the hardware.
    """
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}",
        "cores": str(os.cpu_count()),
        "load": load,
        "threads": str(torch.get_num_threads()),
        "device": device,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def rows_as_csv(rows: Sequence[Row], facts: dict[str, str]) -> str:
    """Return rows as CSV, each with the facts of the machine.

    Args:
        rows: of one run.
        facts: of :func:`machine_facts`.
    """
    text = io.StringIO()
    names = [field.name for field in fields(Row)]
    table = csv.DictWriter(text, [*names, *facts], lineterminator="\n")
    table.writeheader()
    for row in rows:
        table.writerow(asdict(row) | facts)
    return text.getvalue()


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a CSV file of :func:`rows_as_csv`.

    Args:
        path: of the file.
    """
    with path.open(newline="") as file:
        table = list(csv.DictReader(file))
    numbers: dict[str, Callable[[str], Any]] = {
        "target": float,
        "measured": float,
        "low": float,
        "high": float,
        "rounds": int,
    }
    rows = []
    for values in table:
        try:
            kept = {f.name: numbers.get(f.name, str)(values[f.name]) for f in fields(Row)}
        except (KeyError, TypeError, ValueError) as problem:
            raise ArgumentError(
                "bench: this file is not a table of gatewise bench",
                got=f"{path}: {problem}",
                fix="write one with gatewise bench --out FILE.csv",
            ) from None
        rows.append(Row(**kept))
    return rows


def changes(old: Sequence[Row], new: Sequence[Row]) -> list[str]:
    """Return a sentence for each line whose ratio clearly changed.

    A change is clear if it is more than 15 % and the quartiles do not overlap.

    Args:
        old: rows of an earlier run.
        new: rows of this run.
    """
    before = {row.line: row for row in old}
    sentences = []
    for row in new:
        was = before.get(row.line)
        if was is None or not was.measured:
            continue
        factor = row.measured / was.measured
        apart = row.low > was.high or row.high < was.low
        if apart and abs(factor - 1) > CLEAR_CHANGE:
            word = "rose" if factor > 1 else "fell"
            sentences.append(f"{row.line} {word} from {was.measured:.2f} to {row.measured:.2f}")
    return sentences
