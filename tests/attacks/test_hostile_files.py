"""Reading a hostile file runs no code, takes little memory, and raises our error or gives data."""

import re
import sys
import tracemalloc
from pathlib import Path

import hostile
import pytest
import torch

from gatewise.errors import DamagedFileError
from gatewise.files import (
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
ALLOWANCE = 32 << 20  # bytes, for a header of limited size, which the reader takes apart
FORBIDDEN = re.compile(
    r"import|exec|compile|code\.__new__|function\.__new__|pickle\.|marshal\.|ctypes\.dlopen|subprocess\.|socket\."
    r"|os\.(system|exec|fork|forkpty|posix_spawn|spawn|startfile|mkdir|remove|rename|rmdir|link|symlink|truncate)"
)
watched: dict = {"folder": None, "seen": []}


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
    Journal(folder / "c").append({})
    read_json(folder / "a"), map_tensors(folder / "b"), Journal(folder / "c").read()


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
    seen, end = events(read, path)
    assert type(end) is DamagedFileError, type(end)
    assert str(path) in str(end) and len(str(end)) < 1500 and "\n" not in str(end)
    assert seen == []
    if len(data) > 100_000:
        assert peak(read, path) <= 4 * len(data) + ALLOWANCE
    assert sorted(found.name for found in tmp_path.iterdir()) == ["hostile"]


@pytest.mark.parametrize(("reader", "name"), FOREIGN)
def test_a_foreign_file_is_refused(reader, name, tmp_path):
    data = hostile.foreign_files(tmp_path / "marker")[name]
    if reader == "journal" and b"\n" not in data:  # one unfinished line, as a kill leaves it
        (tmp_path / "hostile").write_bytes(data)
        assert events(READERS["journal"][0], tmp_path / "hostile") == ([], [])
    else:
        attack(reader, data, tmp_path)


@pytest.mark.parametrize(("reader", "name"), CASES)
def test_a_hostile_file_is_refused(reader, name, tmp_path):
    attack(reader, READERS[reader][1]()[name], tmp_path)


@pytest.mark.parametrize("reader", ["json", "tensors"])
def test_a_large_foreign_file_is_refused_without_reading_it(reader, tmp_path):
    path = tmp_path / "hostile"
    with path.open("wb") as file:
        file.truncate((1 << 26) + 1)
    assert peak(READERS[reader][0], path) < ALLOWANCE


def test_the_makers_of_hostile_files_make_good_ones_too(tmp_path):
    """Controls: without the hostile part the same files can be read."""
    path = tmp_path / "good"
    path.write_bytes(
        hostile.tensors(hostile.entry(), hostile.entry(offsets=[1, 2], name="b"), data=b"xy")
    )
    found = {name: tensor.item() for name, tensor in read_tensors(path)[0].items()}
    assert found == {"a": 120, "b": 121}
    path.write_bytes(hostile.tensors(hostile.entry(shape=[0, 1 << 40], offsets=[0, 0]), data=b""))
    assert read_tensors(path)[0]["a"].shape == (0, 1 << 40)
    path.write_bytes(b"[[], 1e300]")
    assert read_json(path) == [[], 1e300]
    path.write_bytes(b'{"a": 1}\n')
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
