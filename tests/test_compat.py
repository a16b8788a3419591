"""The table of ``make compat``: what was tried, what failed, and what was not tried."""

import datetime
import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def compat():
    spec = importlib.util.spec_from_file_location("compat", ROOT / "tools/compat.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["compat"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("said", "text", "failed"),
    [
        ("..s\n3 passed, 1 skipped in 2.0s\n", "3 tests passed, 0 failed", False),
        ("F\n2 failed, 1294 passed, 7 errors in 9s", "1,294 tests passed, 9 failed", True),
        ("1 error in 0.3s", "0 tests passed, 1 failed", True),
        ("", "0 tests passed, 0 failed", True),
    ],
)
def test_counts_are_those_of_the_last_line_of_pytest(compat, said, text, failed):
    assert compat.summary(said) == (text, failed)


def test_files_and_constraints_exist(compat):
    for name in (*compat.QUICK, *compat.HUGGING_FACE):
        assert (ROOT / "tests" / name).is_file(), name
    for row in compat.ROWS:
        assert not row.constraints or "transformers" in compat.names_in(ROOT / row.constraints)


def test_pythons_that_were_not_tried_are_named(compat):
    first, second, third = compat.ROWS
    results = [
        compat.Result(first, "Python 3.11.7, torch 2.6.0", "9 tests passed, 0 failed"),
        compat.Result(second, "3.13", "not tried: pip could not install it"),
        compat.Result(third, "Python 3.11.7, transformers 4.57.6", "6 tests passed, 0 failed"),
    ]
    lines = compat.table(results, datetime.date(2026, 11, 17)).splitlines()
    assert lines[2].endswith("| 9 tests passed, 0 failed | 2026-11-17 |")
    assert lines[3].endswith("| not tried: pip could not install it |  |")
    left = [line.split("|")[2].strip() for line in lines if line.startswith("| Python")]
    assert left == ["3.10", "3.12", "3.13", "3.14"]


def test_a_launcher_without_its_python_is_named_as_not_tried(compat, tmp_path, monkeypatch):
    launcher = tmp_path / "python3.13"
    launcher.write_text("#!/bin/sh\nexit 127\n")
    launcher.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    result = compat.tried(compat.Row("newest-torch", "3.13", ("torch",)), tmp_path / "new")
    assert result.text == f"not tried: {launcher} makes no environment" and not result.failed


def test_an_unknown_row_is_refused(compat, capsys):
    assert compat.main(["nonsense"]) == 2
    assert "oldest-torch" in capsys.readouterr().err
