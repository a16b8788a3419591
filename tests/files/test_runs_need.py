"""What a run needs of files besides.

A journal cut back, records others read, locks, and folders tidied.
"""

import json
import subprocess
import sys

import pytest

from gatewise.errors import ArgumentError, DamagedFileError, FileError
from gatewise.files import (
    Journal,
    held,
    list_folder,
    read_record,
    remove_file,
    remove_temporaries,
    write_bytes,
    write_record,
)


@pytest.fixture
def journal(tmp_path):
    """Three records, and the length after each."""
    made = Journal(tmp_path / "journal")
    sizes = [made.size]
    for n in range(3):
        made.append({"n": n})
        sizes.append(made.size)
    return made, sizes


@pytest.mark.parametrize("kept", range(4))
def test_a_journal_cut_back_has_the_records_it_had_and_takes_new_ones(journal, kept):
    made, sizes = journal
    made.cut(sizes[kept])
    assert made.read() == [{"n": n} for n in range(kept)] and made.size == sizes[kept]
    made.append({"n": "new"})
    assert made.read() == [*({"n": n} for n in range(kept)), {"n": "new"}]


def test_a_torn_tail_goes_with_a_cut(journal):
    made, sizes = journal
    with made.path.open("ab") as file:
        file.write(b'{"sha256": "torn')
    made.cut(sizes[3])
    assert made.path.stat().st_size == sizes[3]


@pytest.mark.parametrize("size", [-1, 1, 10**6, "3", None])
def test_a_journal_is_cut_only_where_a_record_ends(journal, size):
    made, sizes = journal
    with pytest.raises(DamagedFileError, match="journal"):
        made.cut(size)
    assert made.size == sizes[3]


def test_a_journal_that_is_not_there_is_empty_and_can_be_cut_to_nothing(tmp_path):
    made = Journal(tmp_path / "journal")
    made.cut(0)
    assert made.size == 0 and not list(tmp_path.iterdir())


def test_a_record_has_its_fields_where_others_look_for_them(tmp_path):
    write_record(tmp_path / "a.json", {"status": "done", "n": [1, 2.5, None]})
    plain = json.loads((tmp_path / "a.json").read_text())
    assert plain.pop("sha256") and plain == {"status": "done", "n": [1, 2.5, None]} == read_record(
        tmp_path / "a.json"
    )


def test_every_bit_and_every_cut_of_a_record_is_noticed(tmp_path):
    write_record(tmp_path / "a.json", {"a": 1})
    good = (tmp_path / "a.json").read_bytes()
    spoilt = [good[:n] for n in range(len(good))]
    spoilt += [
        good[:n] + bytes([good[n] ^ (1 << bit)]) + good[n + 1 :]
        for n in range(len(good))
        for bit in range(8)
    ]
    for data in spoilt:
        (tmp_path / "a.json").write_bytes(data)
        with pytest.raises(DamagedFileError):
            read_record(tmp_path / "a.json")


@pytest.mark.parametrize("record", [{}, {"sha256": 1}, [1], None, {"a": float("nan")}, {1: 2}])
def test_what_is_no_record_is_refused(tmp_path, record):
    with pytest.raises(ArgumentError):
        write_record(tmp_path / "a.json", record)
    assert not list(tmp_path.iterdir())


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
    assert remove_temporaries(tmp_path) == [dead] and [
        path.name for path in tmp_path.iterdir()
    ] == ["mine"]


def test_a_file_is_removed_once_and_a_missing_one_is_no_error(tmp_path):
    write_bytes(tmp_path / "a", b"x")
    remove_file(tmp_path / "a")
    remove_file(tmp_path / "a")
    assert not list(tmp_path.iterdir()) and list_folder(tmp_path / "missing") == []
    with pytest.raises(FileError, match="cannot delete"):
        remove_file(tmp_path)
