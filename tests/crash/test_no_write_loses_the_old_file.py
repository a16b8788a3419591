"""T2, T3: an error or a power cut at any I/O call leaves the old or the new content, complete.

Each write is run with a fault at I/O call 1, 2, 3, ... until a run completes. See
``simulated_disk.py``.
"""

import errno

import pytest
import torch
from simulated_disk import ERRORS, PowerCut, SimulatedDisk, every_call, using

from gatewise.errors import DamagedFileError, FileError
from gatewise.files import (
    is_temporary,
    read_json,
    read_record,
    read_tensors,
    replace_file,
    write_bytes,
    write_json,
    write_record,
    write_tensors,
    write_text,
)

PATH = "/disk/run/state"
OLD, NEW = 3, 700  # as lengths: the new content spans sectors


def read_plain(path):
    from gatewise.files import disk

    handle = disk.current.open(path, "rb")
    return len(disk.current.read(handle, 0))


def read_list(path):
    return len(read_json(path))


def read_ones(path):
    (tensors, metadata) = read_tensors(path)
    assert metadata == {"size": str(len(tensors["w"]))}
    assert torch.equal(tensors["w"], torch.ones(len(tensors["w"])))
    return len(tensors["w"])


def read_count(path):
    return len(read_record(path)["content"])


KINDS = {
    "bytes": (lambda n: write_bytes(PATH, b"x" * n), read_plain),
    "text": (lambda n: write_text(PATH, "x" * n), read_plain),
    "json": (lambda n: write_json(PATH, [1] * n), read_list),
    "record": (lambda n: write_record(PATH, {"content": [1] * n}), read_count),
    "tensors": (
        lambda n: write_tensors(PATH, {"w": torch.ones(n)}, metadata={"size": str(n)}),
        read_ones,
    ),
}
STARTS = ("overwrite", "first")


def before(kind, start):
    """The files on the disk before the write under test, and what they may be read as."""
    if start == "first":
        return {}, None
    simulated = SimulatedDisk()
    with using(simulated):
        KINDS[kind][0](OLD)
    return simulated.visible(), OLD


def content(kind, files):
    """What a fresh program reads; ``None`` if there is no file.

    Anything but content and leftovers is a failure.
    """
    assert all(name == PATH or is_temporary(name) for name in files), files.keys()
    with using(SimulatedDisk(files)):
        try:
            return KINDS[kind][1](PATH)
        except OSError as problem:
            assert problem.errno == errno.ENOENT, problem
            return None


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_power_cut_at_any_call_leaves_old_or_new(kind, start):
    files, old = before(kind, start)
    met = set()
    for simulated, end in every_call(files, lambda: KINDS[kind][0](NEW)):
        found = {content(kind, state) for state in simulated.survivors()}
        assert found <= ({old, NEW} if isinstance(end, PowerCut) else {NEW}), (
            simulated.calls,
            found,
        )
        assert end is None or isinstance(end, PowerCut)
        met |= found
    assert met == {old, NEW}  # the disk did lose something, and did keep something


@pytest.mark.parametrize("kind", KINDS)
def test_a_write_after_a_killed_one_is_durable(kind):
    """The program dies, the machine does not.

    Another program writes, and only then the power goes.
    """
    files, _ = before(kind, "overwrite")
    for simulated, _ in every_call(files, lambda: KINDS[kind][0](NEW)):
        simulated.at, simulated.over = 0, False
        with using(simulated):
            KINDS[kind][0](NEW + 1)
        assert {content(kind, state) for state in simulated.survivors()} == {NEW + 1}


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize("error", ERRORS, ids=errno.errorcode.get)
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("kind", ["bytes", "json", "tensors"])
def test_an_error_at_any_call_leaves_old_or_new(kind, start, error, lasting, late):
    files, old = before(kind, start)
    failures = 0
    for simulated, end in every_call(
        files, lambda: KINDS[kind][0](NEW), error=error, lasting=lasting, late=late
    ):
        found = {content(kind, state) for state in (simulated.visible(), *simulated.survivors())}
        if end is None:
            assert found == {NEW}
            continue
        failures += 1
        assert found <= {old, NEW}
        assert type(end) is FileError and end.errno == error
        assert PATH in str(end) and end.fix and "\n" not in str(end)
        if not lasting and not (
            late and simulated.calls == 1
        ):  # then it cannot know that it made the file
            assert not any(is_temporary(name) for name in simulated.visible())
    assert failures >= 6


@pytest.mark.parametrize("kind", KINDS)
def test_before_the_rename_an_error_leaves_the_old_file(kind):
    files, old = before(kind, "overwrite")
    kept = [
        content(kind, simulated.visible())
        for simulated, end in every_call(files, lambda: KINDS[kind][0](NEW), error=errno.EIO)
    ]
    assert kept[-2:] == [NEW, NEW] and set(kept[:-2]) == {
        old
    }  # the folder sync, and the run without an error


class LyingDisk(SimulatedDisk):
    """Says it has written, and has changed one bit."""

    def _write(self, node, data):
        super()._write(node, data)
        node.now[-1] ^= 1
        return len(data)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_read_back_wrong_does_not_replace_the_old_file(kind):
    files, old = before(kind, "overwrite")
    simulated = LyingDisk(files)
    with using(simulated), pytest.raises(DamagedFileError, match="read back") as caught:
        KINDS[kind][0](NEW)
    assert PATH in str(caught.value)
    assert simulated.visible() == files and content(kind, files) == old


class StingyDisk(SimulatedDisk):
    """Takes at most seven bytes at a time."""

    def _write(self, node, data):
        return super()._write(node, data[:7])


@pytest.mark.parametrize("kind", KINDS)
def test_a_disk_that_takes_a_little_at_a_time_gets_everything(kind):
    simulated = StingyDisk()
    with using(simulated):
        KINDS[kind][0](NEW)
    assert content(kind, simulated.visible()) == NEW


def test_tensors_that_change_while_they_are_written_do_not_replace_the_old_file():
    files, old = before("tensors", "overwrite")
    weights = torch.ones(NEW)

    class MeddlingDisk(SimulatedDisk):
        def _open(self, name, mode):
            weights[0] = 5.0
            return super()._open(name, mode)

    simulated = MeddlingDisk(files)
    with using(simulated), pytest.raises(DamagedFileError, match="read back"):
        write_tensors(PATH, {"w": weights}, metadata={"size": str(NEW)})
    assert content("tensors", simulated.visible()) == old


def test_an_interrupt_leaves_nothing_behind():
    def parts():
        yield b"begun"
        raise KeyboardInterrupt

    simulated = SimulatedDisk()
    with using(simulated), pytest.raises(KeyboardInterrupt):
        replace_file(PATH, parts(), "")
    assert simulated.visible() == {}


def test_a_temporary_file_of_another_writer_is_not_removed(monkeypatch):
    monkeypatch.setattr("gatewise.files.atomic.token_hex", lambda count: "0" * 2 * count)
    others = {"/disk/run/.gatewise-0000000000000000.tmp": b"theirs"}
    simulated = SimulatedDisk(others)
    with using(simulated), pytest.raises(FileError, match="taken"):
        write_bytes(PATH, b"mine")
    assert simulated.visible() == others
