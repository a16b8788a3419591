"""``gatewise report``."""

import json

import pytest
from report.made_study import made_study, write_study


@pytest.fixture
def study(tmp_path):
    return write_study(tmp_path / "study", made_study(3))


def test_a_study_s_folder_becomes_a_page(run, study):
    result = run("report", study)
    assert result.exit_code == 0 and "45 of 48 runs" not in result.output
    assert "who differs from ReLU" in (study / "report.html").read_text()


def test_the_page_may_lie_elsewhere(run, study, tmp_path):
    assert run("report", study, "--out", tmp_path / "page.html").exit_code == 0
    assert 'href="study/cells/' in (tmp_path / "page.html").read_text()


def test_a_result_as_json_becomes_a_page(run, tmp_path):
    (tmp_path / "result.json").write_text(json.dumps(made_study(2)))
    assert run("report", tmp_path / "result.json").exit_code == 0
    page = (tmp_path / "result.html").read_text()
    assert "who differs from ReLU" in page and "/cells/" not in page


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


def test_a_damaged_record_is_set_aside_and_named(run, study):
    path = next(study.glob("cells/*/cell.json"))
    path.write_text(path.read_text().replace("finished", "diverged"))
    result = run("report", study)
    assert result.exit_code == 0 and "1 damaged record was set aside" in result.output
    page = (study / "report.html").read_text()
    assert "Damaged records, which were set aside" in page and path.parent.name in page
    assert "1 run with a damaged record" in page


def test_only_a_page_is_written(run, study, tmp_path):
    result = run("report", study, "--out", tmp_path / "page.pdf")
    assert result.exit_code == 2 and ".html" in result.output
