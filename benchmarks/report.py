"""How long a report of many records takes, and how much memory, for three shapes of study.

Reports a synthetic study of each shape in a fresh process, and writes a line to a CSV file:

    python benchmarks/report.py --records 10000 --out benchmarks/results/report.csv
"""

import argparse
import csv
import json
import math
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gatewise.report import write_comparison
from gatewise.studies import ComparisonResult

RATES = 5
# Shape: models, units and seeds of a study; 0 for as many as the records need.
SHAPES = {"models": (0, 10, 10), "units": (1, 0, 10), "seeds": (1, 2, 0)}


def make_study(shape: str, records: int) -> ComparisonResult:
    """Return a study with about ``records`` records.

    Args:
        shape: ``models``, ``units`` or ``seeds``: what there are many of.
        records: How many.
    """
    chance = random.Random(0)  # noqa: S311
    product = math.prod(count for count in SHAPES[shape] if count)
    many = max(2, records // (RATES * product))
    models, units, seeds = (count or many for count in SHAPES[shape])
    header = {
        "format": "gatewise study",
        "metric": {"name": "accuracy", "unit": "%", "scale": 100, "images": 10_000},
        "models": [f"model {place}" for place in range(models)],
        "baseline": "unit 0",
        "units": [{"label": f"unit {place}"} for place in range(units)],
        "rates": {"center": 0.01, "count": RATES},
        "seeds": seeds,
        "origin": "table",
    }
    runs = []
    for model in header["models"]:
        for unit in header["units"]:
            for step in range(1 - RATES, RATES, 2):
                for seed in range(seeds):
                    value = 0.9 - 0.005 * (step / 2) ** 2 + chance.gauss(0, 0.003)
                    runs.append(
                        {
                            "model": model,
                            "unit": unit["label"],
                            "step": step,
                            "seed": seed,
                            "status": "done",
                            "value": value,
                        }
                    )
    return ComparisonResult(header, runs)


def report(shape: str, records: int) -> None:
    """Make page, text and JSON of a study, and print seconds, memory and sizes as JSON.

    Args:
        shape: Of the study.
        records: How many.
    """
    begin = time.perf_counter()
    result = make_study(shape, records)
    made = time.perf_counter()
    text = str(result)
    said = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        page = write_comparison(result, Path(folder) / "report.html").stat().st_size
    drawn = time.perf_counter()
    plain = json.dumps(result.to_dict())
    end = time.perf_counter()
    measured = {
        "check_seconds": round(made - begin, 2),
        "verdict_seconds": round(said - made, 2),
        "page_seconds": round(drawn - said, 2),
        "json_seconds": round(end - drawn, 2),
        "total_seconds": round(end - begin, 2),
        "processor_seconds": round(time.process_time(), 2),
        "memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "page_mb": round(page / 1e6, 2),
        "json_mb": round(len(plain) / 1e6, 1),
        "text_lines": text.count("\n") + 1,
    }
    print(json.dumps(measured))


def main() -> None:
    """Measure all shapes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/report.csv"))
    parser.add_argument("--shape", choices=SHAPES, help="report this shape only")
    arguments = parser.parse_args()
    if arguments.shape:
        report(arguments.shape, arguments.records[0])
        return
    rows = []
    for records in arguments.records:
        for shape in SHAPES:
            command = [sys.executable, __file__, "--shape", shape, "--records", str(records)]
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
