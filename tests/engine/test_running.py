"""The engine: every cell has one record, whatever happens to driver and workers."""

import os
import sqlite3
import time

import pytest
from engine.small_work import cells, count, sums

from gatewise.errors import ArgumentError, DamagedFileError, HeldError
from gatewise.studies.engine import Cell, Running, StudyFile, run

HEADER = {"name": "small"}


def values(records: dict) -> list[float]:
    return [record["value"] for record in records.values()]


def test_records_are_those_of_the_work_and_a_second_call_runs_nothing(tmp_path):
    started = []
    first = run(
        tmp_path, lambda _: cells(4), count, header=HEADER, watch=lambda p: started.append(p.event)
    )
    assert values(first) == sums(4)
    assert started == ["started", "ended"] * 4
    assert run(tmp_path, lambda _: cells(4), lambda _: 1 / 0, header=HEADER) == first
    file = StudyFile(tmp_path)
    assert file.records() == first and file.header() == HEADER
    assert not file.work.exists() and file.driver is None


def test_cells_are_asked_for_again_until_none_is_wanted(tmp_path):
    seen = []

    def wanted(records):
        seen.append(len(records))
        return cells(2 if len(records) < 2 else 4)

    assert values(run(tmp_path, wanted, count, header=HEADER)) == sums(4)
    assert seen == [0, 2, 4]


def test_an_error_of_the_work_is_a_record_and_can_be_tried_again(tmp_path):
    made = [*cells(1), *cells(1, wish="raise")]
    records = list(run(tmp_path, lambda _: made, count, header=HEADER).values())
    assert [record["status"] for record in records] == ["done", "failed"]
    assert "ValueError: this cell cannot be run (small_work.py" in records[1]["error"]
    status = StudyFile(tmp_path).status()
    assert (status.cells, status.done, status.failed) == (2, 1, 1)
    assert "cannot be run" in status.failures[0]["error"]
    again = run(
        tmp_path,
        lambda _: made,
        lambda _: {"value": 3.0},
        header=HEADER,
        running=Running(retry_failed=True),
    )
    assert values(again) == [*sums(1), 3.0]


def test_a_worker_that_dies_is_replaced_and_a_cell_that_kills_three_has_failed(tmp_path):
    made = [*cells(2), *cells(1, wish="die"), *cells(1, wish="die once")]
    events = []
    records = run(
        tmp_path,
        lambda _: made,
        count,
        header=HEADER,
        running=Running(workers=2),
        watch=lambda p: events.append(p),
    )
    found = [record["status"] for record in records.values()]
    assert found == ["done", "done", "failed", "done"]
    assert values(records)[:2] == sums(2)  # as in one process
    assert "SIGKILL, 3 times in a row" in list(records.values())[2]["error"]
    died = [progress.cell.settings["wish"] for progress in events if progress.event == "died"]
    assert sorted(died) == ["die", "die", "die", "die once"]
    assert list(records.values())[3]["processor_seconds"] is None  # of the first attempt, unknown


def test_a_cell_over_the_time_limit_has_failed(tmp_path):
    made = cells(1, wish="sleep")
    records = run(tmp_path, lambda _: made, count, header=HEADER, running=Running(time_limit=1.0))
    [record] = records.values()
    assert record["status"] == "failed" and "longer than the time limit" in record["error"]


def test_a_second_driver_is_refused_by_the_name_of_the_first(tmp_path):
    def work(call):
        with pytest.raises(HeldError, match=f"process {os.getpid()} on "):
            run(tmp_path, lambda _: cells(1), count, header=HEADER)
        assert StudyFile(tmp_path).driver.startswith(f"process {os.getpid()} on ")
        return {"value": 1.0}

    assert values(run(tmp_path, lambda _: cells(1), work, header=HEADER)) == [1.0]


def test_the_record_of_another_cell_is_refused(tmp_path):
    one, other = cells(2)
    file = StudyFile(tmp_path)
    file.prepare()
    file.take({one.key: {**other.labels, "status": "done", "value": 1.0}})
    with pytest.raises(ArgumentError, match=r"not of the cell whose key it has.*count 1"):
        run(tmp_path, lambda _: [one], count, header=HEADER)


def test_a_new_plan_keeps_records_and_reads_only_its_own(tmp_path):
    run(tmp_path, lambda _: cells(3), count, header=HEADER)
    run(tmp_path, lambda _: cells(2), count, header={"name": "smaller"})
    file = StudyFile(tmp_path)
    assert values(file.records()) == sums(2) and file.header() == {"name": "smaller"}
    assert len(file.records(all_plans=True)) == 3


def test_keys_depend_on_experiment_and_settings_alone():
    cell = Cell("count", {"seed": 1, "rate": 0.1}, {"unit": "relu"})
    assert cell.key == Cell("count", {"rate": 0.1, "seed": 1}, {}).key
    assert cell.key != Cell("count", {"seed": 2, "rate": 0.1}).key
    assert cell.key != Cell("other", {"seed": 1, "rate": 0.1}).key


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + b"\0" * 2000])
def test_a_damaged_file_is_one_error(tmp_path, content):
    path = tmp_path / "study.sqlite"
    path.write_bytes(content)
    if not content:  # a driver died before it wrote: the study starts
        assert values(run(tmp_path, lambda _: cells(1), count, header=HEADER)) == sums(1)
        return
    for use in (
        lambda: run(tmp_path, lambda _: cells(1), count, header=HEADER),
        StudyFile(tmp_path).status,
        StudyFile(tmp_path).records,
    ):
        with pytest.raises(DamagedFileError):
            use()


def test_a_page_of_the_file_that_was_overwritten_is_noticed(tmp_path):
    run(tmp_path, lambda _: cells(30), count, header=HEADER)
    path = tmp_path / "study.sqlite"
    data = bytearray(path.read_bytes())
    data[3 * 4096 : 4 * 4096] = bytes(4096)
    path.write_bytes(data)
    with pytest.raises(DamagedFileError, match="damaged"):
        run(tmp_path, lambda _: cells(30), count, header=HEADER)


def test_a_reader_does_not_stop_the_writer(tmp_path):
    run(tmp_path, lambda _: cells(2), count, header=HEADER)
    file = StudyFile(tmp_path)
    file.status()
    with sqlite3.connect(file.path, timeout=0) as database:  # at once: nobody holds it
        database.execute("UPDATE cells SET tries = 7")
    database.close()


def test_status_of_100_000_cells_takes_less_than_two_seconds(tmp_path):
    file = StudyFile(tmp_path)
    file.prepare()
    made = [Cell("count", {"seed": seed}, {"seed": seed}) for seed in range(100_000)]
    file.ask(made, HEADER)
    file.take({cell.key: {**cell.labels, "status": "done", "value": 1.0} for cell in made[:60_000]})
    begin = time.process_time()
    status = file.status()
    assert time.process_time() - begin < 2
    assert (status.cells, status.done, status.failed) == (100_000, 60_000, 0)
