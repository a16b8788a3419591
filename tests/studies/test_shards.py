"""Several drivers on one study: every cell is run once, and what a dead one held is taken over."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import shared_cells
from driver_server import Server
from small_studies import without_times

import gatewise
from gatewise.errors import ArgumentError, HeldError
from gatewise.files import Claims, Presence, claims, write_record
from gatewise.studies.older import (
    FunctionStudy,
    RunOptions,
    StudyFolder,
    read_study,
    run_study,
    runner,
    status,
)

HERE = {"process": os.getpid(), "host": os.uname().nodename}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Look often."""
    monkeypatch.setattr(runner, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(claims, "LOOK_SECONDS", 0.05)


def test_a_claim_has_one_owner_and_goes_on_when_it_is_released(tmp_path):
    with Presence(tmp_path / "d") as first, Presence(tmp_path / "d") as second:
        assert list(first.others()) == [second.name] and list(second.others()) == [first.name]
        ours, theirs = Claims(tmp_path / "c", first), Claims(tmp_path / "c", second)
        assert ours.take("a") and ours.take("a") and not theirs.take("a")
        ours.release("a")
        assert theirs.take("a") and not ours.take("a")
        assert not Presence(tmp_path / "d").is_alive("nobody")
    assert not list((tmp_path / "d").iterdir())


@pytest.mark.parametrize(
    "owner",
    [
        {"process": 2**22 + 1, "host": HERE["host"]},  # there is no such process
        {"process": 1, "host": "another"},  # not renewed for too long
        {"host": HERE["host"]},  # it does not say
        None,  # it has left
    ],
)
def test_the_claim_of_a_dead_owner_is_taken_over_by_one(tmp_path, owner):
    if owner is not None:
        (tmp_path / "d").mkdir()
        write_record(tmp_path / "d" / "x.json", owner)
        os.utime(tmp_path / "d" / "x.json", (1, 1))
    (tmp_path / "c").mkdir()
    write_record(tmp_path / "c" / "a.0.json", {"owner": "x"})
    (tmp_path / "c" / "b.0.json").write_text("{")  # damaged
    with Presence(tmp_path / "d") as first, Presence(tmp_path / "d") as second:
        ours, theirs = Claims(tmp_path / "c", first), Claims(tmp_path / "c", second)
        for name in ("a", "b"):
            assert ours.take(name) and not theirs.take(name) and ours.take(name)
            ours.release(name)
            assert theirs.take(name)


def test_the_claim_of_an_owner_elsewhere_holds_while_it_is_renewed(tmp_path):
    (tmp_path / "d").mkdir()
    write_record(tmp_path / "d" / "x.json", {"process": 1, "host": "another"})
    with Presence(tmp_path / "d") as presence:
        assert list(presence.others()) == ["x"]
        os.utime(tmp_path / "d" / "x.json", (time.time() - 1000,) * 2)
        time.sleep(0.1)
        assert presence.others() == {}


def test_a_presence_is_renewed(tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "HEARTBEAT_SECONDS", 0.01)
    with Presence(tmp_path / "d") as presence:
        path = tmp_path / "d" / f"{presence.name}.json"
        os.utime(path, (1, 1))
        until = time.monotonic() + 30
        while path.stat().st_mtime < 1000 and time.monotonic() < until:
            time.sleep(0.01)
        assert path.stat().st_mtime > 1000


def test_four_drivers_run_every_cell_once(tmp_path):
    folder = tmp_path / "s"
    results = {}

    def drive(number: int) -> None:
        results[number] = shared_cells.run_shard(folder, f"{number}/4", 24, 0.01)

    threads = [threading.Thread(target=drive, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(shared_cells.runs(folder).values()) == {1} and len(shared_cells.runs(folder)) == 24
    for number in range(4):  # each waited for the others, and has all results
        assert [r["value"]["number"] for r in results[number].values()] == list(range(24))
    events = StudyFolder(folder).journal.read()
    began = [event for event in events if event["event"] == "began"]
    assert len({event["driver"] for event in events}) == len(began)
    ended = status(folder)
    assert (ended.finished, ended.waiting, ended.driver) == (24, 0, None)
    assert not list((folder / "claims" / "cells").iterdir())


def test_the_shard_is_where_a_driver_begins(tmp_path):
    folder = tmp_path / "s"
    shared_cells.run_shard(folder, "1/3", 6, 0.0)
    started = [e["key"] for e in StudyFolder(folder).journal.read() if e["event"] == "started"]
    names = {cell["key"]: cell["name"] for cell in StudyFolder(folder).read()["cells"]}
    assert [names[key] for key in started] == [f"cell{n}" for n in (1, 4, 0, 2, 3, 5)]


def test_what_a_dead_driver_held_is_run_by_another(tmp_path):
    folder = tmp_path / "s"
    study = FunctionStudy(folder, "shared")
    key = study.key("cell0", "shared_cells:work", shared_cells.cells(folder, 1, 0.0)[0].settings)
    (folder / "claims" / "cells").mkdir(parents=True)
    (folder / "drivers").mkdir()
    write_record(folder / "drivers" / "x.json", HERE | {"process": 2**22 + 1, "format": 1})
    write_record(folder / "drivers" / "y.json", HERE | {"format": 1})  # alive: nothing is cleaned
    write_record(folder / "claims" / "cells" / f"{key}.0.json", {"owner": "x"})
    assert len(shared_cells.run_shard(folder, "0/2", 3, 0.0)) == 3


def test_one_driver_alone_and_several_exclude_each_other(tmp_path):
    folder = tmp_path / "s"
    shared_cells.run_shard(folder, "0/1", 1, 0.0)
    with StudyFolder(folder).claimed(shard="0/2"):
        assert len(status(folder).drivers) == 1
        with StudyFolder(folder).claimed(shard="1/2"):
            shards = {driver["shard"] for driver in status(folder).drivers}
            assert shards == {"0/2", "1/2"}
        with pytest.raises(HeldError, match=f"got: process {os.getpid()} on"):
            with StudyFolder(folder).claimed():
                pass
    with StudyFolder(folder).claimed():
        assert not (folder / "drivers").exists() or not list((folder / "drivers").iterdir())


def test_a_second_driver_does_not_wait_for_one_that_holds_the_folder_alone(tmp_path, monkeypatch):
    from gatewise.studies.older import folder as module

    monkeypatch.setattr(module, "REGISTER_SECONDS", 0.1)
    with StudyFolder(tmp_path / "s").claimed():
        with pytest.raises(HeldError, match="or give all of them --shard"):
            with StudyFolder(tmp_path / "s").claimed(shard="0/2"):
                pass


def test_failed_cells_are_tried_again_by_the_first_driver_only(tmp_path):
    folder = StudyFolder(tmp_path / "s")
    with folder.claimed(shard="0/2"):
        assert folder.alone
        other = StudyFolder(tmp_path / "s")
        with other.claimed(shard="1/2"):
            assert not other.alone


def test_drivers_agree_on_what_the_first_one_says(tmp_path):
    first, second = StudyFolder(tmp_path / "s"), StudyFolder(tmp_path / "s")
    with first.claimed(shard="0/2"), second.claimed(shard="1/2"):
        assert first.agree("threads", 3) == 3 and second.agree("threads", 5) == 3
    with first.claimed():
        assert first.agree("threads", 5) == 5


@pytest.mark.parametrize("text", ["", "3", "3/2", "-1/2", "0/0", "a/b", "1/1000000000", "1/2/3"])
def test_what_is_no_shard_is_refused(text):
    with pytest.raises(ArgumentError, match="shard"):
        RunOptions(shard=text)


def test_shards_count_from_zero_or_one():
    assert [runner.shard_of(f"{n}/3")[0] for n in (0, 1, 2)] == [0, 1, 2]
    assert [runner.shard_of(f"{n}/3")[0] for n in (1, 2, 3)] == [1, 2, 0]


def program_environment() -> dict[str, str]:
    source = str(Path(gatewise.__file__).parents[1])
    paths = {"PYTHONPATH": f"{source}:{Path(__file__).parent}", "OMP_NUM_THREADS": "1"}
    return os.environ | paths


@pytest.fixture
def server():
    environment = program_environment()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
    program = [sys.executable, shared_cells.__file__]
    with subprocess.Popen(program, env=environment, **pipes) as process:
        assert process.stdout.readline() == "ready\n"
        yield Server(process)
        process.stdin.close()


@pytest.mark.thorough
def test_drivers_killed_at_random_lose_and_spoil_nothing(server, tmp_path):
    """Three drivers at once, eight of them killed on the way."""
    folder = tmp_path / "s"
    count = 80
    chance = random.Random(4)  # noqa: S311  not for secrets

    def begin(shard: int) -> int:
        server.process.stdin.write(f"{folder} {shard}/3 {count} 0.1\n")
        server.process.stdin.flush()
        return int(server.hear("driver")[0])

    drivers = [begin(shard) for shard in range(3)]
    ends = {}
    for _ in range(8):
        time.sleep(chance.uniform(0, 0.8))
        assert len(list(folder.glob("cells/*/cell.json"))) < count, "the study is too short"
        shard = chance.randrange(3)
        os.kill(drivers[shard], signal.SIGKILL)
        drivers[shard] = begin(shard)
    while len(ends) < 11:
        driver, code = server.hear("dead")
        ends[int(driver)] = int(code)
    assert sorted(ends.values()) == [-9] * 8 + [0] * 3
    assert {ends[driver] for driver in drivers} == {0}
    runs = shared_cells.runs(folder)
    assert len(runs) == count
    # A cell is run again only if its driver died between its work and its record.
    assert sum(runs.values()) <= count + 8
    records = StudyFolder(folder).records([c["key"] for c in StudyFolder(folder).read()["cells"]])
    assert len(records.readable) == count and not records.damaged
    assert status(folder).finished == count


@pytest.mark.thorough
def test_a_tuned_study_of_two_shards_is_that_of_one_driver(tmp_path):
    environment = program_environment()
    programs = []
    for shard in ("0/2", "1/2"):
        command = [sys.executable, shared_cells.__file__, str(tmp_path / "s"), shard]
        programs.append(subprocess.Popen(command, env=environment))
    study = shared_cells.tuned_study()
    whole = run_study(study, tmp_path / "whole", RunOptions(on="here", threads=1))
    assert [program.wait() for program in programs] == [0, 0]
    result = read_study(tmp_path / "s")
    assert without_times(result.records) == without_times(whole.records)
    started = [e for e in StudyFolder(tmp_path / "s").journal.read() if e["event"] == "started"]
    assert len(started) == len({event["key"] for event in started})  # nothing was run twice
    assert len({event["driver"] for event in started}) == 2
