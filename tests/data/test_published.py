"""A file is used if it is the published one, and refused with both digests if it is not."""

import errno
import gzip
import hashlib
import os
import struct
from io import FileIO
from pathlib import Path

import pytest
import torch
from gatewise_papers.data import parse_idx

from gatewise.data import Form, Published, data_folder, read_other, read_published
from gatewise.errors import DamagedFileError, FileError
from gatewise.files import Disk

PLAIN = b"\0\0\x08\x02" + struct.pack(">II", 2, 3) + bytes(range(6))
PACKED = gzip.compress(PLAIN, mtime=0)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


FILE = Published("set/values", Form(sha256(PLAIN), len(PLAIN)), Form(sha256(PACKED), len(PACKED)))
UNSIZED = Published("set/values", packed=Form(sha256(PACKED)))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "set").mkdir()
    return tmp_path


@pytest.mark.parametrize(("name", "content"), [("set/values", PLAIN), ("set/values.gz", PACKED)])
def test_the_published_file_is_read_packed_or_not(home: Path, name: str, content: bytes):
    (home / name).write_bytes(content)
    values = parse_idx(name, read_published(home, FILE))
    assert values.tolist() == [[0, 1, 2], [3, 4, 5]] and values.dtype == torch.uint8


DAMAGES = {
    "cut": PACKED[:-1],
    "cut in half": PACKED[: len(PACKED) // 2],
    "longer": PACKED + b"x",
    "one bit": bytes([PACKED[0] ^ 1]) + PACKED[1:],
    "empty": b"",
    "a page": b"<html>404 not found</html>",
    "unpacked under the packed name": PLAIN,
    "packed anew": gzip.compress(PLAIN, mtime=1),
}


@pytest.mark.parametrize("file", [FILE, UNSIZED], ids=["size known", "size not known"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused_with_the_expected_and_the_found_digest(
    home: Path, damage: str, file: Published
):
    (home / "set/values.gz").write_bytes(DAMAGES[damage])
    (home / "set/values").write_bytes(PLAIN)  # a good copy beside it does not excuse the bad one
    read = DAMAGES[damage][: len(PACKED) + 1] if file is FILE else DAMAGES[damage]
    with pytest.raises(DamagedFileError) as error:
        read_published(home, file)
    assert (
        f"allowed: {f'{len(PACKED)} bytes, ' if file is FILE else ''}sha256 {sha256(PACKED)}"
        in str(error.value)
    )
    assert f"sha256 {sha256(read)} of those read" in str(error.value)


def test_a_form_that_was_not_published_is_not_looked_for(home: Path):
    (home / "set/values").write_bytes(PLAIN)
    with pytest.raises(FileError, match=r"missing.*values\.gz"):
        read_published(home, UNSIZED)


def test_a_missing_file_is_named_with_what_to_do(home: Path):
    with pytest.raises(
        FileError, match=r"missing; got: .*set/values\.gz; fix: ask Ann; .*downloads nothing"
    ):
        read_published(home, FILE, fetch="ask Ann")


def test_a_folder_a_loop_and_a_pipe_are_our_errors(home: Path):
    target = home / "set/values.gz"
    target.mkdir()
    with pytest.raises(FileError, match="folder"):
        read_published(home, FILE)
    target.rmdir()
    target.symlink_to(target)
    with pytest.raises(FileError, match="circle"):
        read_published(home, FILE)
    target.unlink()
    os.mkfifo(target)
    with pytest.raises(FileError, match="pipe"):
        read_published(home, FILE)
    target.unlink()
    target.symlink_to(home / "nowhere")
    with pytest.raises(FileError, match="spelling"):
        read_published(home, FILE)


def test_a_file_that_may_not_be_read_is_our_error(home: Path, monkeypatch: pytest.MonkeyPatch):
    (home / "set/values.gz").write_bytes(PACKED)

    def refuse(*_):
        raise PermissionError(
            errno.EACCES, "Permission denied"
        )  # what everyone but root would be told

    monkeypatch.setattr(Disk, "open", refuse)
    with pytest.raises(FileError, match="permissions"):
        read_published(home, FILE)
    monkeypatch.setattr(Path, "lstat", refuse)
    with pytest.raises(FileError, match="permissions"):
        read_published(home, FILE)


def test_short_reads_do_not_matter_and_a_failing_disc_is_our_error(
    home: Path, monkeypatch: pytest.MonkeyPatch
):
    (home / "set/values.gz").write_bytes(PACKED)

    def three_bytes(_, handle: FileIO, start: int, count: int = -1) -> bytes:
        handle.seek(start)
        return handle.read(min(3, count))

    monkeypatch.setattr(Disk, "read", three_bytes)
    assert read_published(home, FILE) == PLAIN

    def fail(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Disk, "read", fail)
    with pytest.raises(FileError, match="check the disk"):
        read_published(home, FILE)


def test_another_file_in_its_place_is_read_when_that_is_wanted(
    home: Path, monkeypatch: pytest.MonkeyPatch
):
    with pytest.raises(FileError, match="missing"):
        read_other(home, FILE, fetch="ask Ann")
    (home / "set/values").write_bytes(b"my own")
    assert read_other(home, FILE, fetch="ask Ann") == b"my own"
    monkeypatch.setattr("gatewise.data.published.LARGEST", 5)
    with pytest.raises(DamagedFileError, match="too large"):
        read_other(home, FILE, fetch="ask Ann")


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"\0\0\x08",
        b"\0\0\x09\x01\0\0\0\1x",
        b"\0\0\x08\x00",
        b"\0\0\x08\x02\0\0\0\1",
        PLAIN + b"x",
        PLAIN[:-1],
    ],
)
def test_what_is_no_idx_file_is_refused(wrong: bytes):
    with pytest.raises(DamagedFileError, match="idx"):
        parse_idx("values", wrong)


def test_an_idx_file_may_be_empty():
    assert parse_idx("values", b"\0\0\x08\x02" + struct.pack(">II", 0, 3)).shape == (0, 3)


def test_the_folder_is_named_by_argument_or_environment(
    home: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("GATEWISE_DATA", raising=False)
    with pytest.raises(FileError, match=r"set GATEWISE_DATA .*, and ask Ann"):
        data_folder(fetch="ask Ann")
    monkeypatch.setenv("GATEWISE_DATA", str(home))
    assert data_folder() == home
    assert data_folder(home / "set") == home / "set"
    with pytest.raises(FileError, match="not a folder"):
        data_folder(home / "nowhere")
    with pytest.raises(FileError):
        data_folder("a\0b")
