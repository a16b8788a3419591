"""S1, S4: drivers and workers killed (SIGKILL) at random moments, and two drivers started together.

Quick: 12 cells under 12 kills of drivers, 3 pairs. With GATEWISE_FULL=1: 64 cells in worker
processes under 200 kills of drivers and workers, 20 pairs.
"""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import study_victim
from driver_server import Server
from small_studies import battered_study, without_times

from gatewise.studies.older import RunOptions, StudyFolder, read_study, run_study, status

FULL = os.environ.get("GATEWISE_FULL") == "1"
PAIRS = 20 if FULL else 3
pytestmark = pytest.mark.skipif(
    not hasattr(os, "fork"), reason="kills are tested where processes can be forked"
)


@pytest.fixture(scope="module")
def server():
    source = str(Path(sys.modules["gatewise"].__file__).parents[1])
    environment = {
        **os.environ,
        "PYTHONPATH": f"{source}:{Path(__file__).parent}",
        "OMP_NUM_THREADS": "1",
    }
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
    with subprocess.Popen(
        [sys.executable, study_victim.__file__], env=environment, **pipes
    ) as process:
        assert process.stdout.readline() == "ready\n"
        yield Server(process)
        process.stdin.close()


class Witness:
    """Watches that what is done stays done.

    Records never change, and no cell that has one is begun again.
    """

    def __init__(self, folder: Path, cells: int) -> None:
        self.folder, self.cells, self.done, self.lines = StudyFolder(folder), cells, {}, 0

    def look(self) -> None:
        events = self.folder.journal.read()
        begun = [event["key"] for event in events[self.lines :] if event["event"] == "started"]
        again = set(begun) & set(self.done)
        assert not again, f"begun again: {again}"
        self.lines = len(events)
        for path in self.folder.path.glob("cells/*/cell.json"):
            content = path.read_bytes()
            assert self.done.setdefault(path.parent.name, content) == content

    def wait_for_work(self, driver: int) -> None:
        """Return when the driver has begun a cell, or has ended.

        On a busy machine both take a while.
        """
        while is_alive(driver):
            here = self.folder.journal.read()[
                self.lines :
            ]  # of this driver: the last look was before it
            if any(event["event"] == "started" for event in here):
                return
            time.sleep(0.05)

    def wait_for_progress(self, driver: int) -> None:
        """Return when something was saved, a checkpoint or a record, or the driver has ended."""
        before = self._saved()
        while is_alive(driver) and self._saved() == before:
            time.sleep(0.05)

    def _saved(self) -> set[tuple[str, int]]:
        found = set()
        for path in self.folder.path.glob("cells/*/*"):
            with suppress(OSError):  # deleted meanwhile
                found.add((path.name, path.stat().st_mtime_ns))
        return found

    @property
    def over(self) -> bool:
        """Whether every cell has its record."""
        return len(self.done) == self.cells

    def workers(self) -> list[int]:
        """Worker processes that are alive, as the journal names them."""
        names = {
            event["worker"] for event in self.folder.journal.read() if event["event"] == "started"
        }
        return [int(name) for name in names if name.isdigit() and is_worker(int(name))]


def is_alive(process: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes() != b""  # a zombie has none
    return False


def is_worker(process: int) -> bool:
    with suppress(OSError):
        return b"gatewise.studies.older.worker" in Path(f"/proc/{process}/cmdline").read_bytes()
    return False


def kill(process: int) -> bool:
    """Whether there was somebody to kill."""
    if not is_alive(process):
        return False
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
        return True
    return False


def batter(
    server: Server,
    folder: Path,
    *,
    on: str,
    seeds: int,
    epochs: int,
    kills: int,
    pause: float,
    drivers: float,
) -> int:
    """Run the study under so many kills, a share of them of drivers; how many fell on a driver.

    Only kills that ended somebody count, and a study that ends before they are over is too short to
    show anything.
    """
    chance, witness, fell = random.Random(kills), Witness(folder, 4 * seeds), 0  # noqa: S311  not for secrets
    while kills:
        assert not witness.over, (
            f"the study ended with {kills} kills to come: give its cells more epochs"
        )
        server.start(folder, on, seeds, epochs)
        driver = int(server.hear("driver")[0])
        while kills and is_alive(driver):
            if chance.random() < 0.9:  # else it may fall into the start of a driver or a worker
                witness.wait_for_work(driver)
            if chance.random() < 0.5:  # on a busy machine work takes a while to show
                witness.wait_for_progress(driver)
            time.sleep(chance.uniform(0, pause))
            if chance.random() < drivers:
                hit = kill(driver)
                fell += hit
                kills -= hit
                break
            if workers := witness.workers():
                kills -= kill(chance.choice(workers))
        kill(driver)
        assert server.hear("dead")[0] == str(driver)
        witness.look()
    return fell


def check_whole(
    server: Server, folder: Path, reference: Path, *, on: str, seeds: int, epochs: int
) -> None:
    """Left alone, the study comes to its end, with the records of one that was never touched."""
    server.start(folder, on, seeds, epochs)
    assert server.hear("dead") == [*server.hear("driver"), "0"]
    found = read_study(folder)
    whole = run_study(
        battered_study(seeds, epochs), reference, RunOptions(on="local", workers=2, threads=1)
    )
    assert (
        len(found.records)
        == len(found.cells)
        == 4 * seeds
        == len(list(folder.glob("cells/*/cell.json")))
    )
    assert {record["status"] for record in found.records} == {"finished"}
    assert without_times(found.records) == without_times(whole.records)
    assert status(folder).waiting == 0


@pytest.mark.thorough
def test_a_study_whose_drivers_are_killed_loses_and_repeats_nothing(server, place):
    size = {"on": "here", "seeds": 3, "epochs": 60}
    batter(server, place / "s", **size, kills=12, pause=0.5, drivers=1.0)
    check_whole(server, place / "s", place / "whole", **size)


@pytest.mark.slow
def test_a_study_whose_drivers_and_workers_are_killed_loses_and_repeats_nothing(server, place):
    size = {"on": "local", "seeds": 16, "epochs": 400}
    fell = batter(server, place / "s", **size, kills=200, pause=1.0, drivers=0.25)
    assert 20 < fell < 180
    check_whole(server, place / "s", place / "whole", **size)


@pytest.mark.thorough
def test_of_two_drivers_one_works_and_the_other_says_who_does(server, place):
    for pair in range(PAIRS):
        folder = place / str(pair)
        for _ in range(2):
            server.start(folder, "here", 2)
        drivers = {server.hear("driver")[0] for _ in range(2)}
        ends = dict(server.hear("dead") for _ in range(2))
        assert set(ends) == drivers and sorted(ends.values()) == ["0", str(study_victim.HELD)], ends
        winner = next(driver for driver, code in ends.items() if code == "0")
        reason = " ".join(server.hear("held"))
        assert "another process is running the study" in reason
        assert f"process {winner} on" in reason or "has not said who it is yet" in reason
        began = [event for event in StudyFolder(folder).journal.read() if event["event"] == "began"]
        assert len(began) == 1 and len(read_study(folder).records) == 8


@pytest.mark.thorough
def test_a_tuned_study_killed_in_every_stage_ends_in_the_same_records(server, place):
    """Drivers are killed after a few cells each, so that kills fall into every round and stage."""
    chance = random.Random(7)  # noqa: S311  not for secrets
    folder = place / "s"
    kills = 0
    while True:
        server.start(folder, "here", 3, 4, "quick")
        driver = int(server.hear("driver")[0])
        journal = StudyFolder(folder).journal
        before = len(journal.read()) if folder.exists() else 0
        enough = chance.randint(10, 40)  # lines of the journal, two for each cell
        while is_alive(driver) and len(journal.read()) < before + enough:
            time.sleep(0.02)
        time.sleep(chance.uniform(0, 0.05))
        kills += kill(driver)
        if server.hear("dead") == [str(driver), "0"]:
            break
    assert kills >= 3
    found = read_study(folder)
    whole = run_study(battered_study(3, 4, "quick"), place / "whole", RunOptions(on="here"))
    assert found.content == whole.content and whole.content["tuning"]["mode"] == "quick"
    assert without_times(found.records) == without_times(whole.records)
    rounds = [each for each in folder.glob("tuning/*/cell.json")]
    assert len(rounds) == len(list((place / "whole").glob("tuning/*/cell.json")))
