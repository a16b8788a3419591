"""S3: any damage is noticed.

Every byte of small files is changed in turn, every length is cut, large ones at random.

All eight single bits and their complement for each byte; all 255 changes with GATEWISE_FULL=1.
"""

import os
import random

import pytest
import torch

from gatewise.errors import DamagedFileError
from gatewise.files import Journal, read_json, read_tensors, write_json, write_tensors

FULL = os.environ.get("GATEWISE_FULL") == "1"
CHANGES = range(1, 256) if FULL else (1, 2, 4, 8, 16, 32, 64, 128, 255)
RANDOM_FLIPS = 10_000 if FULL else 150


def write_journal(path):
    for record in ({"n": 1, "mail": "@*J"}, {}, {"é": None}):
        Journal(path).append(record)


def write_torn_journal(path):
    write_journal(path)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:100])


TENSORS = {
    "w": torch.arange(6.0).reshape(2, 3).t(),
    "é": torch.ones(3).bfloat16(),
    "e": torch.empty(0),
    "s": torch.tensor(1),
}
KINDS = {
    "json": (lambda path: write_json(path, {"a": [1, -2.5e30, "é@"], "": None}), read_json),
    "tensors": (lambda path: write_tensors(path, TENSORS, metadata={"k": "v"}), read_tensors),
    "journal": (write_journal, lambda path: Journal(path).read()),
    "torn journal": (write_torn_journal, lambda path: Journal(path).read()),
}


def written(kind, path):
    KINDS[kind][0](path)
    return path.read_bytes()


def assert_noticed(kind, path, data):
    path.write_bytes(data)
    with pytest.raises(DamagedFileError) as caught:
        KINDS[kind][1](path)
    assert str(path) in str(caught.value) and caught.value.fix and "\n" not in str(caught.value)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_every_change_of_every_byte_is_noticed(kind, tmp_path):
    path = tmp_path / "file"
    good = written(kind, path)
    for place in range(
        len(good) - 100 if kind == "torn journal" else len(good)
    ):  # a torn tail is dropped, not read
        for change in CHANGES:
            assert_noticed(
                kind, path, good[:place] + bytes([good[place] ^ change]) + good[place + 1 :]
            )
    path.write_bytes(good)
    KINDS[kind][1](path)


@pytest.mark.parametrize("kind", ["json", "tensors"])
def test_a_file_cut_at_any_length_is_noticed(kind, tmp_path):
    path = tmp_path / "file"
    good = written(kind, path)
    for length in range(len(good)):
        assert_noticed(kind, path, good[:length])


@pytest.mark.parametrize("kind", ["json", "tensors"])
def test_bytes_added_removed_or_swapped_are_noticed(kind, tmp_path):
    path = tmp_path / "file"
    good = written(kind, path)
    for more in (b"\0", b" ", b"\n", good):
        assert_noticed(kind, path, good + more)
        assert_noticed(kind, path, more + good)
    for place in range(len(good) - 1):
        assert_noticed(kind, path, good[:place] + good[place + 1 :])
        assert_noticed(kind, path, good[:place] + good[place : place + 1] + good[place:])
        if good[place] != good[place + 1]:
            assert_noticed(
                kind, path, good[:place] + good[place : place + 2][::-1] + good[place + 2 :]
            )


@pytest.mark.parametrize("kind", ["json", "tensors", "journal"])
def test_another_kind_of_file_is_noticed(kind, tmp_path):
    for other in KINDS.keys() - {kind, "torn journal" if kind == "journal" else None}:
        assert_noticed(kind, tmp_path / "file", written(other, tmp_path / other))


def test_a_digest_in_capitals_is_not_what_was_written(tmp_path):
    good = written("json", tmp_path / "file")
    assert_noticed("json", tmp_path / "file", good[:12] + good[12:76].upper() + good[76:])


@pytest.mark.parametrize("kind", ["json", "tensors"])
def test_random_changes_of_large_files_are_noticed(kind, tmp_path):
    chance, path = random.Random(0), tmp_path / "file"  # noqa: S311  not for secrets
    content = {"json": [0.5] * 60_000, "tensors": {"w": torch.zeros(300_000)}}[kind]
    {"json": write_json, "tensors": write_tensors}[kind](path, content)
    good = bytearray(path.read_bytes())
    for _ in range(RANDOM_FLIPS):
        place, bit = chance.randrange(len(good)), 1 << chance.randrange(8)
        good[place] ^= bit
        assert_noticed(kind, path, good)
        good[place] ^= bit


def test_an_append_to_a_journal_damaged_near_its_end_is_refused(tmp_path):
    good = written("journal", tmp_path / "file")
    for place in range(len(good)):
        bad = good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :]
        (tmp_path / "file").write_bytes(bad)
        with pytest.raises(DamagedFileError, match=str(tmp_path)):
            Journal(tmp_path / "file").append({})
        assert (tmp_path / "file").read_bytes() == bad
