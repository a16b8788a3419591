"""What a study costs beyond its runs: processor time of the same cells, in a study and bare.

    python benchmarks/study.py            # about ten minutes; appends to
    benchmarks/results/study.csv

The cells of the preset ``demo`` (eight units, two backbones, ten seeds, digits) are trained by
:func:`gatewise.train.train` one after another in a fresh process, and by a study with one worker,
in turns. Two figures, each of processor seconds on one thread, the lowest of the turns, for other
work only adds:

- *cells*: from the first cell begun to the last one ended, journal and records included: what each
  further one costs.
- *in all*: whole processes, with their imports and the data. A study has one process more than the
  bare runs, and matches widths and counts costs before it begins: paid once, whatever the number of
  cells.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kept import keep

from gatewise.data import load
from gatewise.studies.engine import RunOptions, Study, read_study, run_study
from gatewise.train.config import run_config
from gatewise.train.run import train

TURNS = 2


def bare(folder: Path) -> None:
    """The runs alone; prints their processor seconds."""
    configs = json.loads((folder.parent / "cells.json").read_text())
    data = load(configs[0]["data"], **configs[0]["data_options"])
    begin = time.process_time()
    for number, config in enumerate(configs):
        train(run_config(**config), folder / str(number), data=data)
    print(time.process_time() - begin)


def within(folder: Path) -> None:
    """Run the study; print the processor seconds of driver and worker over all cells."""
    marks: list[float] = []
    how = RunOptions(workers=1, threads=1)
    if (
        run_study(
            Study.load("demo", {"tune": False}),
            folder,
            how,
            watch=lambda *_: marks.append(time.process_time()),
        )
        is None
    ):
        raise SystemExit("stopped")
    own = sum(record["process_seconds"] for record in read_study(folder).records)
    print(own + marks[-1] - marks[1])  # the first mark is before the worker starts


def measure(way: str, folder: Path) -> tuple[float, float]:
    """Processor seconds of a fresh process that goes ``way``: of its cells, and in all."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    program = [sys.executable, __file__, way, folder]
    said = subprocess.run(  # noqa: S603  our own command, with fixed arguments
        program, stdout=subprocess.PIPE, text=True, check=True, env=one_thread
    ).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return float(said), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure, print and append."""
    found: list[tuple[float, ...]] = []
    with tempfile.TemporaryDirectory() as name:
        for turn in range(TURNS):
            study = measure("within", Path(name) / f"study{turn}")
            cells = read_study(Path(name) / f"study{turn}").cells
            (Path(name) / "cells.json").write_text(json.dumps([cell["config"] for cell in cells]))
            found.append((*measure("bare", Path(name) / f"bare{turn}"), *study))
            print(
                "cells bare {:.2f} s, in all {:.2f} s; in a study {:.2f} s, {:.2f} s".format(
                    *found[-1]
                ),
                flush=True,
            )
    cells_bare, all_bare, cells_study, all_study = (
        min(column) for column in zip(*found, strict=True)
    )
    row = {
        "cells": len(cells),
        "bare_seconds": f"{cells_bare:.2f}",
        "study_seconds": f"{cells_study:.2f}",
        "overhead": f"{cells_study / cells_bare - 1:.3f}",
        "bare_in_all": f"{all_bare:.2f}",
        "study_in_all": f"{all_study:.2f}",
        "overhead_in_all": f"{all_study / all_bare - 1:.3f}",
    }
    print(row)
    keep("study", row)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        {"bare": bare, "within": within}[sys.argv[1]](Path(sys.argv[2]))
    else:
        main()
