"""A program made to be killed.

It imports once, and forks a worker for each line ``KIND<tab>FOLDER`` it is given.

The worker trains in that folder, says ``step N`` after each step, and notes in the file
``FOLDER.seen`` which examples it saw, and from which step on it went.
"""

import json
import os
import sys
import tempfile

from small_runs import EXAMPLES, small_run

from gatewise.data import load
from gatewise.train.loop import Pace, Watcher
from gatewise.train.run import train

DATA = load("digits", train=EXAMPLES)


class Witness(Watcher):
    def __init__(self, path: str) -> None:
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(self, **what: object) -> None:
        os.write(self.file, json.dumps(what).encode() + b"\n")  # one write: whole or not there

    def start(self, start) -> None:
        self.note(after=start.step)

    def step(self, step) -> None:
        self.note(step=step.step, epoch=step.epoch, index=step.index.tolist())
        os.write(1, b"step %d\n" % step.step)


def work(kind: str, folder: str) -> None:
    train(
        small_run(kind),
        folder,
        data=DATA,
        pace=Pace(checkpoint_seconds=0.01),
        watchers=[Witness(f"{folder}.seen")],
    )


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder
    ):  # what is imported late, and what torch makes ready, once for all
        train(small_run("augmentation", "epochs = 1"), f"{folder}/run", data=DATA)
    os.write(1, b"ready\n")
    for line in sys.stdin:
        worker = os.fork()
        if not worker:
            try:
                work(*line.rstrip("\n").split("\t"))
            finally:
                os._exit(0)
        os.write(1, b"worker %d\n" % worker)
        os.waitpid(worker, 0)
        os.write(1, b"dead\n")


if __name__ == "__main__":
    main()
