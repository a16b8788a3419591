"""A study on a Ray cluster of this machine alone, in a process of its own.

``ray_program.py plain|worker|cluster FOLDER ANSWER``. ``worker``: a worker process of the cluster
is killed on the way. ``cluster``: its control service is, and the study is run again.
"""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

from small_work import cells, count, pids_below

from gatewise.errors import LostProcessError
from gatewise.studies.engine import Running, StudyFile, run

CELLS = 8


def name_of(process: int) -> str:
    """Return the command of a process."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def strike(folder: Path, what: str) -> None:
    """Kill the process once a cell has a checkpoint."""
    while not list((folder / "study.work").glob("*/checkpoint.json")):
        time.sleep(0.02)
    wanted = "on_cluster" if what == "worker" else "gcs_server"
    while True:
        for process in pids_below(os.getpid()):
            if wanted in name_of(process):
                os.kill(process, signal.SIGKILL)
                return
        time.sleep(0.02)


def main(what: str, folder: Path, answer: Path) -> None:
    """Run the study and write down what happened."""
    events: list[str] = []
    problem = ""
    made = cells(CELLS, pause=0.3)

    def go() -> None:
        run(
            folder,
            lambda _: made,
            count,
            header={"name": "on ray"},
            running=Running(workers=2, threads=1, on="ray"),
            watch=lambda progress: events.append(progress.event),
        )

    if what != "plain":
        threading.Thread(target=strike, args=(folder, what), daemon=True).start()
    try:
        go()
    except LostProcessError as lost:
        problem = str(lost)
        events.append("lost")
        go()
    values = [record["value"] for record in StudyFile(folder).records().values()]
    answer.write_text(json.dumps({"events": events, "problem": problem, "values": values}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
