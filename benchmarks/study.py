"""What a study costs beyond its runs: processor time of its cells, in the study and bare.

    python benchmarks/study.py            # about two minutes; appends to benchmarks/results/study.csv

The same cells (two units, two backbones, digits, as in the preset ``demo``) are trained by :func:`gatewise.train.train`
in one process, and by a study in one worker process, in turns. Planning and the start of a worker are paid once for a
study whatever its size, so they are told apart: "cells" is from the first cell begun to the last one ended, and what
the machinery adds there is the overhead of a cell. One thread, the lowest of some turns: other work only adds.
"""

import csv
import platform
import tempfile
import time
from datetime import date
from pathlib import Path

import torch

from gatewise.data import load
from gatewise.files import read_record
from gatewise.studies import How, Study, run_study
from gatewise.studies.cells import cells_of, make_groups
from gatewise.train import train

RESULTS = Path(__file__).parent / "results" / "study.csv"
TURNS = 5
COLUMNS = ("date", "machine", "torch", "cells", "bare_seconds", "study_seconds", "overhead", "whole_seconds")


def study() -> Study:
    """Eight cells of the demo."""
    return Study.load("demo", {"units": ["relu", "crelu"], "seeds": 2})


def bare(folder: Path) -> float:
    """Processor seconds of the runs alone, data at hand."""
    table = study().table
    cells = cells_of(make_groups(study()), table.seeds)
    data = load(table.data[0].name, **table.data[0].options)
    begin = time.process_time()
    for cell in cells:
        train(cell.config, folder / cell.key, data=data)
    return time.process_time() - begin


def within(folder: Path) -> tuple[float, float]:
    """Processor seconds of driver and worker from the first cell to the last, and wall seconds of everything."""
    marks: list[float] = []

    def watch(tally: object, event: object) -> None:
        marks.append(time.process_time())

    begin = time.monotonic()
    result = run_study(study(), folder, How(workers=1, threads=1), watch=watch)
    whole = time.monotonic() - begin
    if result is None:
        raise SystemExit("stopped")
    own = sum(read_record(folder / "cells" / cell["key"] / "cell.json")["process_seconds"] for cell in result.cells)
    return own + marks[-1] - marks[1], whole  # the first mark is before the worker starts


def main() -> None:
    """Measure, print and append."""
    torch.set_num_threads(1)
    found: list[tuple[float, float, float]] = []
    with tempfile.TemporaryDirectory() as name:
        bare(Path(name) / "warm")
        for turn in range(TURNS):
            alone = bare(Path(name) / f"bare{turn}")
            found.append((alone, *within(Path(name) / f"study{turn}")))
            print(f"bare {found[-1][0]:.2f} s, in the study {found[-1][1]:.2f} s, with start {found[-1][2]:.1f} s")
    lowest, ours, whole = (min(each[place] for each in found) for place in range(3))
    row = (date.today().isoformat(), platform.machine(), torch.__version__, 8, f"{lowest:.3f}", f"{ours:.3f}",
           f"{ours / lowest - 1:.3f}", f"{whole:.1f}")  # fmt: skip
    print(dict(zip(COLUMNS, row, strict=True)))
    new = not RESULTS.exists()
    with RESULTS.open("a", newline="") as file:
        writer = csv.writer(file)
        if new:
            writer.writerow(COLUMNS)
        writer.writerow(row)


if __name__ == "__main__":
    main()
