"""Run a small study in a process of its own: ``victim.py FOLDER CELLS WORKERS PAUSE``."""

import sys

from small_work import cells, count

from gatewise.studies.engine import Running, run

if __name__ == "__main__":
    folder, number, workers, pause = sys.argv[1:]
    made = cells(int(number), pause=float(pause))
    run(
        folder,
        lambda _: made,
        count,
        header={"name": "victim"},
        running=Running(workers=int(workers)),
    )
