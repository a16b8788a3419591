"""A file of a data set is used when it is the published one, and refused with both digests when it is not."""

import errno
import gzip
import hashlib
import struct
from pathlib import Path

import pytest
import torch

from gatewise.data import LabelledImages, mnist
from gatewise.data._idx import parse_idx
from gatewise.data._published import Published, data_folder, read_published
from gatewise.data.mnist import FILES
from gatewise.errors import ArgumentError, DamagedFileError, FileError

PLAIN = b"\0\0\x08\x02" + struct.pack(">II", 2, 3) + bytes(range(6))
PACKED = gzip.compress(PLAIN, mtime=0)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


FILE = Published("set/values", len(PLAIN), sha256(PLAIN), len(PACKED), sha256(PACKED))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "set").mkdir()
    return tmp_path


@pytest.mark.parametrize(("name", "content"), [("set/values", PLAIN), ("set/values.gz", PACKED)])
def test_the_published_file_is_read_packed_or_not(home: Path, name: str, content: bytes):
    (home / name).write_bytes(content)
    values = parse_idx(name, read_published(home, FILE))
    assert values.tolist() == [[0, 1, 2], [3, 4, 5]] and values.dtype == torch.uint8


FLIPPED = bytes([PACKED[0] ^ 1]) + PACKED[1:]
DAMAGES = {
    "cut": PACKED[:-1],
    "longer": PACKED + b"x",
    "one bit": FLIPPED,
    "empty": b"",
    "a page": b"<html>404 not found</html>",
    "unpacked under the packed name": PLAIN,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused_with_the_expected_and_the_found_digest(home: Path, damage: str):
    (home / "set/values.gz").write_bytes(DAMAGES[damage])
    (home / "set/values").write_bytes(PLAIN)  # a good copy beside it does not excuse the bad one
    with pytest.raises(DamagedFileError) as error:
        read_published(home, FILE)
    assert sha256(PACKED) in str(error.value)
    assert sha256(DAMAGES[damage][: len(PACKED) + 1]) in str(error.value)


def test_a_missing_file_is_named(home: Path):
    with pytest.raises(FileError, match=r"missing.*values\.gz.*downloads nothing"):
        read_published(home, FILE)


def test_a_folder_and_a_loop_are_our_errors(home: Path):
    target = home / "set/values.gz"
    target.mkdir()
    with pytest.raises(FileError, match="folder"):
        read_published(home, FILE)
    target.rmdir()
    target.symlink_to(target)
    with pytest.raises(FileError, match="circle"):
        read_published(home, FILE)


def test_a_file_that_may_not_be_read_is_our_error(home: Path, monkeypatch: pytest.MonkeyPatch):
    (home / "set/values.gz").write_bytes(PACKED)

    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")  # what everyone but root would be told

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(FileError, match="permissions"):
        read_published(home, FILE)


@pytest.mark.parametrize(
    "wrong",
    [b"", b"\0\0\x08", b"\0\0\x09\x01\0\0\0\1x", b"\0\0\x08\x00", b"\0\0\x08\x02\0\0\0\1", PLAIN + b"x", PLAIN[:-1]],
)
def test_what_is_no_idx_file_is_refused(wrong: bytes):
    with pytest.raises(DamagedFileError, match="idx"):
        parse_idx("values", wrong)


def test_an_idx_file_may_be_empty():
    assert parse_idx("values", b"\0\0\x08\x02" + struct.pack(">II", 0, 3)).shape == (0, 3)


def test_the_folder_is_named_by_argument_or_environment(home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("GATEWISE_DATA", raising=False)
    with pytest.raises(FileError, match="set GATEWISE_DATA"):
        data_folder()
    monkeypatch.setenv("GATEWISE_DATA", str(home))
    assert data_folder() == home
    assert data_folder(home / "set") == home / "set"
    with pytest.raises(FileError, match="not a folder"):
        data_folder(home / "nowhere")
    with pytest.raises(FileError, match="not a folder"):
        data_folder("a\0b")


def test_only_the_two_splits_are_known():
    with pytest.raises(ArgumentError, match="split"):
        mnist("validation")


def test_classes_are_chosen_in_order():
    some = LabelledImages(torch.arange(5).view(5, 1, 1), torch.tensor([4, 7, 1, 4, 7]))
    chosen = some.of_classes(7, 4)
    assert chosen.labels.tolist() == [4, 7, 4, 7] and chosen.images.flatten().tolist() == [0, 1, 3, 4]
    assert len(chosen.first(3)) == 3
    with pytest.raises(ArgumentError, match="class"):
        some.of_classes(2)


@pytest.mark.data
def test_mnist_is_complete(data_folder: Path):
    train, test = mnist("train", folder=data_folder), mnist("test", folder=data_folder)
    assert train.images.shape == (60_000, 28, 28) and test.images.shape == (10_000, 28, 28)
    assert train.labels[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]  # as everyone who has seen the set knows them
    assert train.labels.bincount().sum() == 60_000 and len(train.labels.unique()) == 10
    assert len(train.of_classes(4, 7)) == 5842 + 6265 and len(test.of_classes(4, 7)) == 982 + 1028


@pytest.mark.data
def test_swapped_files_are_refused(data_folder: Path, tmp_path: Path):
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    source = data_folder / "MNIST" / "raw"
    (raw / "t10k-images-idx3-ubyte.gz").symlink_to(source / "t10k-labels-idx1-ubyte.gz")
    (raw / "t10k-labels-idx1-ubyte.gz").symlink_to(source / "t10k-images-idx3-ubyte.gz")
    with pytest.raises(DamagedFileError, match=FILES["test", "images"].packed_sha256):
        mnist("test", folder=tmp_path)
