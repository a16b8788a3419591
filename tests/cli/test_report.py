"""``gatewise report``."""

import pytest
from report.made_study import made_study, write_study


@pytest.fixture
def study(tmp_path):
    return write_study(tmp_path / "study", made_study(3))


def test_a_study_s_folder_becomes_a_page(run, study):
    result = run("report", study)
    assert result.exit_code == 0 and "runs" in result.output
    assert "Which units differ from relu?" in (study / "report.html").read_text()


def test_the_page_may_lie_elsewhere(run, study, tmp_path):
    assert run("report", study, "--out", tmp_path / "page.html").exit_code == 0
    assert "Which units differ from relu?" in (tmp_path / "page.html").read_text()


def test_an_exported_file_becomes_a_page(run, study):
    assert run("report", study / "study.jsonl").exit_code == 0
    assert "Which units differ from relu?" in (study / "study.html").read_text()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"cells": 1, "records": 2}', "[" * 100_000, "null"], ids=range(7)
)
def test_a_file_that_is_no_result_is_refused(run, tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    result = run("report", tmp_path / "x.json")
    assert (
        result.exit_code == 2
        and "error: report:" in result.output
        and not (tmp_path / "x.html").exists()
    )


def test_a_folder_that_holds_no_study_is_refused(run, tmp_path):
    for source in (tmp_path, tmp_path / "missing"):
        result = run("report", source)
        assert result.exit_code == 2 and "error:" in result.output and not list(tmp_path.iterdir())


def test_a_damaged_record_is_refused_and_named(run, study):
    path = study / "study.jsonl"
    path.write_text(path.read_text().replace('"done"', '"gone"', 1))
    result = run("report", study)
    assert result.exit_code != 0 and "line 2" in result.output
    assert not (study / "report.html").exists()


def test_only_a_page_is_written(run, study, tmp_path):
    result = run("report", study, "--out", tmp_path / "page.pdf")
    assert result.exit_code == 2 and ".html" in result.output
