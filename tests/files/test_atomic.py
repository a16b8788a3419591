"""What a write leaves, what its errors say, locks, and folders tidied."""

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
    held,
    is_temporary,
    list_folder,
    make_folder,
    read_json,
    remove_file,
    remove_temporaries,
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


@pytest.mark.parametrize(
    ("place", "number", "words"),
    [
        ("missing/file", errno.ENOENT, "make its folder first"),
        ("plain/file", errno.ENOTDIR, "a part of it is a file"),
        ("folder", errno.EISDIR, "this is a folder"),
        ("n" * 256, errno.ENAMETOOLONG, "shorter name"),
        ("nul\0byte", None, "null"),
        ("\ud800", None, "surrogates"),
        ("", errno.EISDIR, "this is a folder"),
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


def test_temporary_names_are_recognised_and_others_are_not(tmp_path, monkeypatch):
    seen = []
    real = Path.replace
    monkeypatch.setattr(Path, "replace", lambda self, to: seen.append(self) or real(self, to))
    write_bytes(tmp_path / "a", b"x")
    assert len(seen) == 1 and seen[0].parent == tmp_path
    assert is_temporary(seen[0]) and is_temporary(str(seen[0]))
    for name in ("a", ".tmp", ".gatewise-.tmp", "x.gatewise-0123456789abcdef.tmp"):
        assert not is_temporary(name)
    assert not is_temporary(seen[0] / "a")


def test_a_named_pipe_or_a_device_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        for read in (read_json, digest):
            with pytest.raises(FileError, match="not a regular file") as caught:
                read(path)
            assert caught.value.errno == errno.EINVAL


def test_a_file_too_large_for_memory_is_an_error_of_ours(tmp_path, monkeypatch):
    write_json(tmp_path / "a", 1)

    def read(self):
        raise MemoryError

    monkeypatch.setattr(Path, "read_bytes", read)
    with pytest.raises(FileError, match="not enough memory"):
        read_json(tmp_path / "a")


@pytest.mark.parametrize("fails", ["fsync", "replace", "write_bytes"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, fails):
    write_bytes(tmp_path / "a", b"old")

    def full(*given):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os if fails == "fsync" else Path, fails, full)
    with pytest.raises(FileError, match="free some space"):
        write_bytes(tmp_path / "a", b"new")
    monkeypatch.undo()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"old"}


def test_the_content_is_synced_before_it_gets_its_name_and_the_folder_after(tmp_path, monkeypatch):
    done = []
    real = Path.replace
    monkeypatch.setattr(
        os, "fsync", lambda number: done.append(stat.S_ISDIR(os.fstat(number).st_mode))
    )
    monkeypatch.setattr(Path, "replace", lambda *given: done.append("name") or real(*given))
    write_bytes(tmp_path / "a", b"x")
    assert done == [False, "name", True]


def test_a_symbolic_link_is_kept_and_its_target_is_replaced(tmp_path):
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "to nothing yet").symlink_to("new")
    write_bytes(tmp_path / "link", b"new")
    write_bytes(tmp_path / "to nothing yet", b"made")
    assert (tmp_path / "target").read_bytes() == b"new" and (tmp_path / "link").is_symlink()
    assert (tmp_path / "new").read_bytes() == b"made"


def test_folders_are_made_once(tmp_path):
    for _ in range(2):
        make_folder(tmp_path / "a" / "b" / "c")
    assert (tmp_path / "a" / "b" / "c").is_dir()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileError, match="taken"):
        make_folder(tmp_path / "file")


def test_a_lock_keeps_another_process_out_and_its_end_frees_it(tmp_path):
    code = "import sys, gatewise.files as f\n"
    code += "with f.held(sys.argv[1]): print('held', flush=True); sys.stdin.read()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code, tmp_path / "lock"], **pipes) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(FileError, match="another process is at work"), held(tmp_path / "lock"):
            pass
        other.kill()
        other.wait()
    with held(tmp_path / "lock"):
        pass


def test_temporary_files_of_dead_writers_are_removed_and_nothing_else(tmp_path):
    write_bytes(tmp_path / "mine", b"x")
    dead = tmp_path / ".gatewise-0123456789abcdef.tmp"
    dead.write_bytes(b"half")
    assert list_folder(tmp_path) == ["mine"]
    assert remove_temporaries(tmp_path) == [dead]
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_file_is_removed_once_and_a_missing_one_is_no_error(tmp_path):
    write_bytes(tmp_path / "a", b"x")
    remove_file(tmp_path / "a")
    remove_file(tmp_path / "a")
    assert not list(tmp_path.iterdir()) and list_folder(tmp_path / "missing") == []
    with pytest.raises(FileError, match="cannot delete"):
        remove_file(tmp_path)


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


def test_digest_of_bytes_and_of_files_is_sha256(tmp_path, monkeypatch):
    monkeypatch.setattr("gatewise.files.atomic.BLOCK", 7)
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
