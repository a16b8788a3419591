"""The export of a study: what is written is read again, and nothing else is."""

import json
import random

import pytest
from engine.small_work import cells, count

from gatewise.errors import FileError, GatewiseError
from gatewise.studies.engine import StudyFile, export_study, import_study, run, sorted_records

HEADER = {"name": "small", "seeds": 3}


def study(folder):
    records = run(folder, lambda _: cells(3), count, header=HEADER)
    path = folder / "study.jsonl"
    export_study(path, HEADER, records)
    return path, records


def test_an_export_is_read_again_and_resumes_a_study(tmp_path):
    path, records = study(tmp_path)
    header, found = import_study(path)
    assert header == {"format": "gatewise study", **HEADER} and found == records
    elsewhere = StudyFile(tmp_path / "other")
    elsewhere.path.parent.mkdir()
    elsewhere.prepare()
    elsewhere.take(found)
    again = run(tmp_path / "other", lambda _: cells(3), lambda _: 1 / 0, header=HEADER)
    assert again == records


def test_the_order_of_lines_does_not_depend_on_that_of_the_runs(tmp_path):
    path, records = study(tmp_path)
    other = tmp_path / "other.jsonl"
    export_study(other, HEADER, dict(reversed(records.items())))
    assert other.read_bytes() == path.read_bytes()
    assert [record["seed"] for record in sorted_records(records)] == [0, 1, 2]


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: [],
        lambda lines: lines[1:],
        lambda lines: [lines[0], lines[1], lines[1]],
        lambda lines: [lines[0], lines[1][:-9]],
        lambda lines: [lines[0], "[]"],
        lambda lines: [lines[0], lines[1].replace('"done"', '"perhaps"')],
        lambda lines: [lines[0], '{"key": "a", "status": "done", "value": NaN}'],
        lambda lines: [lines[0], '{"key": "a", "status": "done", "value": 1e999}'],
        lambda lines: [lines[0], "[" * 100_000],
        lambda lines: [lines[0], '{"key": 5, "status": "done"}'],
    ],
)
def test_lines_that_are_no_records_are_refused(tmp_path, change):
    path, _ = study(tmp_path)
    path.write_text("\n".join(change(path.read_text().splitlines())))
    with pytest.raises(FileError, match=r"line|study"):
        import_study(path)


def test_strange_files_are_read_or_refused(tmp_path):
    path, _ = study(tmp_path)
    data = path.read_bytes()
    choose = random.Random(3)  # noqa: S311
    for _ in range(200):
        changed = bytearray(data)
        for _ in range(choose.randint(1, 3)):
            at = choose.randrange(len(changed))
            changed[at : at + choose.randint(0, 4)] = choose.randbytes(choose.randint(0, 4))
        path.write_bytes(changed)
        try:
            header, records = import_study(path)
        except GatewiseError:
            continue
        json.dumps([header, records], allow_nan=False)
