"""How a study grows: simulated cells that end at once, over simulated workers.

    python benchmarks/study_growth.py                     # 1,000 and 10,000 cells: some minutes
    python benchmarks/study_growth.py 100000 1000         # cells and workers

Everything but the training is real: planning, claiming a slot, records, journal, status, reading
the results and writing the page. The disk does not wait for its medium. 1 % of the cells fail and
2 % of the attempts are lost. Each study runs in a process of its own, and a row is appended to
benchmarks/results/study_growth.csv.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from kept import keep

PROGRAM = Path(__file__).parents[1] / "tests" / "studies" / "simulated.py"
SIZES = ((1_000, 1), (1_000, 1_000), (10_000, 1_000))


def measure(cells: int, workers: int) -> dict[str, float]:
    """What a study of so many cells takes, in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, PROGRAM, str(cells), str(workers), f"{folder}/study"]
        said = subprocess.run(  # noqa: S603  our own command, with fixed arguments
            command, stdout=subprocess.PIPE, text=True, check=True
        ).stdout
    return json.loads(said.splitlines()[-1])


def main() -> None:
    """Measure, print and append."""
    sizes = [(int(sys.argv[1]), int(sys.argv[2]))] if len(sys.argv) > 2 else SIZES
    for cells, workers in sizes:
        row = measure(cells, workers)
        print(row, flush=True)
        keep("study_growth", row)


if __name__ == "__main__":
    main()
