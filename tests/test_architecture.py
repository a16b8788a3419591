"""Imports point one way.

A part may import parts of lower rows; parts of one row do not know each other.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pytest brings it there

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "gatewise"

ROWS = (
    {"errors"},
    {"files", "native", "units"},
    {"fused"},
    {"layers", "sites"},
    {"models", "surgery", "analysis", "data"},
    {"train"},
    {"studies"},
    {"papers", "report", "testing"},
    {
        "__init__",
        "nn",
        "functional",
    },  # faces: gather names from below, so that users find them in one place
    {"cli"},
    {"__main__"},
)
FACES = ROWS[-3]
ROW = {part: row for row, parts in enumerate(ROWS) for part in parts}
OTHER_NAMES = {
    "PIL": "pillow",
    "sklearn": "scikit-learn",
    "mlflow": "mlflow-skinny",
}  # module: distribution


def imported_modules(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything a file imports, at any depth.

    Relative imports start with a dot.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            home = "." * node.level + (node.module or "")
            yield from ((node.lineno, f"{home}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
            ("import_module", "__import__")
        ):
            if node.args and isinstance(node.args[0], ast.Constant):
                yield node.lineno, str(node.args[0].value)


def part_of(dotted: str) -> str:
    """The part a dotted name of ours is in.

    ``gatewise.units.catalogue.crelu`` in ``units``, ``gatewise.create`` in the face.
    """
    name = dotted.split(".")[1] if "." in dotted else "__init__"
    return (
        name
        if name in ROW or (SOURCE / name).is_dir() or (SOURCE / f"{name}.py").exists()
        else "__init__"
    )


def wrong_imports(part: str, text: str) -> list[str]:
    """Each import in ``text``, a file of ``part``, that points up, sideways, or is relative."""
    wrong = []
    for line, name in imported_modules(ast.parse(text)):
        if name.startswith("."):
            wrong.append(f"line {line}: {name!r} is relative; write the full name")
        elif name.split(".")[0] == "gatewise" and not may_import(part, part_of(name)):
            wrong.append(f"line {line}: {part} may not import {part_of(name)} ({name})")
    return wrong


def may_import(part: str, other: str) -> bool:
    return part == other or ROW[other] < ROW[part] or {part, other} <= FACES


def files_of_parts() -> Iterator[tuple[str, Path]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE).parts[0].removesuffix(".py"), path


def test_every_part_has_its_place_in_the_order():
    homeless = {part for part, _ in files_of_parts()} - ROW.keys()
    assert not homeless, f"give {homeless} a row in ROWS"


def test_imports_point_one_way():
    found = [
        f"{path} {wrong}"
        for part, path in files_of_parts()
        for wrong in wrong_imports(part, path.read_text())
    ]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("part", "planted"),
    [
        ("units", "from gatewise.layers.maso.maso_layer import MASO"),
        ("units", "import gatewise.cli"),
        ("units", "from gatewise import create"),
        ("units", "def late():\n    from gatewise.fused import table"),
        ("units", "import importlib\nimportlib.import_module('gatewise.testing')"),
        ("errors", "from gatewise.units import units"),
        ("files", "from gatewise import units"),
        ("report", "from gatewise.testing import check_unit"),
        ("surgery", "from gatewise.analysis import gates"),
        ("testing", "import gatewise as gw"),
        ("nn", "from gatewise.cli import main"),
        ("units", "from . import _spec"),
        ("units", "from .._spec import unit"),
    ],
)
def test_a_planted_wrong_import_is_caught(part: str, planted: str):
    assert len(wrong_imports(part, planted)) == 1


@pytest.mark.parametrize(
    ("part", "planted"),
    [
        (
            "units",
            "from gatewise.units.contract.spec import unit\nfrom gatewise.errors import ArgumentError\nimport torch",
        ),
        ("testing", "from gatewise.units import units\nfrom gatewise.studies import Study"),
        ("cli", "import gatewise as gw\nfrom gatewise.report import gallery"),
        ("__init__", "from gatewise import functional, nn, testing"),
        ("nn", "from gatewise.layers import MASO"),
    ],
)
def test_a_right_import_is_let_pass(part: str, planted: str):
    assert wrong_imports(part, planted) == []


def declared(*groups: str) -> set[str]:
    """Distributions that pyproject.toml names in the core, or in the extras ``groups``."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = project["dependencies"] + [
        each for group in groups or extras for each in extras[group]
    ]
    return {re.match(r"[\w.-]+", each)[0].lower().replace("-", "_") for each in wanted} - {
        "gatewise"
    }


def undeclared(text: str, allowed: set[str]) -> list[str]:
    tops = {
        name.split(".")[0]
        for _, name in imported_modules(ast.parse(text))
        if not name.startswith(".")
    }
    third_party = tops - sys.stdlib_module_names - {"gatewise", "tomli"}
    return sorted(
        name
        for name in third_party
        if OTHER_NAMES.get(name, name).replace("-", "_").lower() not in allowed
    )


def test_sources_import_only_what_the_package_declares():
    known = declared()
    found = [
        f"{path} {name}"
        for _, path in files_of_parts()
        for name in undeclared(path.read_text(), known)
    ]
    assert not found, "declare in pyproject.toml, in the core or an extra:\n" + "\n".join(found)


def test_an_undeclared_import_is_caught():
    planted = "import torch, os\nfrom pandas.core import frame\nimport sklearn.datasets"
    assert undeclared(planted, declared()) == ["pandas"]
