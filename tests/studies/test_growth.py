"""How a study grows with its cells: in proportion, counted in function calls and bytes."""

import os
from pathlib import Path

import pytest
from effort import count_calls
from simulated import FastDisk, Simulated, simulated, study_of

from gatewise.errors import ArgumentError, DamagedFileError
from gatewise.files import Journal, disk, read_record, write_record
from gatewise.studies.older import (
    CellRunner,
    RunOptions,
    StudyFolder,
    Task,
    cells_of,
    folder,
    read_study,
    run_study,
    runner,
    status,
)
from gatewise.train import StopSignal

SMALL, LARGE = 100, 400  # cells
# Calls for four times the cells, against four times the calls: the fixed part makes it less.
SLACK = 1.1


def planned(count: int) -> list[dict]:
    """Cells as they are in ``study.json``, of two units."""
    cells = []
    for number in range(count):
        unit = ("relu", "elu")[number % 2]
        seed = number // 2
        place = {"unit": unit, "backbone": "mlp", "data": "digits", "recipe": "adam"}
        config = {"model": "mlp", "unit": unit, "data_options": {"train": 50}, "seed": seed}
        more = {"seed": seed, "lr": 0.003, "role": "final", "config": config}
        cells.append({"key": f"{number:016x}", **place, **more})
    return cells


def grow(path: Path, count: int, workers: int = 50) -> tuple[StudyFolder, int]:
    """Run a simulated study of so many cells; its folder, and the calls that the driver made."""
    study = StudyFolder(path)
    cells = planned(count)
    tasks = [Task(cell, str(path / "cells")) for cell in cells]
    with study.claimed():
        study.write({"name": "grown", "title": "", "study": {}, "cells": cells})
        executor = Simulated(workers)
        work = CellRunner(study, RunOptions(), StopSignal(), executor=executor)
        done, calls = count_calls(lambda: work.run(tasks, 1))
    assert done and executor.most == min(workers, count)
    return study, calls


@pytest.fixture
def fast(monkeypatch):
    monkeypatch.setattr(disk, "current", FastDisk())


@pytest.mark.thorough
def test_a_driver_does_four_times_as_much_for_four_times_the_cells(tmp_path, fast):
    small, few = grow(tmp_path / "small", SMALL)
    large, many = grow(tmp_path / "large", LARGE)
    assert many <= 4 * few * SLACK
    sizes = [study.journal.size for study in (small, large)]
    assert sizes[1] <= 4 * sizes[0] * SLACK
    seen, few = count_calls(lambda: status(small.path))
    assert seen.finished + seen.failed_count == SMALL and seen.failed_count
    seen, many = count_calls(lambda: status(large.path))
    assert seen.finished + seen.failed_count == LARGE
    assert many <= 4 * few * SLACK


class CountingDisk(FastDisk):
    """Counts the bytes that are read of the journal."""

    def __init__(self) -> None:
        self.read_bytes = 0
        self.journal = None

    def open(self, path, mode):
        handle = super().open(path, mode)
        if os.fspath(path).endswith("journal.jsonl"):
            self.journal = handle
        return handle

    def read(self, handle, start, count=-1):
        data = super().read(handle, start, count)
        self.read_bytes += len(data) if handle is self.journal else 0
        return data


def test_a_status_does_not_read_a_long_journal(tmp_path, fast, monkeypatch):
    monkeypatch.setattr(runner, "SUMMARY", 50)
    study, _ = grow(tmp_path / "s", 40)
    for number in range(600):
        study.note("started", key=f"{number}", worker="w", reason="x" * 200)
    study.note("summary", stage="cells", total=40, done=40, failed=0, running={})
    counting = CountingDisk()
    monkeypatch.setattr(disk, "current", counting)
    assert status(study.path).total == 40
    assert 0 < counting.read_bytes < study.journal.size / 2


def test_the_end_of_a_journal_is_read_back_as_far_as_needed(tmp_path, fast):
    journal = Journal(tmp_path / "j")
    assert journal.read_back(lambda records: False) == []
    for number in range(1500):
        journal.append({"number": number, "text": "x" * 100})
    last = journal.read_back(lambda records: True)
    assert 0 < len(last) < 1500 and last == journal.read()[-len(last) :]
    assert journal.read_back(lambda records: records[0]["number"] < 700) == journal.read()
    with (tmp_path / "j").open("ab") as file:
        file.write(b'{"sha256": "torn')
    assert journal.read_back(lambda records: True)[-1] == last[-1]
    (tmp_path / "j").write_bytes(b"nonsense\n" * 20000)
    with pytest.raises(DamagedFileError):
        journal.read_back(lambda records: True)


def test_the_cells_of_a_large_study_are_read_back_as_they_were(tmp_path, monkeypatch, fast):
    monkeypatch.setattr(folder, "PLAIN_CELLS", 10)
    study = StudyFolder(tmp_path)
    odd = {**planned(1)[0], "key": "odd", "config": {"seed": 99}}  # a seed of its own
    for cells in (planned(10), planned(200), [*planned(20), odd], [{"key": "x"}] * 11):
        content = {"name": "n", "title": "t", "study": {}, "cells": cells}
        study.write(content)
        assert study.read()["cells"] == cells
        before = (tmp_path / "study.json").stat().st_mtime_ns
        study.write(content)  # no change, so it is not written
        assert (tmp_path / "study.json").stat().st_mtime_ns == before
    study.write({"name": "n", "title": "t", "study": {}, "cells": planned(2000)})
    assert (tmp_path / "study.json").stat().st_size < 2000 * 50
    for damage in ({"rows": [[9, "k", 1]]}, {"groups": 3}, {"rows": [["x"]]}, {"rows": None}):
        raw = read_record(tmp_path / "study.json")
        write_record(tmp_path / "study.json", raw | {"cells": raw["cells"] | damage})
        with pytest.raises(DamagedFileError, match="is not a study of this version"):
            study.read()
        study.write({"name": "n", "title": "t", "study": {}, "cells": planned(2000)})


def test_two_places_that_are_the_same_run_are_named():
    from small_studies import small_study

    from gatewise.studies.older import make_groups

    groups = make_groups(small_study(units=["relu", "elu"], backbones=["mlp"]))
    same = [*groups, groups[1]]
    with pytest.raises(ArgumentError, match=r"the same run; got: Place\(unit='elu'"):
        cells_of(same, [0])
    _, few = count_calls(lambda: cells_of(groups, range(50)))
    _, many = count_calls(lambda: cells_of(groups, range(200)))
    assert many <= 4 * few * SLACK


@pytest.mark.thorough
def test_a_whole_study_of_simulated_cells_comes_to_its_end(tmp_path):
    with simulated(1000) as executor:
        result = run_study(study_of(1000), tmp_path / "s")
    statuses = [record["status"] for record in result.records]
    assert len(statuses) == 1000 and 0 < statuses.count("failed") < 50
    assert executor.most == 1000
    assert read_study(tmp_path / "s").records == result.records
    seen = status(tmp_path / "s")
    assert (seen.finished, seen.failed_count) == (1000 - seen.failed_count, len(seen.failed))
