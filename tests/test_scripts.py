"""Programs in ``benchmarks`` and ``tools`` use names that exist, so that each of them starts."""

import ast
import importlib
from pathlib import Path

import pytest

import gatewise as gw

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted([*ROOT.glob("benchmarks/*.py"), *ROOT.glob("tools/*.py")])


def missing_names(text: str) -> list[str]:
    """Names of gatewise that a program imports, or reads as ``gw.name``, and that do not exist."""
    missing = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "gatewise":
            for alias in node.names:
                if not _exists(str(node.module), alias.name):
                    missing.append(f"{node.module}.{alias.name}")
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "gw" and not hasattr(gw, node.attr):
                missing.append(f"gw.{node.attr}")
    return missing


def _exists(module: str, name: str) -> bool:
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError:
        return False
    if hasattr(found, name):
        return True
    try:
        importlib.import_module(f"{module}.{name}")
    except ModuleNotFoundError:
        return False
    return True


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_scripts_use_names_that_exist(script):
    assert missing_names(script.read_text()) == []


def test_names_that_do_not_exist_are_found():
    planted = "from gatewise.analysis import pairing, GivenBack\nimport gatewise as gw\ngw.swapp(1)"
    assert missing_names(planted) == ["gatewise.analysis.GivenBack", "gw.swapp"]
