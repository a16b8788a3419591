"""How long a report of many records takes, and how much memory, for three shapes of study.

Writes a synthetic study folder for each shape, reports it in a fresh process, and appends a line
to a CSV file:

    python benchmarks/report.py --records 10000 --out benchmarks/results/report.csv
"""

import argparse
import csv
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gatewise.files import write_record

EPOCHS = 60
# Shape: seeds and units of a study; the rest of the records are blocks.
SHAPES = {"blocks": (10, 10), "units": (10, 0), "seeds": (0, 2)}


def make_study(folder: Path, shape: str, records: int) -> None:
    """Write a study folder with about ``records`` records.

    Args:
        folder: To be created.
        shape: ``blocks`` (10 units, 10 seeds, many blocks), ``units`` (one block, 10 seeds, many
            units) or ``seeds`` (one block, two units, many seeds).
        records: How many.
    """
    chance = random.Random(0)  # noqa: S311
    seeds, units = SHAPES[shape]
    seeds = seeds or records // 2
    units = units or records // 10
    blocks = max(1, records // (seeds * units))
    cells = []
    for block in range(blocks):
        for unit in range(units):
            effect = chance.gauss(0, 0.01)
            for seed in range(seeds):
                cell = {
                    "key": f"{len(cells):016x}",
                    "unit": f"unit {unit}",
                    "backbone": f"network {block}",
                    "data": "digits",
                    "recipe": "adam",
                    "seed": seed,
                    "lr": 0.003,
                    "role": "final",
                    "config": {"seed": seed, "recipe": {"epochs": EPOCHS}},
                }
                cells.append(cell)
                path = folder / "cells" / cell["key"]
                path.mkdir(parents=True)
                write_record(path / "cell.json", _record(cell, effect, chance))
    content = {
        "format": 1,
        "name": "made",
        "title": "A synthetic study",
        "baseline": "unit 0",
        "metric": "test_accuracy",
        "study": {"title": "A synthetic study"},
        "tuning": {"mode": "none", "why": "", "groups": []},
        "cells": cells,
    }
    write_record(folder / "study.json", content)


def _record(cell: dict, effect: float, chance: random.Random) -> dict:
    """The record of one run, with a curve of the usual length."""
    accuracy = 0.9 + effect + chance.gauss(0, 0.005)
    curve = [{"epoch": epoch, "train_loss": 2.0 / epoch} for epoch in range(1, EPOCHS + 1)]
    curve[-1] |= {"test_accuracy": accuracy, "test_loss": 1 - accuracy}
    labels = {name: value for name, value in cell.items() if name != "config"}
    return {
        "format": 1,
        **labels,
        "status": "finished",
        "reason": None,
        "metrics": curve[-1],
        "best": curve[-1],
        "curve": curve,
        "seconds": 1.0,
        "parameters": 1000,
        "flops": 1000,
        "saved_bytes": 1000,
        "environment": {"torch": "2.13.0"},
    }


def report(folder: Path) -> None:
    """Write page, text and JSON of a study, and print seconds, memory and sizes as JSON.

    Args:
        folder: Of the study.
    """
    from gatewise.report import write_comparison
    from gatewise.studies import read_study

    begin = time.perf_counter()
    worked = time.process_time()
    result = read_study(folder)
    read = time.perf_counter()
    text = str(result)
    said = time.perf_counter()
    page = write_comparison(result, folder / "report.html", folder)
    drawn = time.perf_counter()
    plain = json.dumps(result.to_dict())
    end = time.perf_counter()
    measured = {
        "read_seconds": round(read - begin, 2),
        "text_seconds": round(said - read, 2),
        "page_seconds": round(drawn - said, 2),
        "json_seconds": round(end - drawn, 2),
        "total_seconds": round(end - begin, 2),
        "processor_seconds": round(time.process_time() - worked, 2),
        "memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "page_mb": round(page.stat().st_size / 1e6, 2),
        "json_mb": round(len(plain) / 1e6, 1),
        "text_lines": text.count("\n") + 1,
    }
    print(json.dumps(measured))


def main() -> None:
    """Measure all shapes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/report.csv"))
    parser.add_argument("--folder", type=Path, help="report this study only")
    arguments = parser.parse_args()
    if arguments.folder:
        report(arguments.folder)
        return
    rows = []
    for records in arguments.records:
        for shape in SHAPES:
            with tempfile.TemporaryDirectory() as folder:
                make_study(Path(folder) / "study", shape, records)
                command = [sys.executable, __file__, "--folder", f"{folder}/study"]
                done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
            rows.append({"shape": shape, "records": records, **json.loads(done.stdout)})
            print(rows[-1], flush=True)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    with arguments.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
