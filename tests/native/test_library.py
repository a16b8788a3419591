"""Compiled C: built once, loaded from the user's own folder only, and never needed."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from gatewise.native import COMPILERS, HERE, compiled_library, library

HAS_COMPILER = library("gram").handle is not None or os.environ.get("GATEWISE_NATIVE") == "0"
needs_compiler = pytest.mark.skipif(not HAS_COMPILER, reason="no C compiler")


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A loader that has loaded nothing, with a folder of its own."""
    monkeypatch.setenv("GATEWISE_CACHE", str(tmp_path))
    monkeypatch.delenv("GATEWISE_NATIVE", raising=False)
    library.cache_clear()
    compiled_library.cache_clear()
    yield tmp_path / "gatewise" / "native"
    library.cache_clear()
    compiled_library.cache_clear()


@needs_compiler
def test_a_source_is_compiled_once_and_then_found(fresh: Path):
    assert library("gram").handle is not None
    made = list(fresh.iterdir())
    assert len(made) == 1 and made[0].suffix == ".so"
    written = made[0].stat().st_mtime_ns
    library.cache_clear()
    assert library("gram").handle is not None
    assert made[0].stat().st_mtime_ns == written


@needs_compiler
def test_a_file_or_folder_that_others_can_write_to_is_not_loaded(fresh: Path):
    library("gram")
    made = next(fresh.iterdir())
    before = made.stat().st_ino
    made.chmod(0o777)
    library.cache_clear()
    assert library("gram").reason.startswith("compiled by")  # again
    assert made.stat().st_ino != before
    fresh.chmod(0o777)
    library.cache_clear()
    assert "can be written to by others" in library("gram").reason


@needs_compiler
@pytest.mark.parametrize("mask", [0o002, 0o000])
def test_what_is_written_is_loaded_again_whatever_the_umask(fresh: Path, mask: int):
    before = os.umask(mask)
    try:
        assert library("gram").reason.startswith("compiled by")
        library.cache_clear()
        assert library("gram").reason == "compiled before"
    finally:
        os.umask(before)
    (made,) = fresh.iterdir()
    assert made.stat().st_mode & 0o777 == 0o700 and fresh.stat().st_mode & 0o777 == 0o700


def test_without_a_compiler_the_reason_is_said(fresh: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(fresh))
    found = library("gram")
    assert found.handle is None and all(name in found.reason for name in COMPILERS)


def test_without_a_compiler_the_first_slow_call_warns_and_no_other(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(fresh))
    monkeypatch.setattr("gatewise.native.loader._said", [])
    with pytest.warns(RuntimeWarning, match="slower Python code: no C compiler"):
        assert compiled_library("gram") is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compiled_library("gram") is None and compiled_library("gram") is None
        monkeypatch.setattr("gatewise.native.loader._said", [])
        monkeypatch.setenv("GATEWISE_NATIVE", "0")
        library.cache_clear()
        compiled_library.cache_clear()
        assert compiled_library("gram") is None


@needs_compiler
def test_a_compiled_library_is_used_when_the_compiler_is_gone(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
):
    assert library("gram").handle is not None
    library.cache_clear()
    monkeypatch.setenv("PATH", str(fresh))
    assert library("gram").handle is not None and library("gram").reason == "compiled before"


THOROUGH = [pytest.param(share, marks=pytest.mark.slow) for share in (0.0, 0.9)]


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("share", [0.3, *THOROUGH])
def test_a_library_that_was_cut_short_is_compiled_again(fresh: Path, share: float):
    # In processes of their own: a library that is loaded twice is the same mapping.
    code = "from gatewise.native import library; assert library('gram').handle; print('loaded')"
    environment = {**os.environ, "GATEWISE_CACHE": str(fresh.parent.parent)}
    command = [sys.executable, "-c", code]
    subprocess.run(command, check=True, env=environment, capture_output=True)
    made = next(fresh.glob("*.so"))
    data = made.read_bytes()
    made.write_bytes(data[: int(share * len(data))])
    done = subprocess.run(command, check=True, env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == "loaded"
    (again,) = fresh.glob("*.so")
    assert again.read_bytes() == data


@needs_compiler
def test_a_library_with_one_changed_byte_is_not_used_without_a_compiler(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
):
    library("gram")
    made = next(fresh.glob("*.so"))
    data = bytearray(made.read_bytes())
    data[len(data) // 2] ^= 1
    made.unlink()  # the loaded mapping must not change
    made.write_bytes(data)
    made.chmod(0o755)
    library.cache_clear()
    monkeypatch.setenv("PATH", str(fresh))
    assert library("gram").handle is None


def test_a_compiler_that_fails_is_said_and_leaves_nothing(
    fresh: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "cc").write_text("#!/bin/sh\necho 'cc: no target' >&2\nexit 1\n")
    (tools / "cc").chmod(0o755)
    monkeypatch.setenv("PATH", str(tools))
    assert library("gram").reason.endswith("did not compile it: cc: no target")
    assert list(fresh.iterdir()) == []


@pytest.mark.slow
def test_it_can_be_switched_off_and_the_doctor_says_so():
    code = (
        "import torch, gatewise as gw; corners = torch.tensor([[0., 0], [1, 0], [0, 1]]);"
        "p = gw.analysis.partition(torch.nn.ReLU(), corners);"
        "assert (p.form, p.count) == ('numpy', 4), p"
    )
    environment = {**os.environ, "GATEWISE_NATIVE": "0"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    command = [sys.executable, "-m", "gatewise", "doctor", "--json"]
    told = subprocess.run(
        command, capture_output=True, text=True, env=environment, check=False
    ).stdout
    off = "(switched off by GATEWISE_NATIVE=0)"
    said = json.loads(told)["machine"]["compiled_code"].split("; ")
    sources = {path.stem for path in HERE.glob("*.c")}
    assert {line.partition(":")[0] for line in said} == sources and all(
        line.endswith(off) for line in said
    )


def test_sources_know_neither_python_nor_torch():
    for source in HERE.glob("*.c"):
        text = source.read_text()
        assert "Python.h" not in text and "torch" not in text and '#include "' not in text
