"""A study run to its end.

Idempotent, resumed to the same bits, lost workers replaced, failures recorded.
"""

import json
import os
import signal
from collections import Counter
from pathlib import Path

import pytest
from small_studies import small_study, without_times

from gatewise.errors import ArgumentError, DamagedFileError, FileError, HeldError
from gatewise.files import read_record, write_record, write_record_once
from gatewise.stats import compare_runs
from gatewise.studies.older import RunOptions, StudyFolder, read_study, run_study, status
from gatewise.train.loop import StopSignal

HERE = RunOptions(on="here")


def files_in(folder: Path) -> dict[str, tuple[int, bytes]]:
    """What is there, and when it was written; locks and who was last at work aside."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".lock"
    }


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A study that is done."""
    folder = tmp_path_factory.mktemp("study") / "done"
    return run_study(small_study(), folder, HERE)


def test_records_say_what_the_runs_say(done):
    assert len(done.records) == len(done.cells) == 12 and {r["status"] for r in done.records} == {
        "finished"
    }
    for record in done.records:
        folder = Path(done.folder) / "cells" / record["key"]
        result, config = read_record(folder / "result.json"), read_record(folder / "config.json")
        assert (
            config["config_sha256"].startswith(record["key"])
            and result["config"]["seed"] == record["seed"]
        )
        for name in ("metrics", "best", "weights_sha256", "seconds", "environment", "data_sha256"):
            assert record[name] == result[name]
        lines = [
            json.loads(line)["record"]
            for line in (folder / "metrics.jsonl").read_text().splitlines()
        ]
        assert [point["epoch"] for point in record["curve"]] == [1, 2]
        assert [point["train_loss"] for point in record["curve"]] == [
            line["train_loss"] for line in lines
        ]
        assert (
            "test_loss" not in record["curve"][0]
            and record["curve"][1]["test_loss"] == lines[1]["test_loss"]
        )
        assert record["parameters"] > 0 and record["flops"] > 0 and record["saved_bytes"] > 0


def test_a_second_time_does_nothing(done):
    before = files_in(Path(done.folder))
    seen = []
    again = run_study(
        small_study(), done.folder, HERE, watch=lambda tally, event: seen.append(event)
    )
    assert seen == [None] and files_in(Path(done.folder)) == before
    assert again.records == done.records


def test_a_changed_line_runs_only_what_changed(tmp_path):
    run_study(small_study(seeds=1), tmp_path / "s", HERE)
    before, ended = files_in(tmp_path / "s" / "cells"), []
    more = run_study(
        small_study(seeds=2, units=["relu", "crelu"]),
        tmp_path / "s",
        HERE,
        watch=lambda tally, event: (
            ended.append(event.key) if event and event.kind == "finished" else None
        ),
    )
    assert len(ended) == 4 and len(more.records) == 8
    after = files_in(tmp_path / "s" / "cells")
    assert {name: after[name] for name in before} == before


class StopAfter:
    """A watcher that asks to stop when so many cells have begun."""

    def __init__(self, begun: int) -> None:
        self.begun, self.stop = begun, StopSignal()

    def __call__(self, tally, event) -> None:
        self.begun -= event is not None and event.kind == "started"
        self.stop.asked = self.stop.asked or self.begun <= 0


@pytest.mark.thorough
def test_a_study_resumed_half_way_has_the_records_of_one_never_interrupted(tmp_path):
    """3 units, 2 backbones, 5 seeds; stopped within its 15th cell, and once more."""
    study = small_study(seeds=5)
    whole = run_study(study, tmp_path / "whole", HERE)
    for begun in (15, 8):
        watch = StopAfter(begun)
        assert run_study(study, tmp_path / "halves", HERE, watch=watch, stop=watch.stop) is None
    assert status(tmp_path / "halves").finished == 14 + 7
    halves = run_study(study, tmp_path / "halves", HERE)
    assert len(halves.records) == 30
    assert without_times(halves.records) == without_times(whole.records)
    assert Counter(record["starts"] for record in halves.records) == {
        1: 28,
        2: 2,
    }  # the stopped ones went on
    assert halves.ranking() == whole.ranking()


def kill(worker: str) -> None:
    os.kill(int(worker), signal.SIGKILL)


@pytest.mark.thorough
def test_workers_that_are_killed_are_replaced_and_nothing_is_lost_or_changed(tmp_path, done):
    kills, events = [], []

    def watch(tally, event) -> None:
        if event is None:
            return
        events.append(event)
        if event.kind == "started" and len(kills) < 3:
            kills.append(event)
            kill(event.worker)

    found = run_study(
        small_study(), tmp_path / "s", RunOptions(workers=2, threads=1, tries=4), watch=watch
    )
    kinds = Counter(event.kind for event in events)
    assert kinds["lost"] == 3 and kinds["finished"] == 12 and kinds["started"] == 15
    assert all("was ended by signal 9" in event.reason for event in events if event.kind == "lost")
    assert without_times(found.records) == without_times(
        done.records
    )  # processes or not: the same bits
    assert not any(Path(f"/proc/{event.worker}").exists() for event in events)  # and none is left


def test_what_a_unit_raises_is_a_result_and_the_others_go_on(tmp_path, monkeypatch):
    from gatewise.studies.older import cell_work

    train = cell_work.train

    def failing(config, *rest, **options):
        if config.unit == "crelu":
            raise RuntimeError("no such kernel\nin this build")
        return train(config, *rest, **options)

    monkeypatch.setattr(cell_work, "train", failing)
    found = run_study(small_study(), tmp_path / "s", HERE)
    bad = [record for record in found.records if record["status"] == "failed"]
    assert (
        {record["unit"] for record in bad} == {"crelu"}
        and len(bad) == 4
        and len(found.records) == 12
    )
    assert "RuntimeError: no such kernel" in bad[0]["reason"] and bad[0]["metrics"] is None
    compared = found.compare("conv")
    assert [one.name for one in compared.differences] == ["leaky_relu"]
    assert len(found.to_dict()["not_finished"]) == 4 and found.ranking() is None
    json.dumps(found.to_dict(), allow_nan=False)


def test_a_run_that_diverges_is_a_result(tmp_path):
    recipe = {
        "epochs": 2,
        "batch": 20,
        "optimiser": {"name": "sgd", "lr": 900.0},
        "diverged_above": 5.0,
    }
    found = run_study(small_study(recipe=recipe, seeds=1), tmp_path / "s", HERE)
    assert {record["status"] for record in found.records} == {"diverged"}
    assert all("the loss" in record["reason"] for record in found.records)
    for difference in found.compare("conv").differences:
        assert (difference.verdict, difference.diverged) == ("undecided", 1)
    json.dumps(found.to_dict(), allow_nan=False)


@pytest.mark.thorough
def test_a_disc_that_fails_stops_the_study_and_no_cell_is_blamed(tmp_path, monkeypatch):
    from gatewise.studies.older import cell_work

    def full(*_, **__):
        raise FileError("cannot write", got="No space left on device")

    monkeypatch.setattr(cell_work, "train", full)
    with pytest.raises(
        FileError, match="the study cannot continue; got: cannot write; got: No space left"
    ):
        run_study(small_study(), tmp_path / "s", HERE)
    assert not list((tmp_path / "s").glob("cells/*/cell.json"))
    monkeypatch.undo()
    assert len(run_study(small_study(), tmp_path / "s", HERE).records) == 12


def test_comparisons_are_those_of_the_runs_own_files(done):
    """Recomputed from result.json alone."""
    results = {"conv": {}, "mlp": {}}
    for cell in done.cells:
        result = read_record(Path(done.folder) / "cells" / cell["key"] / "result.json")
        unit = results[cell["backbone"]].setdefault(cell["unit"], {})
        unit[cell["seed"]] = result["metrics"]["test_accuracy"]
    for backbone, values in results.items():
        comparison = done.compare(backbone)
        for unit in values.keys() - {"relu"}:
            ours = comparison[unit]
            two = {name: values[name] for name in ("relu", unit)}
            resolution = done.resolution(done.blocks[list(results).index(backbone)])
            again = compare_runs(
                two, "relu", comparisons=comparison.comparisons, resolution=resolution
            )[unit]
            assert (ours.interval, ours.p, ours.verdict) == (again.interval, again.p, again.verdict)
    with pytest.raises(ArgumentError, match="one backbone, data set and recipe is needed"):
        done.compare()


def test_what_is_not_equal_is_said(done):
    costs = {(each["unit"], each["backbone"]): each for each in done.to_dict()["costs"]}
    assert {"parameters", "flops", "saved_bytes"} <= set(costs["crelu", "conv"]["unequal"])
    assert "parameters" not in costs["leaky_relu", "conv"]["unequal"]
    assert costs["relu", "mlp"]["ratios"]["parameters"] == 1 and costs["relu", "mlp"]["seconds"] > 0
    written = {
        (g["unit"], g["backbone"]): g["unequal"]
        for g in read_record(Path(done.folder) / "study.json")["groups"]
    }
    assert written["relu", "conv"] == [] and "parameters" in written["crelu", "mlp"]


@pytest.mark.thorough
def test_a_study_may_have_several_recipes_and_data_sets(tmp_path):
    study = small_study(
        units=["relu", "elu"],
        seeds=1,
        recipe=None,
        recipes=[
            {"name": "one", "base": "adam", "epochs": 1},
            {"name": "two", "base": "sgd", "epochs": 1, "schedule": {"name": "constant"}},
        ],
        data=[
            {"name": "digits", "options": {"train": 40}},
            {"name": "digits", "label": "more", "options": {"train": 50}},
        ],
    )
    found = run_study(study, tmp_path / "s", HERE)
    assert len(found.blocks) == 8 and len(found.records) == 16
    assert found.compare("mlp", data="more", recipe="one").n == 1


# ----------------------------------------------------------------------------- folders that are not
# ours, and holders


def refused(folder: Path, error: type, said: str, **changes) -> None:
    before = files_in(folder)
    with pytest.raises(error, match=said):
        run_study(small_study(**changes), folder, HERE)
    assert files_in(folder) == before


def test_folders_of_something_else_are_refused_and_not_touched(tmp_path, done):
    refused(
        Path(done.folder),
        ArgumentError,
        "belongs to another study, and was not changed; got: 'small'",
        name="b",
    )
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("x")
    refused(tmp_path / "other", ArgumentError, "holds other files; got: thesis.tex")
    newer = tmp_path / "newer"
    newer.mkdir()
    write_record(
        newer / "study.json", read_record(Path(done.folder) / "study.json") | {"format": 99}
    )
    refused(
        newer, DamagedFileError, "written by a newer version, and was not changed; got: format 99"
    )
    (newer / "study.json").write_text(
        (Path(done.folder) / "study.json").read_text().replace("relu", "rule")
    )
    refused(newer, DamagedFileError, "study.json is damaged")


def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(FileError, match="cannot be written to"):
        run_study(small_study(), tmp_path / "s", HERE)
    assert not list(tmp_path.iterdir())


def test_there_is_one_driver_and_it_is_named(tmp_path, done):
    folder = StudyFolder(done.folder)
    with folder.claimed():
        with pytest.raises(
            HeldError,
            match=f"another process is running the study .* got: process {os.getpid()} on",
        ):
            run_study(small_study(), done.folder, HERE)
        assert status(done.folder).driver["process"] == os.getpid()
    assert status(done.folder).driver is None
    write_record(
        Path(done.folder) / "driver.json",
        {"format": 1, "process": 2**22 + 1, "host": os.uname().nodename},
    )
    assert status(done.folder).driver is None  # it has died
    assert (
        run_study(small_study(), done.folder, HERE).records == done.records
    )  # and its lock with it


def test_the_status_counts_what_is_there(tmp_path):
    seen = []
    watch = StopAfter(5)

    def look(tally, event) -> None:
        watch(tally, event)
        if event is not None and event.kind == "started":
            seen.append(status(tmp_path / "s"))

    assert run_study(small_study(), tmp_path / "s", HERE, watch=look, stop=watch.stop) is None
    last = seen[-1]
    assert (last.total, last.finished, len(last.running), last.waiting) == (12, 4, 1, 7)
    assert (last.running[0]["unit"], last.running[0]["backbone"]) == ("leaky_relu", "mlp")
    assert last.rate > 0 and last.seconds_left > 0 and last.driver["process"] == os.getpid()
    after = status(tmp_path / "s")
    assert (after.finished, len(after.running), after.waiting, after.seconds_left) == (
        4,
        0,
        8,
        None,
    )
    json.dumps(after.to_dict())


def test_of_several_writers_of_a_record_the_first_one_wins(tmp_path):
    assert write_record_once(tmp_path / "a.json", {"by": 1})
    before = (tmp_path / "a.json").read_bytes()
    assert not write_record_once(tmp_path / "a.json", {"by": 2})
    assert (tmp_path / "a.json").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]  # no temporary file is left


def test_a_worker_thought_lost_that_finishes_late_changes_nothing(done):
    """An orphan comes to the end of a cell that another worker has recorded since it looked."""
    from gatewise.studies.older import Task, run_and_record, run_cell

    cell = done.cells[0]
    path = Path(done.folder) / "cells" / cell["key"] / "cell.json"
    before, task = path.read_bytes(), Task(cell, str(path.parents[1]), {"parameters": -1})
    assert run_and_record(task, StopSignal()).status == run_cell(task).status == "finished"
    assert path.read_bytes() == before and read_study(done.folder).records == done.records
