"""The processor time of a cell is that of all its attempts."""

from pathlib import Path

import pytest

from gatewise.files import read_record
from gatewise.studies.older import cell_work
from gatewise.studies.older.cell_work import RECORD, Task, run_cell
from gatewise.train import Halted, StopSignal


def test_attempts_that_were_stopped_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ticks = iter((0.0, 7.0, 100.0, 120.0, 200.0, 203.0))  # attempts of 7, 20 and 3 seconds
    monkeypatch.setattr(cell_work.time, "process_time", lambda: next(ticks))
    task = Task({"key": "some", "name": "some"}, str(tmp_path), function="some:function")

    def stopped(stop: StopSignal) -> None:
        raise Halted

    def stopped_by_training(stop: StopSignal) -> None:
        return None

    def finished(stop: StopSignal) -> dict:
        return {"status": "finished", "reason": None, "value": 1}

    assert run_cell(task, work=stopped).status == "stopped"
    assert run_cell(task, work=stopped_by_training).status == "stopped"
    assert run_cell(task, work=finished).status == "finished"
    assert read_record(task.place / RECORD)["process_seconds"] == 30.0
