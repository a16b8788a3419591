"""What is lost is not a result: killed workers, crashed ones, damaged records and journals."""

import errno
import os
import shutil
import signal
from pathlib import Path

import pytest
import shared_cells
from simulated import FastDisk
from small_studies import small_study, without_times
from test_run import HERE, files_in

from gatewise.errors import DamagedFileError, FileError, LostProcessError
from gatewise.files import disk, read_record, write_record
from gatewise.studies.older import (
    CellRunner,
    FunctionStudy,
    Outcome,
    RunOptions,
    StudyFolder,
    Task,
    Worker,
    run_cell,
    run_study,
    status,
)
from gatewise.studies.older.executors import CRASHES, Retries
from gatewise.train import StopSignal


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A study that is done."""
    return run_study(small_study(), tmp_path_factory.mktemp("study") / "done", HERE)


def deadly_cell(monkeypatch, number: int) -> list[str]:
    """Let the worker of the first cell die by a signal whenever it begins; the cells given."""
    give, chosen = Worker.give, []

    def deadly(worker, task) -> None:
        chosen.append(task.key)
        give(worker, task)
        if task.key == chosen[0]:
            os.kill(int(worker.name), number)

    monkeypatch.setattr(Worker, "give", deadly)
    return chosen


@pytest.mark.thorough
def test_a_cell_whose_code_ends_every_worker_is_a_result(tmp_path, monkeypatch):
    chosen = deadly_cell(monkeypatch, signal.SIGSEGV)
    study = small_study(seeds=1, units=["relu", "elu"])
    found = run_study(study, tmp_path / "s", RunOptions(workers=1, threads=1, tries=2))
    bad = [record for record in found.records if record["status"] == "failed"]
    assert [record["key"] for record in bad] == chosen[:1] and chosen.count(chosen[0]) == 2
    assert bad[0]["reason"] == "the worker process was ended by signal 11 (tried 2 times)"
    assert len(found.records) == 4
    monkeypatch.undo()
    # It is not tried again, unless one asks for it.
    assert len(run_study(study, tmp_path / "s", HERE).to_dict()["not_finished"]) == 1
    again = run_study(study, tmp_path / "s", RunOptions(on="here", retry_failed=True))
    assert {record["status"] for record in again.records} == {"finished"}


@pytest.mark.thorough
def test_a_cell_whose_workers_are_killed_from_outside_has_no_result(tmp_path, monkeypatch):
    chosen = deadly_cell(monkeypatch, signal.SIGKILL)
    study = small_study(seeds=1, units=["relu", "elu"])
    options = RunOptions(workers=1, threads=1, tries=2)
    with pytest.raises(LostProcessError, match="1 runs were lost 2 times each") as problem:
        run_study(study, tmp_path / "s", options)
    assert "was ended by signal 9" in str(problem.value) and chosen[0] in str(problem.value)
    assert status(tmp_path / "s").finished == 3 and status(tmp_path / "s").failed_count == 0
    monkeypatch.undo()
    again = run_study(study, tmp_path / "s", HERE)  # the same command
    assert {record["status"] for record in again.records} == {"finished"}


def test_losses_are_told_from_crashes():
    events = []
    retries = Retries(2, events.append)
    task = Task({"key": "a"}, "/nowhere")
    assert retries.again(task, Outcome("lost", "gone"))
    assert not retries.again(task, Outcome("lost", "gone again")) and not events
    with pytest.raises(LostProcessError, match=r"got: a: gone again; .*rerun the same command"):
        retries.check()
    assert {int(signal.SIGSEGV), int(signal.SIGABRT)} <= CRASHES
    assert not {int(signal.SIGKILL), int(signal.SIGTERM), int(signal.SIGHUP)} & CRASHES


@pytest.mark.thorough
def test_workers_are_kept_from_one_stage_to_the_next(tmp_path):
    """And are ended with the study."""
    tasks = []
    for name in "ab":
        cell = {"key": name, "name": name, "settings": {}}
        tasks.append(Task(cell, str(tmp_path / "s" / "cells"), function="os:getpid"))
    folder = StudyFolder(tmp_path / "s")
    with folder.claimed(), CellRunner(folder, RunOptions(workers=1), StopSignal()) as runner:
        for task in tasks:
            # Not a function of a cell: it fails, and the worker lives.
            assert runner.run([task], 1)
        workers = {e["worker"] for e in folder.journal.read() if e["event"] == "started"}
        assert len(workers) == 1 and Path(f"/proc/{min(workers)}").exists()
    assert not Path(f"/proc/{min(workers)}").exists()


# ----------------------------------------------------------------------------- damaged records


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    changed = {
        "cut short": content[: len(content) // 2],
        "empty": b"",
        "wrong digest": content.replace(b"finished", b"diverged"),
        "not JSON": b"\x00\xff" * 100,
        "another file": b"{}",
    }
    path.write_bytes(changed[how])


@pytest.mark.parametrize("how", ["cut short", "empty", "wrong digest", "not JSON", "another file"])
def test_a_damaged_record_is_set_aside_and_the_others_are_read(tmp_path, done, how):
    folder = tmp_path / "s"
    shutil.copytree(done.folder, folder)
    key = done.records[3]["key"]
    damage(folder / "cells" / key / "cell.json", how)
    before = files_in(folder)
    records = StudyFolder(folder).records([cell["key"] for cell in done.cells])
    others = {record["key"]: record for record in done.records if record["key"] != key}
    assert records.readable == others and list(records.damaged) == [key]
    seen = status(folder)
    assert (seen.finished, seen.damaged_count, seen.waiting) == (11, 1, 1)
    assert (
        seen.damaged[0]["key"] == key and f"{key}/cell.json is damaged" in seen.damaged[0]["reason"]
    )
    assert files_in(folder) == before  # readers change nothing
    again = run_study(small_study(), folder, HERE)
    assert without_times(again.records) == without_times(done.records)
    assert (folder / "cells" / key / "cell.json.damaged").exists()
    event = next(e for e in StudyFolder(folder).journal.read() if e["event"] == "damaged")
    assert event["key"] == key and event["kept"].endswith("cell.json.damaged")


def test_a_record_of_a_newer_version_is_neither_used_nor_moved(tmp_path, done):
    folder = tmp_path / "s"
    shutil.copytree(done.folder, folder)
    path = folder / "cells" / done.records[0]["key"] / "cell.json"
    write_record(path, read_record(path) | {"format": 99})
    before = path.read_bytes()
    with pytest.raises(DamagedFileError, match="written by a newer version"):
        run_study(small_study(), folder, HERE)
    assert path.read_bytes() == before
    assert StudyFolder(folder).statuses([done.records[0]["key"]]) == {
        done.records[0]["key"]: "damaged"
    }


def test_a_damaged_journal_does_not_stop_a_study(tmp_path):
    folder = tmp_path / "s"
    run_study(small_study(seeds=1, units=["relu"]), folder, HERE)
    (folder / "journal.jsonl").write_text("nonsense\n")
    assert status(folder).finished == 2
    assert len(run_study(small_study(seeds=1, units=["relu", "elu"]), folder, HERE).records) == 4
    assert (folder / "journal.jsonl.damaged").read_text() == "nonsense\n"
    assert StudyFolder(folder).journal.read()[0]["event"] == "damaged"


class FullDisk(FastDisk):
    """Takes so many more writes, and is then full until it is emptied."""

    def __init__(self, writes: int) -> None:
        self.writes = writes

    def write(self, handle, data) -> int:
        self.writes -= 1
        if self.writes < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(handle, data)


@pytest.mark.parametrize("shard", [None, "0/2"])
def test_a_full_disk_stops_a_study_at_any_write_and_nothing_is_spoilt(tmp_path, monkeypatch, shard):
    """The disk is full at the first write, at the second, ..., and is emptied each time."""
    folder = tmp_path / "s"
    study = FunctionStudy(folder, "shared")
    cells = shared_cells.cells(folder, 5, 0.0)
    options = RunOptions(on="here", shard=shard)
    stopped = 0
    for writes in range(100):
        monkeypatch.setattr(disk, "current", FullDisk(writes))
        try:
            done = study.run(cells, options)
        except FileError as problem:
            assert problem.errno == errno.ENOSPC or "No space left" in str(problem)
            stopped += 1
            continue
        break
    assert stopped >= 5 and len(done) == 5
    assert {record["status"] for record in done.values()} == {"finished"}
    assert set(shared_cells.runs(folder).values()) <= {1, 2}
    monkeypatch.undo()
    assert status(folder).finished == 5 and not status(folder).damaged_count
    assert not list(folder.glob("claims/*/*")) and not list(folder.glob("drivers/*.json"))


def test_an_error_of_the_disk_in_the_code_of_a_cell_is_not_its_result(tmp_path):
    task = Task({"key": "a", "name": "a", "settings": {}}, str(tmp_path), function="x:y")
    for number, status_, disc in ((errno.ENOSPC, "lost", True), (errno.ENOENT, "failed", False)):

        def work(stop, number=number):
            raise OSError(number, os.strerror(number))

        outcome = run_cell(task, work=work)
        assert (outcome.status, outcome.disc) == (status_, disc)
