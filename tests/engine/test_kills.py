"""A killed driver, killed workers, all of them killed: nothing is lost and no bit changes."""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from engine.small_work import cells, pids_below, sums

import gatewise
from gatewise.studies.engine import StudyFile

VICTIM = Path(__file__).with_name("victim.py")
needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
CELLS = 6
PAUSE = 0.05


def start(folder: Path, pause: float = PAUSE) -> subprocess.Popen:
    source = Path(gatewise.__file__).parents[1]
    environment = dict(os.environ, PYTHONPATH=f"{source}:{VICTIM.parent}", OMP_NUM_THREADS="1")
    command = [sys.executable, str(VICTIM), str(folder), str(CELLS), "2", str(pause)]
    return subprocess.Popen(command, env=environment)


def wait_until(condition, seconds: float = 240.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def kill(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def strike(driver: subprocess.Popen, whom: str) -> None:
    below = pids_below(driver.pid)
    if whom != "workers":
        kill(driver.pid)
    if whom != "driver":
        for process in below:
            kill(process)
    if whom == "workers":
        return
    driver.wait()
    wait_until(lambda: not any(Path(f"/proc/{process}").exists() for process in below), 30)


def finish(driver: subprocess.Popen, folder: Path, pause: float = PAUSE) -> None:
    if driver.poll() is None:
        assert driver.wait(600) == 0
    file = StudyFile(folder)
    if not file.path.exists() or file.status().done < CELLS:
        assert start(folder, pause).wait(600) == 0
    records = file.records()
    assert [record["value"] for record in records.values()] == sums(CELLS)
    labels = [cell.labels["name"] for cell in cells(CELLS)]
    assert [record["name"] for record in records.values()] == labels
    assert not file.work.exists()


def last_step(folder: Path) -> float:
    """Return when a worker last wrote a checkpoint."""
    times = [0.0]
    for path in (folder / "study.work").glob("*/checkpoint.json"):
        with suppress(OSError):
            times.append(path.stat().st_mtime)
    return max(times)


@needs_proc
def test_after_a_killed_driver_workers_end_and_the_study_goes_on(tmp_path):
    driver = start(tmp_path)
    wait_until(lambda: last_step(tmp_path) > 0)
    strike(driver, "driver")
    finish(driver, tmp_path)


@needs_proc
@pytest.mark.slow
def test_30_kills_at_random_moments_lose_nothing(tmp_path):
    choose = random.Random(5)  # noqa: S311
    pause = 0.3
    kills = []
    for number in range(6):
        folder = tmp_path / str(number)
        driver = start(folder, pause)
        # A run has failed when its worker died three times, so workers alone are killed twice.
        for whom in choose.sample(["driver", "driver", "workers", "workers", "all"], 5):
            if driver.poll() is not None:
                driver = start(folder, pause)
            before = time.time()
            wait_until(lambda: last_step(folder) > before or driver.poll() is not None)  # noqa: B023
            time.sleep(choose.uniform(0, 2))
            kills.append(driver.poll() is None)
            strike(driver, whom)
        finish(driver, folder, pause)
    assert len(kills) == 30 and sum(kills) >= 25  # the others hit a study that had just ended
