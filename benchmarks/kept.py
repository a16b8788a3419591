"""Where benchmarks keep what they measured.

A CSV each in ``results``, every row with the machine and the versions.
"""

import csv
import io
import os
import platform
from collections.abc import Mapping
from datetime import date
from pathlib import Path

import torch

from gatewise.files import write_text

RESULTS = Path(__file__).parent / "results"


def rows_of(name: str) -> list[dict[str, str]]:
    """The rows that are kept under ``name``."""
    path = RESULTS / f"{name}.csv"
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def keep(name: str, *rows: Mapping[str, object]) -> None:
    """Append ``rows`` to what is kept under ``name``.

    A column that older rows do not have is empty there.
    """
    old = rows_of(name)
    new = [facts() | {column: str(value) for column, value in row.items()} for row in rows]
    columns = list(dict.fromkeys(column for row in [*old, *new] for column in row))
    text = io.StringIO()
    table = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    table.writeheader()
    table.writerows([*old, *new])
    write_text(RESULTS / f"{name}.csv", text.getvalue())


def facts() -> dict[str, str]:
    """Date, machine and versions of a row. The load of the last minute shows other work."""
    return {
        "date": date.today().isoformat(),
        "machine": f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}",
        "load": f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores",
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
