"""``gatewise doctor``: finds what is there, names what is missing and the command that adds it."""

import json
import subprocess
import sys
from importlib import metadata
from types import SimpleNamespace

import pytest

from gatewise import native
from gatewise.cli.commands import doctor
from gatewise.native import HERE, Library

IMPORTED = doctor._with_import_errors


@pytest.fixture(autouse=True)
def without_imports(monkeypatch):
    """Importing every package takes seconds; two tests below do it."""
    monkeypatch.setattr(doctor, "_with_import_errors", list)


def test_it_reports_versions_threads_and_extras(run, monkeypatch):
    monkeypatch.delenv("GATEWISE_DATA", raising=False)
    found = json.loads(run("doctor", "--json").stdout)
    assert found["ok"] and found["versions"]["torch"] == metadata.version("torch")
    assert found["machine"]["threads"] >= 1 and found["machine"]["cpu_capability"]
    assert {"timm", "onnx", "ray"} <= found["extras"].keys()
    text = run("doctor").stdout
    assert "GATEWISE_DATA" in text and "not set" in text
    assert "All required packages are installed." in text


def test_it_reports_every_compiled_source():
    assert doctor.FALLBACKS.keys() == {source.stem for source in HERE.glob("*.c")}
    found = doctor.examine().machine["compiled_code"]
    assert [part.split(":")[0] for part in found.split("; ")] == list(doctor.FALLBACKS)


@pytest.mark.parametrize(
    "quick, said", [(1, "compiled by cc"), (0, "compiled by cc, but torch is used")]
)
def test_a_compiled_source_that_this_processor_does_not_use_is_said(monkeypatch, quick, said):
    handle = SimpleNamespace(gw_gram_is_quick=lambda: quick)
    monkeypatch.setattr(native, "library", lambda name: Library(name, handle, "compiled by cc"))
    split, gram, *_ = doctor.examine().machine["compiled_code"].split("; ")
    assert (
        split == "split: compiled by cc"
        and gram.startswith(f"gram: {said}")
        and (quick == 0) == ("AVX-512" in gram)
    )


def test_a_missing_extra_is_named_with_its_command_and_is_no_failure(run, monkeypatch):
    monkeypatch.setattr(
        metadata, "requires", lambda _: ["torch>=2.6", 'no-such-thing>=3; extra == "timm"']
    )
    result = run("doctor")
    assert result.exit_code == 0
    assert "no-such-thing" in result.stdout and "pip install 'no-such-thing>=3'" in result.stdout
    found = json.loads(run("doctor", "--json").stdout)["extras"]["timm"]
    assert found["missing"] == ["no-such-thing"] and (
        found["add"] == "pip install 'no-such-thing>=3'"
    )


def test_an_extra_that_cannot_be_imported_is_not_called_installed(run, monkeypatch, tmp_path):
    """The real torchvision beside a CPU build of torch, without the stand-in of the tests."""
    monkeypatch.setattr(metadata, "requires", lambda _: ['timm>=1; extra == "timm"'])
    monkeypatch.setattr(doctor, "_with_import_errors", IMPORTED)
    found = json.loads(run("doctor", "--json").stdout)["extras"]["timm"]
    code = "import timm"
    imported = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert found["present"] is (imported.returncode == 0)
    if not found["present"]:
        assert "torchvision does not match torch" in found["packages"][0]["import_error"]


def test_a_part_that_a_package_imports_late_is_imported_too(monkeypatch, tmp_path):
    """As transformers does: its import works, and that of its models fails."""
    (tmp_path / "lazy.py").write_text(
        "def __getattr__(name):\n"
        "    if name != 'Model':\n        raise AttributeError(name)\n"
        "    try:\n        raise RuntimeError('operator torchvision::nms does not exist')\n"
        "    except RuntimeError as problem:\n"
        "        raise ModuleNotFoundError('Could not import module') from problem\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(metadata, "packages_distributions", lambda: {"lazy": ["lazy"]})
    [plain] = IMPORTED([doctor.Package("lazy", "", "1")])
    assert plain.ok
    monkeypatch.setitem(doctor.IMPORTED_LATER, "lazy", "Model")
    [found] = IMPORTED([doctor.Package("lazy", "", "1")])
    assert not found.ok and found.import_error == (
        "RuntimeError: operator torchvision::nms does not exist (in Model); "
        "the installed torchvision does not match torch"
    )


def test_doctor_imports_a_model_of_transformers(monkeypatch):
    pytest.importorskip("transformers")
    part = doctor.IMPORTED_LATER["transformers"]
    code = f"from transformers import {part}"
    imported = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    [found] = IMPORTED([doctor.Package("transformers", "", "99")])
    assert found.ok is (imported.returncode == 0)


def test_a_package_that_ends_the_process_is_named(monkeypatch, tmp_path):
    (tmp_path / "ending.py").write_text("import os; os._exit(3)")
    (tmp_path / "working.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = {"working": ["working"], "ending": ["ending"]}
    monkeypatch.setattr(metadata, "packages_distributions", lambda: found)
    packages = [doctor.Package(name, "", "1") for name in ("working", "ending", "absent")]
    working, ending, absent = IMPORTED(packages)
    assert working.ok and absent.import_error is None
    assert ending.import_error == "importing it ended the process" and not ending.ok


@pytest.mark.parametrize(
    "requirement, said",
    [("no-such-thing>=3", "no-such-thing is not installed"), ("torch>=99.1", "torch is too old")],
)
def test_a_missing_or_old_requirement_is_exit_1_with_its_command(
    run, monkeypatch, requirement, said
):
    monkeypatch.setattr(metadata, "requires", lambda _: [requirement])
    result = run("doctor")
    assert result.exit_code == 1
    assert said in result.stderr and f"fix: pip install '{requirement}'" in result.stderr
    assert json.loads(run("doctor", "--json").stdout)["ok"] is False


def test_a_data_folder_that_is_none_is_exit_1(run, monkeypatch, tmp_path):
    monkeypatch.setenv("GATEWISE_DATA", str(tmp_path))
    assert run("doctor").exit_code == 0
    monkeypatch.setenv("GATEWISE_DATA", str(tmp_path / "gone"))
    result = run("doctor")
    assert result.exit_code == 1 and "GATEWISE_DATA is not a folder" in result.stderr


def test_a_source_tree_that_is_not_installed_says_so(run, monkeypatch):
    def absent(_):
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "requires", absent)
    assert "pip install -e ." in run("doctor").stdout


@pytest.mark.parametrize(
    "line, name, wanted, extra",
    [
        ("torch>=2.6", "torch", ">=2.6", None),
        ("numpy", "numpy", "", None),
        ('pyright[nodejs]; extra == "dev"', "pyright", "", "dev"),
        ("mkdocs-material (>=9) ; extra == 'docs'", "mkdocs-material", ">=9", "docs"),
    ],
)
def test_requirements_are_read(line, name, wanted, extra):
    package, found = doctor._parse(line)
    assert (package.name, package.wanted, found) == (name, wanted, extra)


@pytest.mark.parametrize(
    "found, wanted, enough",
    [
        ("2.13.0+cpu", ">=2.6", True),
        ("2.5.1", ">=2.6", False),
        ("1", "", True),
        ("10.0", ">=9.5", True),
    ],
)
def test_versions_are_compared_as_numbers(found, wanted, enough):
    assert doctor._is_new_enough(found, wanted) is enough
