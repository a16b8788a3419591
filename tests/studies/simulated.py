"""An executor that ends cells at once, with failures and losses drawn at random, and its study.

``python tests/studies/simulated.py CELLS WORKERS FOLDER`` runs such a study and prints JSON.
"""

import heapq
import json
import random
import resource
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gatewise.files import disk
from gatewise.report import comparison_page
from gatewise.studies.older import Study, cell_work, read_study, run_study, runner, status
from gatewise.studies.older.executors import Event, OnEvent, Retries
from gatewise.train import StopSignal

EPOCHS = 10


class FastDisk(disk.Disk):
    """A disk that does not wait for the medium: nothing is cut off here."""

    def sync(self, handle) -> None: ...

    def sync_folder(self, path) -> None: ...

    def forget(self, handle) -> None: ...


class Simulated:
    """Runs cells on simulated workers, in simulated time.

    Args:
        workers: cells at once.
        failing: share of cells whose own code fails.
        losing: share of attempts whose worker is lost.
        seed: of everything drawn.
    """

    def __init__(
        self, workers: int, *, failing: float = 0.01, losing: float = 0.02, seed: int = 0
    ) -> None:
        self.workers = workers
        self.failing = failing
        self.losing = losing
        self.chance = random.Random(seed)  # noqa: S311  not for secrets
        self.most = 0

    def run(self, tasks: Iterable[cell_work.Task], on_event: OnEvent, stop: StopSignal) -> None:
        source = iter(tasks)
        retries = Retries(1000, on_event)
        again, running, now = [], [], 0.0
        number = 0
        while not stop.asked:
            while len(running) < self.workers:
                task = again.pop() if again else next(source, None)
                if task is None:
                    break
                number += 1
                end = now + self.chance.expovariate(1.0)
                heapq.heappush(running, (end, number, task))
                on_event(Event("started", task.key, f"w{number % self.workers}"))
            self.most = max(self.most, len(running))
            if not running:
                break
            now, _, task = heapq.heappop(running)
            outcome = self._end(task)
            on_event(Event(outcome.status, task.key, "w", outcome.reason))
            if outcome.status == "lost" and retries.again(task, outcome):
                again.append(task)

    def close(self) -> None: ...

    def _end(self, task: cell_work.Task) -> cell_work.Outcome:
        drawn = self.chance.random()
        if drawn < self.losing:
            return cell_work.Outcome("lost", "simulated")
        if drawn < self.losing + self.failing:
            return cell_work.fail(task, "simulated failure")
        return cell_work.run_and_record(task, StopSignal(), lambda stop: self._content(task))

    def _content(self, task: cell_work.Task) -> dict:
        accuracy = 0.9 + 0.01 * self.chance.gauss(0, 1)
        curve = []
        for epoch in range(1, EPOCHS + 1):
            line = {"epoch": epoch, "train_loss": 1 / epoch, "train_accuracy": accuracy}
            curve.append(line | {"test_loss": 1 / epoch, "test_accuracy": accuracy})
        return {
            "status": "finished",
            "reason": None,
            "metrics": curve[-1],
            "best": curve[-1],
            "curve": curve,
            "seconds": 1.0,
            "starts": 1,
            "environment": {"gatewise": "0", "torch": "0"},
            "inexact": [],
            "weights_sha256": task.key * 4,
            "state_sha256": task.key * 4,
            "data_sha256": "0" * 64,
        }


def study_of(cells: int) -> Study:
    """A study with so many cells: up to 1,000 seeds, up to ten units and ten backbones."""
    seeds = min(cells, 1000)
    units = min(10, max(1, cells // seeds))
    backbones = max(1, cells // seeds // units)
    assert seeds * units * backbones == cells, "a power of ten"
    slopes = [round(0.01 * number, 2) for number in range(1, units)]
    leaky = [{"name": "leaky_relu", "slope": slope} for slope in slopes]
    widths = [{"name": f"mlp{n}", "model": "mlp", "options": {"widths": [n]}} for n in range(2, 12)]
    table = {
        "units": ["relu", *leaky],
        "backbones": widths[:backbones],
        "seeds": seeds,
        "data": {"name": "digits", "options": {"train": 50}},
        "recipe": {"epochs": EPOCHS},
        "tune": False,
    }
    return Study.of(table, name="grown")


@contextmanager
def simulated(workers: int, **chances: float) -> Iterator[Simulated]:
    """Run studies of the block on simulated workers and a disk that does not wait."""
    executor = Simulated(workers, **chances)
    before = disk.current, runner.make_executor
    disk.current = FastDisk()
    runner.make_executor = lambda *_, **__: executor
    try:
        yield executor
    finally:
        disk.current, runner.make_executor = before


def megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(cells: int, workers: int, folder: Path) -> dict[str, float]:
    """Run a study and return what it took."""
    small = megabytes()
    begin = time.perf_counter()
    with simulated(workers) as executor:
        study = study_of(cells)
        marks: list[float] = []
        result = run_study(study, folder, watch=lambda *_: marks.append(time.perf_counter()))
    assert result is not None and len(result.records) == cells and executor.most <= workers
    answer = {
        "cells": cells,
        "workers": workers,
        "plan_seconds": marks[0] - begin,
        "run_seconds": marks[-1] - marks[0],
        "driver_megabytes": megabytes() - small,
        "study_bytes": (folder / "study.json").stat().st_size,
        "journal_bytes": (folder / "journal.jsonl").stat().st_size,
    }
    del result
    for name, action in (("status", status), ("read", read_study), ("page", write_page)):
        begin = time.perf_counter()
        action(folder)
        answer[f"{name}_seconds"] = time.perf_counter() - begin
    return {name: round(value, 2) for name, value in answer.items()}


def write_page(folder: Path) -> None:
    page = comparison_page(read_study(folder))
    (folder / "report.html").write_text(page)


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))))
