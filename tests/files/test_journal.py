"""What a journal holds, what it refuses, and what a killed writer leaves."""

import json

import pytest

from gatewise.errors import ArgumentError, DamagedFileError, FileError
from gatewise.files import Journal


def journal_of(path, *records):
    for record in records:
        Journal(path).append(record)
    return Journal(path)


def numbers(count, size=0):
    return [{"n": n, "text": "x" * size} for n in range(count)]


def test_records_come_back_in_order_and_the_file_is_json_lines(tmp_path):
    records = [{"a": 1}, {}, {"é": [None, "\n\0\u2028"]}]
    journal = journal_of(tmp_path / "j", *records)
    assert journal.read() == records
    assert list(map(json.loads, (tmp_path / "j").read_bytes().strip().split(b"\n"))) == records


def test_a_journal_never_written_is_empty_and_stays_unmade(tmp_path):
    journal = Journal(str(tmp_path / "j"))
    journal.cut(0)
    journal.extend([])
    assert journal.read() == [] and journal.size == 0 and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "record", [{"x": float("nan")}, {1: 2}, {"x": object()}, {"x": "\ud800"}, [1], "abc", None, 5]
)
def test_a_record_that_would_not_come_back_is_refused_before_anything_is_touched(tmp_path, record):
    with pytest.raises(ArgumentError):
        Journal(tmp_path / "j").extend([{}, record])
    assert list(tmp_path.iterdir()) == []


def test_errors_of_the_disk_are_ours(tmp_path, monkeypatch):
    with pytest.raises(FileError, match=r"cannot append to .*missing"):
        Journal(tmp_path / "missing" / "j").append({})
    assert list(tmp_path.iterdir()) == []  # nor was the folder made
    (tmp_path / "j").mkdir()
    with pytest.raises(FileError):
        Journal(tmp_path / "j").append({})
    with pytest.raises(FileError, match="cannot read"):
        Journal(tmp_path / "j").read()


def test_an_append_that_fails_leaves_the_records_before_it(tmp_path, monkeypatch):
    journal = journal_of(tmp_path / "j", *numbers(2))
    before = (tmp_path / "j").read_bytes()

    def full(number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(FileError, match="No space left"):
        journal.append({"n": "lost"})
    assert (tmp_path / "j").read_bytes() == before


def test_a_cut_file_gives_the_records_before_the_cut_and_an_append_goes_on_there(tmp_path):
    records = numbers(3)
    journal = journal_of(tmp_path / "j", *records)
    whole = (tmp_path / "j").read_bytes()
    ends = [place + 1 for place, byte in enumerate(whole) if byte == ord("\n")]
    for length in range(len(whole)):
        (tmp_path / "j").write_bytes(whole[:length])
        complete = sum(end <= length for end in ends)
        assert journal.read() == records[:complete]
        journal.append({"n": "after"})
        assert journal.read() == [*records[:complete], {"n": "after"}]


@pytest.mark.parametrize("line", [b"{", b"some notes", b"[1]", b"PK\3\4\0", b"", b'{"a": NaN}'])
def test_a_line_that_is_no_record_is_damage_that_is_named(tmp_path, line):
    journal = journal_of(tmp_path / "j", {})
    with (tmp_path / "j").open("ab") as file:
        file.write(line + b"\n")
    journal.append({})
    with pytest.raises(DamagedFileError, match=r"j is damaged.*line 2"):
        journal.read()


@pytest.mark.parametrize("kept", range(4))
def test_a_journal_cut_back_has_the_records_it_had_and_takes_new_ones(tmp_path, kept):
    journal, sizes = Journal(tmp_path / "j"), [0]
    for record in numbers(3):
        journal.append(record)
        sizes.append(journal.size)
    with (tmp_path / "j").open("ab") as file:
        file.write(b'{"unfinished')
    journal.cut(sizes[kept])
    assert journal.read() == numbers(kept) and journal.size == sizes[kept]
    journal.append({"n": "new"})
    assert journal.read() == [*numbers(kept), {"n": "new"}]


@pytest.mark.parametrize("size", [-1, 1, 10**6, "3", None, True])
def test_a_journal_is_cut_only_where_a_record_ends(tmp_path, size):
    journal = journal_of(tmp_path / "j", *numbers(3))
    before = journal.size
    with pytest.raises(DamagedFileError, match="j is damaged"):
        journal.cut(size)
    assert journal.size == before


def test_lines_of_earlier_versions_are_read(tmp_path):
    (tmp_path / "j").write_text('{"sha256": "0", "line": 1, "record": {"a": 1}}\n')
    journal = Journal(tmp_path / "j")
    journal.append({"a": 2})
    assert journal.read() == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize("notes", [b"my notes", b"first\nsecond"])
def test_a_file_of_another_kind_is_not_cut_by_an_append(tmp_path, notes):
    (tmp_path / "notes").write_bytes(notes)
    with pytest.raises(DamagedFileError, match="not the beginning of a record"):
        Journal(tmp_path / "notes").append({})
    assert (tmp_path / "notes").read_bytes() == notes
