"""Work for tests of the engine: a short computation with checkpoints, and ways to go wrong."""

import json
import os
import random
import signal
import time
from pathlib import Path

from gatewise.studies.engine import Cell, CellCall
from gatewise.train import Halted

STEPS = 20


def count(call: CellCall) -> dict:
    """Add random numbers, a checkpoint after each; strange settings make it go wrong."""
    wish = call.settings.get("wish")
    if wish == "raise":
        raise ValueError("this cell cannot be run")
    if wish == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if wish == "die once" and not (mark := call.folder / "died").exists():
        mark.write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    if wish == "sleep":
        time.sleep(60)
    path = call.folder / "checkpoint.json"
    step, total = json.loads(path.read_text()) if path.exists() else (0, 0.0)
    while step < STEPS:
        total += random.Random(call.settings["seed"] * 1000 + step).random()  # noqa: S311
        step += 1
        time.sleep(call.settings.get("pause", 0.0))
        part = path.with_suffix(".part")
        part.write_text(json.dumps([step, total]))
        part.replace(path)
        if call.stop.asked:
            raise Halted
    return {"value": total}


def cells(number: int, **more: object) -> list[Cell]:
    """Return cells that count."""
    made = []
    for seed in range(number):
        made.append(Cell("count", {"seed": seed, **more}, {"name": f"count {seed}", "seed": seed}))
    return made


def sums(number: int) -> list[float]:
    """Return what the cells count, by another way."""
    found = []
    for seed in range(number):
        total = 0.0
        for step in range(STEPS):
            total += random.Random(seed * 1000 + step).random()  # noqa: S311
        found.append(total)
    return found


def pids_below(process: int) -> list[int]:
    """Return the processes below ``process``."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if words[0] != "Z":
            parents[int(path.parent.name)] = int(words[1])
    found = [process]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found[1:]
