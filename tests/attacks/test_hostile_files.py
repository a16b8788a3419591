"""X1, S3: reading a hostile file runs no code, is fast and small, and raises our error."""

import re
import sys
import tracemalloc
from pathlib import Path

import hostile
import pytest
import torch
from effort import count_calls

from gatewise.errors import DamagedFileError
from gatewise.files import (
    LARGEST,
    ROOM,
    Journal,
    digest,
    map_tensors,
    read_json,
    read_tensors,
    write_json,
    write_tensors,
)

READERS = {
    "json": (read_json, hostile.hostile_json),
    "tensors": (read_tensors, hostile.hostile_tensors),
    "mapped tensors": (map_tensors, hostile.hostile_tensors),
    "journal": (lambda path: Journal(path).read(), hostile.hostile_journals),
}
CASES = [(reader, name) for reader, (_, files) in READERS.items() for name in files()]
FOREIGN = [(reader, name) for reader in READERS for name in hostile.foreign_files("x")]
FOREIGN.remove(("journal", "zeros"))  # see the test about it
ALLOWANCE = 32 << 20  # bytes, for a header of limited size, which the reader takes apart

FORBIDDEN = re.compile(
    r"import|exec|compile|code\.__new__|function\.__new__|pickle\.|marshal\.|ctypes\.dlopen|subprocess\.|socket\."
    r"|os\.(system|exec|fork|forkpty|posix_spawn|spawn|startfile|mkdir|remove|rename|rmdir|link|symlink|truncate)"
)
watched: dict = {"folder": None, "seen": []}

FEWEST_CALLS = 5000  # of opening, locking and looking at any file


def watch(event, arguments):
    if watched["folder"] is None:
        return
    outside = event == "open" and not str(arguments[0]).startswith(watched["folder"])
    if FORBIDDEN.match(event) or outside:
        watched["seen"].append((event, str(arguments)[:100]))


sys.addaudithook(watch)


@pytest.fixture(scope="module", autouse=True)
def lazy_imports_are_done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("warm")
    write_json(folder / "a", 1)
    write_tensors(folder / "b", {"w": torch.ones(1)})
    map_tensors(folder / "b")
    (
        read_json(folder / "a"),
        read_tensors(folder / "b"),
        Journal(folder / "c").append({}),
        Journal(folder / "c").read(),
    )


def events(read, path):
    """What happened during a read, and how it ended."""
    watched.update(folder=str(path.parent), seen=[])
    try:
        end = read(path)
    except Exception as problem:
        end = problem
    finally:
        watched["folder"] = None
    return watched["seen"], end


def peak(read, path):
    tracemalloc.start()
    try:
        with pytest.raises(DamagedFileError):
            read(path)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def attack(reader, data, tmp_path):
    path, read = tmp_path / "hostile", READERS[reader][0]
    path.write_bytes(data)
    (seen, end), calls = count_calls(lambda: events(read, path))
    assert type(end) is DamagedFileError, type(end)
    assert str(path) in str(end) and len(str(end)) < 1500 and "\n" not in str(end)
    assert seen == []
    assert calls <= FEWEST_CALLS + len(data)  # no reader does more than one call a byte
    if len(data) > 100_000:
        assert peak(read, path) <= 2 * len(data) + ALLOWANCE
    assert sorted(found.name for found in tmp_path.iterdir()) == ["hostile"]


@pytest.mark.thorough
@pytest.mark.parametrize(("reader", "name"), FOREIGN)
def test_a_foreign_file_is_refused(reader, name, tmp_path):
    attack(reader, hostile.foreign_files(tmp_path / "marker")[name], tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize(("reader", "name"), CASES)
def test_a_hostile_file_with_a_right_seal_is_refused(reader, name, tmp_path):
    attack(reader, READERS[reader][1]()[name], tmp_path)


def test_a_file_of_nul_bytes_is_a_journal_without_records(tmp_path):
    """A power cut in the first append may leave just that."""
    (tmp_path / "hostile").write_bytes(hostile.foreign_files(tmp_path / "marker")["zeros"])
    assert events(READERS["journal"][0], tmp_path / "hostile") == ([], [])


def test_a_file_larger_than_any_of_its_kind_is_refused_without_reading_it(tmp_path):
    path = tmp_path / "hostile"
    with path.open("wb") as file:
        file.write(hostile.json_file("1"))
        file.truncate(LARGEST + ROOM + 1)
    assert peak(read_json, path) < ALLOWANCE


@pytest.mark.parametrize("reader", ["json", "tensors"])
def test_a_large_foreign_file_is_refused_without_reading_it(reader, tmp_path):
    path = tmp_path / "hostile"
    with path.open("wb") as file:
        file.truncate(60 << 20)
    assert peak(READERS[reader][0], path) < ALLOWANCE


def test_the_makers_of_hostile_files_make_good_ones_too(tmp_path):
    """Controls: without the hostile part the same files can be read."""
    path = tmp_path / "good"
    path.write_bytes(
        hostile.tensors(hostile.entry(), hostile.entry(offsets=[1, 2], name="b"), data=b"xy")
    )
    assert {name: tensor.item() for name, tensor in read_tensors(path)[0].items()} == {
        "a": 120,
        "b": 121,
    }
    path.write_bytes(hostile.tensors(hostile.entry(shape=[0, 1 << 40], offsets=[0, 0]), data=b""))
    assert read_tensors(path)[0]["a"].shape == (0, 1 << 40)
    path.write_bytes(hostile.json_file("[[], 1e300]"))
    assert read_json(path) == [[], 1e300]
    path.write_bytes(hostile.line('"line": 1, "record": {"a": 1}'))
    assert Journal(path).read() == [{"a": 1}]


def test_the_audit_sees_what_it_is_there_to_see(tmp_path):
    """Controls: each of these must be seen, or the tests above show nothing."""
    marker = tmp_path / "marker"
    payload = hostile.foreign_files(marker)["pickle"]
    controls = [
        lambda path: __import__("pickle").loads(payload),
        lambda path: exec("1"),
        lambda path: __import__("antigravity_not_there"),
        lambda path: __import__("os").system("true"),
        lambda path: Path("/dev/null").read_bytes(),
        lambda path: __import__("subprocess").run(["true"]),
    ]
    for control in controls:
        seen, _ = events(control, tmp_path / "x")
        assert seen
    assert marker.exists()
    assert events(digest, tmp_path / "x")[0] == []
