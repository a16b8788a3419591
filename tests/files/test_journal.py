"""S2, S3: what a journal holds, what it refuses, and how torn and damaged are told apart.

Crashes: ``tests/crash``.
"""

import json
import threading
from itertools import pairwise

import pytest

from gatewise.errors import ArgumentError, DamagedFileError, FileError
from gatewise.files import Journal, disk, read_lines, write_line


def journal_of(path, *records):
    for record in records:
        Journal(path).append(record)
    return Journal(path)


def numbers(count, size=0):
    return [{"n": n, "text": "x" * size} for n in range(count)]


def test_records_come_back_in_order_and_the_file_is_json_lines(tmp_path):
    journal = journal_of(tmp_path / "j", {"a": 1}, {}, {"é": [None, "\n\0"]})
    assert journal.read() == [{"a": 1}, {}, {"é": [None, "\n\0"]}]
    lines = [json.loads(line) for line in (tmp_path / "j").read_text().splitlines()]
    assert [list(line) for line in lines] == [["sha256", "line", "record"]] * 3
    assert [line["line"] for line in lines] == [1, 2, 3]


def test_a_journal_never_written_is_empty_and_stays_unmade(tmp_path):
    assert Journal(str(tmp_path / "j")).read() == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [0, 700, 4096, 20_000, 100_000])
def test_an_append_finds_the_last_line_however_long_lines_are(tmp_path, size):
    records = numbers(12, size)
    assert journal_of(tmp_path / "j", *records).read() == records


def test_an_append_does_not_read_a_long_file(tmp_path, monkeypatch):
    journal = journal_of(tmp_path / "j", *numbers(200))
    read, real = [], disk.Disk.read
    monkeypatch.setattr(disk.Disk, "read", lambda *a: read.append(real(*a)) or read[-1])
    journal.append({})
    assert sum(map(len, read)) <= 4096 < (tmp_path / "j").stat().st_size / 4


@pytest.mark.parametrize("record", [{"x": float("nan")}, {1: 2}, {"x": object()}, {"x": "\ud800"}])
def test_a_record_that_would_not_come_back_is_refused_before_anything_is_touched(tmp_path, record):
    with pytest.raises(ArgumentError):
        Journal(tmp_path / "j").append(record)
    assert list(tmp_path.iterdir()) == []


def test_errors_of_the_disk_are_ours(tmp_path):
    with pytest.raises(FileError, match=r"cannot append to .*missing"):
        Journal(tmp_path / "missing" / "j").append({})
    assert list(tmp_path.iterdir()) == []  # nor was the folder made
    (tmp_path / "j").mkdir()
    with pytest.raises(FileError, match="cannot append to"):
        Journal(tmp_path / "j").append({})
    with pytest.raises(FileError, match="cannot read"):
        Journal(tmp_path / "j").read()


def test_a_lock_that_stays_held_is_an_error_that_names_it(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "LOCK_TIMEOUT", 0.05)
    with (
        disk.current.lock(tmp_path / "j.lock"),
        pytest.raises(FileError, match=r"cannot append to .*j\.lock"),
    ):
        Journal(tmp_path / "j").append({})
    Journal(tmp_path / "j").append({})


def test_threads_may_share_one_journal(tmp_path):
    journal = Journal(tmp_path / "j")

    def work(who):
        for n in range(20):
            journal.append({"who": who, "n": n})

    threads = [threading.Thread(target=work, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    records = journal.read()
    assert len(records) == 80
    assert all([r["n"] for r in records if r["who"] == who] == list(range(20)) for who in range(4))


def test_lines_lost_doubled_or_moved_are_noticed(tmp_path):
    journal = journal_of(tmp_path / "j", *numbers(4))
    one, two, three, four = (tmp_path / "j").read_bytes().splitlines(keepends=True)
    for lines in (
        [two, three],
        [one, three, four],
        [one, two, two, three],
        [two, one, three, four],
        [one, one],
    ):
        (tmp_path / "j").write_bytes(b"".join(lines))
        with pytest.raises(DamagedFileError, match=r"j is damaged.*line \d"):
            journal.read()
        with pytest.raises(DamagedFileError, match=r"j is damaged.*line \d"):
            journal.append({})
        assert (tmp_path / "j").read_bytes() == b"".join(
            lines
        )  # damage is left for someone to look at


def test_the_damaged_line_is_named_from_the_beginning_of_a_long_file(tmp_path):
    journal = journal_of(tmp_path / "j", *numbers(200))
    lines = (tmp_path / "j").read_bytes().splitlines(keepends=True)
    lines[198] = lines[198].replace(b'"n"', b'"m"')
    (tmp_path / "j").write_bytes(b"".join(lines))
    for use in (journal.read, lambda: journal.append({})):
        with pytest.raises(DamagedFileError, match="line 199"):
            use()


def test_an_append_goes_on_where_only_its_look_at_the_tail_failed(tmp_path, monkeypatch):
    journal = journal_of(tmp_path / "j", *numbers(3))
    monkeypatch.setattr("gatewise.files.journal._tail", lambda handle: (b"not a line\n", 0, 1))
    journal.append({"n": "after"})
    assert journal.read() == [*numbers(3), {"n": "after"}]


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


LINE = write_line(1, {"text": "x" * 1500})


@pytest.mark.parametrize("start", [0, 1, 100, 511, 512, 700])
def test_a_line_with_a_sector_that_never_arrived_is_torn_and_one_byte_less_is_damage(start):
    """``start`` is where the line begins in the file; sectors are those of the file."""
    edges = [0, *range(512 - start % 512, len(LINE), 512)]
    for first, last in pairwise(edges):
        hole = LINE[:first] + bytes(last - first) + LINE[last:]
        found = read_lines(hole, start)
        assert found.records == [] and found.end == start
        if last - first > 1:
            for smaller in (
                LINE[:first] + bytes(last - first - 1) + LINE[last - 1 :],
                LINE[: first + 1] + hole[first + 1 :],
            ):
                with pytest.raises(ValueError, match=r"line 1: (it|the sha256)"):
                    read_lines(smaller, start)


@pytest.mark.parametrize("size", [1000, 1800, 2500, 3000, 3500])
def test_an_append_after_a_line_with_a_hole_finds_the_line_before_it(tmp_path, size):
    records = numbers(5, size)
    journal = journal_of(tmp_path / "j", *records)
    whole = (tmp_path / "j").read_bytes()
    sector = (len(whole) // 512 - 1) * 512  # the last whole one
    (tmp_path / "j").write_bytes(whole[:sector] + bytes(512) + whole[sector + 512 :])
    journal.append({"n": "after"})
    assert journal.read() == [*records[:4], {"n": "after"}]


def test_a_hole_in_a_line_that_is_not_the_last_is_damage():
    hole = LINE[:512] + bytes(512) + LINE[1024:]
    for after in (write_line(2, {}), b"torn", b"\n"):
        with pytest.raises(ValueError, match="line 1"):
            read_lines(hole + after)


def test_a_changed_newline_is_damage_even_with_a_torn_tail_after_it():
    inner = write_line(1, {"files": [{"sha256": "}}"}, {"a": {"b": {"sha256": "x"}}}]})
    for line in (inner, write_line(1, {})):
        for torn in (b"", write_line(2, {})[:-1], write_line(2, {})[:90], write_line(2, {})[:12]):
            for byte in (b"\x0b", b"X", b"\0", b"\xff"):
                with pytest.raises(ValueError, match="line 1: its newline"):
                    read_lines(line[:-1] + byte + torn)
        assert read_lines(line + torn).records


@pytest.mark.parametrize(
    "foreign", [b"{", b"some notes", b"PK\3\4" + bytes(2000), bytes(9) + b"{" + bytes(2000)]
)
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_another_kind_of_file_is_damage_and_is_not_cut(tmp_path, foreign, end):
    (tmp_path / "j").write_bytes(foreign + end)
    if (foreign, end) != (b"{", b""):  # which is how a line begins
        with pytest.raises(DamagedFileError, match="line 1: it does not start"):
            Journal(tmp_path / "j").append({})
        assert (tmp_path / "j").read_bytes() == foreign + end


def test_a_torn_tail_that_holds_digests_of_its_own_is_still_torn():
    line = write_line(
        1, {"files": [{"sha256": "}}"}, {"a": {"b": {"sha256": "x"}}}, {"sha256": "y"}]}
    )
    for length in range(len(line)):
        assert read_lines(line[:length]).records == []


def test_damage_is_believed_only_if_a_second_look_finds_it_again(tmp_path, monkeypatch):
    """A reader without lock may see half of what a writer is changing."""
    journal = journal_of(tmp_path / "j", *numbers(2))
    good = (tmp_path / "j").read_bytes()
    looks = [good.replace(b'"n"', b'"m"'), good.replace(b'"n": 1', b'"m": 1'), good]
    monkeypatch.setattr(Journal, "_content", lambda self: looks.pop(0))
    assert journal.read() == numbers(2) and looks == []


@pytest.mark.parametrize("wrong", [[1], "abc", None, 5])
def test_a_record_that_is_no_mapping_is_refused(tmp_path, wrong):
    with pytest.raises(ArgumentError, match="mapping"):
        Journal(tmp_path / "j").append(wrong)
    assert list(tmp_path.iterdir()) == []
