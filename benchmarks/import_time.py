"""How long ``import gatewise`` takes on top of torch, in processor time of a fresh process.

    python benchmarks/import_time.py

Prints the least and the median of several processes in milliseconds and appends them to
``benchmarks/results/import_time.csv``.
"""

import os
import statistics
import subprocess
import sys
from pathlib import Path

from kept import keep

RUNS = 11
MEASURE = """
import time
import numpy, torch
start = time.process_time()
import gatewise
print(1000 * (time.process_time() - start))
"""


def measure() -> float:
    """Milliseconds of one import in a fresh process, with the bytecode written before."""
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", MEASURE]
    here = Path(__file__).parent
    done = subprocess.run(  # noqa: S603  our own command, with fixed arguments
        command, capture_output=True, text=True, check=True, cwd=here, env=environment
    )
    return float(done.stdout)


def main() -> None:
    """Measure, print and keep the row."""
    measure()
    times = sorted(measure() for _ in range(RUNS))
    row = {"least_ms": round(times[0], 1), "median_ms": round(statistics.median(times), 1)}
    print(row)
    keep("import_time", row)


if __name__ == "__main__":
    main()
