"""T2, T3 on the real disk: what a write leaves, and what its errors say.

Every failing call is in ``tests/crash``.
"""

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from gatewise.errors import ArgumentError, FileError
from gatewise.files import (
    atomic,
    digest,
    disk,
    is_temporary,
    make_folder,
    read_json,
    write_bytes,
    write_json,
    write_text,
)


def test_bytes_and_text_arrive_as_given_and_nothing_else_is_left(tmp_path):
    write_bytes(tmp_path / "a", b"\0\xff")
    write_bytes(str(tmp_path / "a"), memoryview(b"new\r\n"))
    write_text(tmp_path / "b", "é\r\n")
    write_bytes(tmp_path / "c", b"")
    found = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert found == {"a": b"new\r\n", "b": b"\xc3\xa9\r\n", "c": b""}


def test_the_file_has_the_permissions_of_any_new_file(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    write_bytes(tmp_path / "ours", b"")
    assert stat.S_IMODE((tmp_path / "ours").stat().st_mode) == stat.S_IMODE(
        (tmp_path / "plain").stat().st_mode
    )


def test_a_name_of_full_length_can_be_written(tmp_path):
    write_bytes(tmp_path / ("n" * 255), b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["n" * 255]


def test_a_pipe_is_refused_as_a_target_and_stays_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for write in (lambda p: write_text(p, "x"), lambda p: write_bytes(p, b"x")):
        with pytest.raises(FileError, match="regular file"):
            write(tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo() and [p.name for p in tmp_path.iterdir()] == ["pipe"]


def test_what_is_neither_bytes_nor_text_is_refused_before_anything_is_touched(tmp_path):
    for write, wrong in (
        (write_text, 5),
        (write_text, b"x"),
        (write_bytes, "x"),
        (write_bytes, None),
    ):
        with pytest.raises(ArgumentError):
            write(tmp_path / "file", wrong)
    assert list(tmp_path.iterdir()) == []


def test_text_without_utf8_form_is_refused(tmp_path):
    with pytest.raises(ArgumentError, match="UTF-8"):
        write_text(tmp_path / "a", "\ud800")
    assert list(tmp_path.iterdir()) == []


def test_temporary_names_are_recognised_and_others_are_not(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(
        disk.Disk,
        "rename",
        lambda self, source, target: seen.append(source) or source.replace(target),
    )
    write_bytes(tmp_path / "a", b"x")
    assert len(seen) == 1 and seen[0].parent == tmp_path
    assert is_temporary(seen[0]) and is_temporary(str(seen[0]))
    for name in (
        "a",
        ".tmp",
        ".gatewise-.tmp",
        "x.gatewise-0123456789abcdef.tmp",
        ".gatewise-0123456789abcdef.tmp~",
    ):
        assert not is_temporary(name)
    assert not is_temporary(seen[0] / "a")


@pytest.mark.parametrize(
    ("place", "number", "words"),
    [
        ("missing/file", errno.ENOENT, "make its folder first"),
        ("plain/file", errno.ENOTDIR, "a part of it is a file"),
        ("folder", errno.EISDIR, "this is a folder"),
        ("n" * 256, errno.ENAMETOOLONG, "shorter name"),
        ("nul\0byte", None, "null"),
        ("\ud800", None, "surrogates"),
        ("", None, "empty name"),
    ],
)
def test_a_path_that_cannot_be_written_is_an_error_of_ours_that_says_what_to_do(
    tmp_path, place, number, words
):
    (tmp_path / "folder").mkdir()
    (tmp_path / "plain").write_bytes(b"old")
    path = tmp_path / place if place else Path("/")
    with pytest.raises(FileError, match=words) as caught:
        write_bytes(path, b"new")
    assert caught.value.errno == number and caught.value.fix and "\n" not in str(caught.value)
    assert sorted(found.name for found in tmp_path.iterdir()) == ["folder", "plain"]


@pytest.mark.parametrize("read", [digest, read_json])
@pytest.mark.parametrize(
    ("place", "number"),
    [("missing", errno.ENOENT), ("folder", errno.EISDIR), ("loop", errno.ELOOP)],
)
def test_a_path_that_cannot_be_read_is_an_error_of_ours(tmp_path, read, place, number):
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(FileError, match=f"cannot read {tmp_path / place}") as caught:
        read(tmp_path / place)
    assert caught.value.errno == number


def test_a_named_pipe_or_a_device_is_refused_at_once(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(disk.os, "open", lambda *a, real=os.open: never_waiting(*a) and real(*a))
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(FileError, match="not a regular file") as caught:
            read_json(path)
        assert caught.value.errno == errno.EINVAL


def never_waiting(path, flags, *rest):
    """Opening a pipe without this flag would wait for ever for someone at its other end."""
    assert flags & os.O_NONBLOCK, path
    return True


def test_a_file_too_large_for_memory_is_an_error_of_ours(tmp_path, monkeypatch):
    write_json(tmp_path / "a", 1)

    def read(self, handle, start, count=-1):
        raise MemoryError

    monkeypatch.setattr(disk.Disk, "read", read)
    with pytest.raises(FileError, match="not enough memory"):
        read_json(tmp_path / "a")


def test_a_very_long_path_keeps_its_end_in_the_message():
    with pytest.raises(FileError, match=r"cannot read …/d/.*/the-name;"):
        digest("d/" * 3000 + "the-name")


def test_every_handle_is_closed_whatever_happens(tmp_path):
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        write_bytes(tmp_path / "a", b"x")
        digest(tmp_path / "a")
        with pytest.raises(FileError):
            write_bytes(tmp_path / "missing" / "a", b"x")
        with pytest.raises(FileError):
            read_json("/dev/zero")
        with pytest.raises(FileError):
            read_json(tmp_path / "a")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_the_order_of_an_atomic_write(tmp_path, monkeypatch):
    calls = []
    for name in (
        "open",
        "write",
        "sync",
        "forget",
        "read",
        "close",
        "rename",
        "sync_folder",
        "remove",
    ):
        real = getattr(disk.Disk, name)
        monkeypatch.setattr(
            disk.Disk, name, lambda *a, n=name, real=real: calls.append(n) or real(*a)
        )
    write_bytes(tmp_path / "a", b"x")
    assert calls == [
        "open",
        "write",
        "sync",
        "forget",
        "read",
        "read",
        "close",
        "rename",
        "sync_folder",
    ]


def test_the_real_disk_syncs_files_and_folders(tmp_path, monkeypatch):
    synced, forgotten = [], []
    monkeypatch.setattr(
        os, "fsync", lambda number: synced.append(stat.S_ISDIR(os.fstat(number).st_mode))
    )
    monkeypatch.setattr(os, "posix_fadvise", lambda *a: forgotten.append(a[1:]))
    write_bytes(tmp_path / "a", b"x")
    assert synced == [False, True] and forgotten == [(0, 0, os.POSIX_FADV_DONTNEED)]
    monkeypatch.setattr(disk, "FOLDERS_SYNC", False)
    write_bytes(tmp_path / "a", b"x")
    assert synced == [False, True, False]


def test_systems_without_cache_advice_are_no_problem(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "posix_fadvise")
    write_bytes(tmp_path / "a", b"x")
    assert (tmp_path / "a").read_bytes() == b"x"


def test_a_symbolic_link_is_replaced_and_its_target_is_kept(tmp_path):
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to("target")
    write_bytes(tmp_path / "link", b"new")
    assert (tmp_path / "target").read_bytes() == b"old" and not (tmp_path / "link").is_symlink()


def test_folders_are_made_and_each_name_is_synced(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(disk.Disk, "sync_folder", lambda self, path: synced.append(path))
    make_folder(tmp_path / "a" / "b" / "c")
    assert (tmp_path / "a" / "b" / "c").is_dir()
    assert synced == [tmp_path, tmp_path / "a", tmp_path / "a" / "b"]
    make_folder(tmp_path / "a")
    assert synced[-1] == tmp_path
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileError, match="taken"):
        make_folder(tmp_path / "file")


def test_digest_of_bytes_and_of_files_is_sha256(tmp_path, monkeypatch):
    monkeypatch.setattr("gatewise.files.seal.BLOCK", 7)
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert digest(b"") == empty and digest(bytearray(b"abc")) == digest(memoryview(b"abc")) == abc
    (tmp_path / "a").write_bytes(b"abc" * 100)
    assert digest(tmp_path / "a") == digest(str(tmp_path / "a")) == digest(b"abc" * 100)


def test_importing_files_imports_neither_torch_nor_safetensors_nor_filelock():
    source = Path(atomic.__file__).parents[1]
    script = f"""
import sys, types
# In place of gatewise/__init__.py, which imports torch for other parts.
package = types.ModuleType("gatewise")
package.__path__ = [{str(source)!r}]
sys.modules["gatewise"] = package
import gatewise.files
print([name for name in ("torch", "safetensors", "filelock", "numpy") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
