"""A killed driver, killed workers, all of them killed: nothing is lost and no bit changes."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from engine.small_work import cells, pids_below, sums

import gatewise
from gatewise.studies.engine import StudyFile

VICTIM = Path(__file__).with_name("victim.py")
needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
CELLS = 6
PAUSE = 0.05


def start(folder: Path) -> subprocess.Popen:
    source = Path(gatewise.__file__).parents[1]
    environment = dict(os.environ, PYTHONPATH=f"{source}:{VICTIM.parent}", OMP_NUM_THREADS="1")
    command = [sys.executable, str(VICTIM), str(folder), str(CELLS), "2", str(PAUSE)]
    return subprocess.Popen(command, env=environment)


def wait_until(condition, seconds: float = 240.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def kill(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        pass


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


def finish(driver: subprocess.Popen, folder: Path) -> None:
    if driver.poll() is None:
        assert driver.wait(600) == 0
    if StudyFile(folder).status().done < CELLS:
        assert start(folder).wait(600) == 0
    records = StudyFile(folder).records()
    assert [record["value"] for record in records.values()] == sums(CELLS)
    labels = [cell.labels["name"] for cell in cells(CELLS)]
    assert [record["name"] for record in records.values()] == labels
    assert not StudyFile(folder).work.exists()


def is_running(folder: Path) -> bool:
    return any((folder / "study.work").glob("*/checkpoint.json"))


@needs_proc
@pytest.mark.parametrize("whom", ["driver", "workers", "all"])
def test_after_a_kill_the_study_ends_with_the_same_records(tmp_path, whom):
    driver = start(tmp_path)
    wait_until(lambda: is_running(tmp_path))
    strike(driver, whom)
    finish(driver, tmp_path)


@needs_proc
@pytest.mark.slow
def test_30_kills_at_random_moments_lose_nothing(tmp_path):
    choose = random.Random(5)  # noqa: S311
    for number in range(30):
        folder = tmp_path / str(number)
        driver = start(folder)
        time.sleep(choose.uniform(0, 8))
        strike(driver, choose.choice(["driver", "workers", "all"]))
        finish(driver, folder)
