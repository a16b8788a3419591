"""Text as rows of bytes: frozen, checked, divided in one way."""

import hashlib
import lzma
import runpy
from pathlib import Path

import pytest
import torch

from gatewise.data import Form, Published, load
from gatewise.data.sets import text as module
from gatewise.errors import ArgumentError, DamagedFileError, FileError

HOME = Path(module.__file__).parent
TOOL = Path(__file__).parents[2] / "tools/python_docstrings.py"


def test_the_frozen_text_is_the_one_that_was_extracted():
    packed = (HOME / "python_text.xz").read_bytes()
    whole = lzma.decompress(packed)
    assert len(packed) == 433_832 and len(whole) == 1_777_412
    digest = "6ffafcd0d284381facdb1281d33da5baf3497541bd496711a2483105a85baf06"
    assert hashlib.sha256(whole).hexdigest() == digest
    assert "PYTHON SOFTWARE FOUNDATION LICENSE" in (HOME / "python_text.LICENSE.txt").read_text()


def test_another_digest_is_an_error(monkeypatch: pytest.MonkeyPatch):
    size = module.FILE.forms["python_text.xz"].size
    monkeypatch.setattr(module, "FILE", Published("python_text.xz", Form("0" * 64, size)))
    with pytest.raises(DamagedFileError, match="is not the published file"):
        load("text")


@pytest.mark.parametrize("length", [1, 100, 128])
def test_labels_are_the_next_bytes_and_no_byte_is_predicted_twice(tmp_path: Path, length: int):
    words = b"".join(b"%d," % number for number in range(20_000))  # no run of bytes comes twice
    (tmp_path / "own.txt").write_bytes(words)
    data = load("text", path=str(tmp_path / "own.txt"), length=length)
    assert data.shape == (length,) and data.classes == 256
    seen = 0
    for split in (data.train, data.test):
        assert split.images.shape == split.labels.shape == (len(split), length)
        assert torch.equal(split.images[:, 1:].long(), split.labels[:, :-1])
        seen += split.labels.numel()
    assert 0.95 * len(words) < seen <= len(words)
    assert 0.05 < len(data.test) / (len(data.train) + len(data.test)) < 0.12
    if length == 100:
        rows = {bytes(row.tolist()) for row in data.train.images}
        rows |= {bytes(row.tolist()) for row in data.test.images}
        assert len(rows) == len(data.train) + len(data.test)
        assert all(row in words for row in rows)


def test_a_folder_is_read_in_the_order_of_names_and_other_files_are_not(tmp_path: Path):
    (tmp_path / "b.txt").write_bytes(b"b" * 2000)
    (tmp_path / "a.txt").write_bytes(b"a" * 2000)
    (tmp_path / "c.md").write_bytes(b"c" * 2000)
    together = tmp_path / "whole"
    together.write_bytes(b"a" * 2000 + b"\n" + b"b" * 2000)
    folder = load("text", path=str(tmp_path), length=8)
    assert folder.digest == load("text", path=str(together), length=8).digest


def test_fewer_rows_are_part_of_more(tmp_path: Path):
    few, more = (load("text", train=count, test=count) for count in (5, 9))
    assert torch.equal(more.train.images[:5], few.train.images)
    assert torch.equal(more.test.labels[:5], few.test.labels)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": 0}, "length must be a number of bytes"),
        ({"length": "8"}, "length must be a number of bytes"),
        ({"train": 10**9}, "train is not allowed"),
    ],
)
def test_wrong_options_are_refused(options: dict, message: str):
    with pytest.raises(ArgumentError, match=message):
        load("text", **options)


def test_texts_that_cannot_be_used_are_refused(tmp_path: Path):
    (tmp_path / "short").write_bytes(b"short")
    with pytest.raises(ArgumentError, match="too short for rows of 128 bytes"):
        load("text", path=str(tmp_path / "short"))
    with pytest.raises(FileError, match="has no text"):
        load("text", path=str(tmp_path))
    with pytest.raises(FileError):
        load("text", path=str(tmp_path / "nowhere"))


def test_the_tool_takes_docstrings_and_imports_nothing(tmp_path: Path):
    tool = runpy.run_path(str(TOOL))
    (tmp_path / "os.py").write_text(
        '"""The first line of a module."""\nraise SystemExit\n'
        'def f():\n    """A function that is documented.\n\n    More of it.\n    """\n'
        'def g():\n    """Short."""\n'
        'def h():\n    """The first line of a module."""\n'
    )
    (tmp_path / "not_in_the_library.py").write_text('"""Not in the standard library."""\n')
    (tmp_path / "test").mkdir()
    (tmp_path / "test/test_os.py").write_text('"""A test is not documentation."""\n')
    found = tool["library_text"](tmp_path)
    assert found == (
        b"The first line of a module.\n\nA function that is documented.\n\nMore of it.\n"
    )
