"""A program made to be killed: it imports once, and forks a driver for each line it is given.

A line is ``FOLDER<tab>ON<tab>SEEDS<tab>EPOCHS<tab>TUNE``. It says ``driver N`` when the driver is
there, ``held REASON`` if it found another at work, and ``dead N CODE``.
"""

import os
import sys
import tempfile
import threading

import torch
from small_studies import battered_study

from gatewise.errors import HeldError
from gatewise.studies.older import RunOptions, run_study
from gatewise.train.loop import Pace

HELD = 3


def drive(folder: str, on: str, seeds: str, epochs: str, tune: str) -> int:
    study = battered_study(int(seeds), int(epochs), tune)
    often = Pace(checkpoint_seconds=0.3)  # so that kills fall before, into and after checkpoints
    try:
        return (
            0
            if run_study(
                study, folder, RunOptions(on=on, workers=2, threads=1, tries=1_000_000, pace=often)
            )
            else 1
        )
    except HeldError as problem:
        say(f"held {problem}")
        return HELD


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())  # one write: whole, whoever else writes


def wait_for(driver: int) -> None:
    _, code = os.waitpid(driver, 0)
    say(f"dead {driver} {os.waitstatus_to_exitcode(code)}")


def main() -> None:
    torch.set_num_threads(1)
    with (
        tempfile.TemporaryDirectory() as folder
    ):  # what is imported late, and what torch makes ready, once for all
        drive(f"{folder}/s", "here", "1", "2", "none")
    say("ready")
    for line in sys.stdin:
        driver = os.fork()
        if not driver:
            code = 1
            try:
                code = drive(*line.rstrip("\n").split("\t"))
            finally:
                os._exit(code)
        say(f"driver {driver}")
        threading.Thread(target=wait_for, args=(driver,), daemon=True).start()


if __name__ == "__main__":
    main()
