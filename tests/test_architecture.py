"""Imports point one way.

A part may import parts of lower rows; parts of one row do not know each other.
"""

import ast
import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "gatewise"
LABORATORY = ROOT / "laboratory" / "gatewise_papers"
PAPERS = {"crelu", "deep_gated", "iieu", "maso", "psc"}

ROWS = (
    {"errors", "words"},
    {"checks", "extensions", "results"},
    {"devices", "files", "native", "stats"},
    {"units"},
    {"layers", "graph", "testing"},
    {"batches"},
    {"models", "surgery", "analysis", "data"},
    {"train"},
    {"sparsity", "studies"},
    {"report"},
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
MOST_MODULES = 15
CATALOGUES = {
    "units/catalogue",
    "cli/commands",
}  # one file per unit or command: any number of files
OTHER_NAMES = {
    "PIL": "pillow",
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
        elif name.split(".")[0] == "gatewise_papers":
            wrong.append(f"line {line}: gatewise does not know gatewise_papers ({name})")
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
        ("units", "from gatewise_papers.maso import MASO"),
        ("cli", "from gatewise_papers.all_experiments import experiments"),
        ("units", "import gatewise.cli"),
        ("units", "from gatewise import create_model"),
        ("units", "def late():\n    from gatewise.layers import table"),
        ("units", "import importlib\nimportlib.import_module('gatewise.testing')"),
        ("errors", "from gatewise.units import list_units"),
        ("files", "from gatewise import units"),
        ("graph", "from gatewise.testing import check_unit"),
        ("surgery", "from gatewise.analysis import gates"),
        ("testing", "import gatewise as gw"),
        ("nn", "from gatewise.cli import main"),
        ("units", "from . import spec"),
        ("units", "from ..spec import unit"),
    ],
)
def test_a_planted_wrong_import_is_caught(part: str, planted: str):
    assert len(wrong_imports(part, planted)) == 1


@pytest.mark.parametrize(
    ("part", "planted"),
    [
        (
            "units",
            "from gatewise.units.contract.spec import unit\nimport torch",
        ),
        ("studies", "from gatewise.testing import check_unit\nfrom gatewise.train import train"),
        ("cli", "import gatewise as gw\nfrom gatewise.report import gallery"),
        ("__init__", "from gatewise import functional, nn, testing"),
        ("nn", "from gatewise.layers import MASO"),
    ],
)
def test_a_right_import_is_let_pass(part: str, planted: str):
    assert wrong_imports(part, planted) == []


def wrong_in_laboratory(importer: str, text: str) -> list[str]:
    """Imports in ``text``, a module of the laboratory, of another paper or of the command line."""
    wrong = []
    paper = importer.split(".")[1] if "." in importer else ""
    for line, name in imported_modules(ast.parse(text)):
        parts = name.split(".")
        if parts[:2] == ["gatewise", "cli"] and importer != "gatewise_papers.reproduce":
            wrong.append(f"line {line}: only the command imports {name}")
        other = parts[1] if parts[0] == "gatewise_papers" and len(parts) > 1 else ""
        if paper in {*PAPERS, "common", "data"} and other in PAPERS - {paper}:
            wrong.append(f"line {line}: {paper} may not import {name}")
        if name.startswith("."):
            wrong.append(f"line {line}: {name!r} is relative; write the full name")
    return wrong


def test_a_paper_imports_no_other_and_no_command_line():
    found = []
    for name, path in SOURCES.items():
        if name.startswith("gatewise_papers"):
            found += [f"{path} {wrong}" for wrong in wrong_in_laboratory(name, path.read_text())]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    "planted",
    [
        "from gatewise_papers.psc import StaticPSConv2d",
        "from gatewise.cli import app",
        "from . import table1",
    ],
)
def test_a_planted_wrong_import_of_a_paper_is_caught(planted: str):
    assert len(wrong_in_laboratory("gatewise_papers.maso.experiments.table1", planted)) == 1


def module_name(path: Path) -> str:
    """Dotted name of a source file: ``src/gatewise/units/__init__.py`` is ``gatewise.units``."""
    home = SOURCE if path.is_relative_to(SOURCE) else LABORATORY
    parts = path.relative_to(home.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = [*sorted(SOURCE.rglob("*.py")), *sorted(LABORATORY.rglob("*.py"))]
PRODUCT = set(FILES[: len(list(SOURCE.rglob("*.py")))])
SOURCES = {module_name(path): path for path in FILES}
PACKAGES = {name for name, path in SOURCES.items() if path.name == "__init__.py"}


def past_a_face(importer: str, text: str) -> list[str]:
    """Imports in ``text``, the file called ``importer``, that go past the face of a package.

    The laboratory also builds on the modules and packages of gatewise's parts.
    """
    home = importer if importer in PACKAGES else importer.rpartition(".")[0]
    wrong = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ImportFrom) or not node.module:
            continue
        top = node.module.split(".")[0]
        if top not in ("gatewise", "gatewise_papers"):
            continue
        if top == "gatewise" and home.startswith("gatewise_papers") and node.module.count(".") < 3:
            continue
        package = node.module if node.module in PACKAGES else node.module.rpartition(".")[0]
        parent = package.rpartition(".")[0]
        inside = f"{home}.".startswith(f"{package}.")
        beside = node.module == package and f"{home}.".startswith(f"{parent}.")
        listed = package == "gatewise.units.catalogue" and home.startswith("gatewise.units")
        if not (inside or beside or listed or package == top):
            wrong.append(
                f"line {node.lineno}: {node.module} is behind the face of {parent or package}"
            )
        if not f"{home}.".startswith(f"{'.'.join(node.module.split('.')[:2])}."):
            private = [alias.name for alias in node.names if alias.name.startswith("_")]
            wrong += [f"line {node.lineno}: {name} of {node.module} is private" for name in private]
    return wrong


def test_nothing_imports_past_a_face():
    found = [
        f"{SOURCES[name]} {wrong}"
        for name in SOURCES
        for wrong in past_a_face(name, SOURCES[name].read_text())
    ]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("importer", "planted"),
    [
        ("gatewise.surgery.proof.running", "from gatewise.graph.ops import RELU"),
        ("gatewise.surgery.proof.running", "from gatewise.graph.trace import Node"),
        ("gatewise.train", "from gatewise.units.contract.spec import Unit"),
        ("gatewise.analysis.gating.flips", "from gatewise.analysis.planes.polygons import cut"),
        ("gatewise.train", "from gatewise.units import _hidden"),
    ],
)
def test_a_planted_import_past_a_face_is_caught(importer: str, planted: str):
    assert len(past_a_face(importer, planted)) == 1


@pytest.mark.parametrize(
    ("importer", "planted"),
    [
        ("gatewise.surgery.proof.running", "from gatewise.graph import Node"),
        ("gatewise.analysis.gating.flips", "from gatewise.analysis.planes import cut"),
        ("gatewise.analysis.gating.flips", "from gatewise.analysis.gating.activity import gates"),
        ("gatewise.units", "from gatewise.units.contract import Unit"),
        ("gatewise.train", "from gatewise.errors import ArgumentError"),
    ],
)
def test_an_import_of_a_face_is_let_pass(importer: str, planted: str):
    assert past_a_face(importer, planted) == []


def steps_used(part: str, text: str) -> list[str]:
    """Names that ``text``, a test of ``part``, imports from inside another part, and private ones.

    A test of a part may test one step of it and import that step's module. Tests of other parts
    use the face. A module may be imported whole anywhere, to patch it.
    """
    wrong = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ImportFrom) or node.module not in SOURCES:
            continue
        private = [alias.name for alias in node.names if alias.name.startswith("_")]
        wrong += [f"line {node.lineno}: {name} of {node.module} is private" for name in private]
        below_a_part = node.module.count(".") > 1 and node.module not in PACKAGES
        unit = node.module.startswith("gatewise.units.catalogue.")
        ours = node.module.startswith("gatewise.")
        if below_a_part and ours and not unit and part_of(node.module) != part:
            wrong.append(f"line {node.lineno}: {node.module} is a step of another part")
    return wrong


def test_tests_use_faces():
    found = []
    tests = (ROOT / "tests", ROOT / "laboratory" / "tests")
    for home, path in [(folder, path) for folder in tests for path in sorted(folder.rglob("*.py"))]:
        part = path.relative_to(home).parts[0]
        found += [f"{path} {wrong}" for wrong in steps_used(part, path.read_text())]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("planted", "wrong"),
    [
        ("from gatewise.surgery.proof.running import Run", 0),
        ("from gatewise.surgery.proof.running import _run", 1),
        ("from gatewise.graph.shapes import align", 1),
        ("from gatewise.graph import find_sites, ops", 0),
        ("from gatewise.units.catalogue.relu import UNIT", 0),
    ],
)
def test_a_planted_import_of_a_step_is_caught(planted: str, wrong: int):
    assert len(steps_used("surgery", planted)) == wrong


def test_no_folder_is_full():
    count = Counter(
        path.parent.relative_to(SOURCE if path in PRODUCT else LABORATORY).as_posix()
        for path in SOURCES.values()
        if path.name != "__init__.py"
    )
    full = {name: n for name, n in count.items() if n > MOST_MODULES and name not in CATALOGUES}
    assert not full, f"over {MOST_MODULES} modules: {full}"


def test_no_class_name_is_used_twice_in_a_part():
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for part, path in files_of_parts():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                places[part, node.name].append(str(path.relative_to(SOURCE)))
    twice = {name: files for name, files in places.items() if len(files) > 1}
    assert not twice, "\n".join(f"{part}.{name}: {files}" for (part, name), files in twice.items())


def hidden_modules(package: str, text: str) -> list[str]:
    """Modules of ``package`` that a function or class in ``text``, its face, hides."""
    hidden = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names = [node.name]
        elif isinstance(node, ast.ImportFrom) and node.module != package:
            names = [alias.asname or alias.name for alias in node.names]
        else:
            continue
        hidden += [f"{package}.{name}" for name in names if f"{package}.{name}" in SOURCES]
    return hidden


def test_no_function_has_the_dotted_name_of_a_module():
    hidden = [
        name
        for package in PACKAGES
        for name in hidden_modules(package, SOURCES[package].read_text())
    ]
    assert not hidden, f"a module and a function share these names: {sorted(hidden)}"


def test_a_planted_function_that_hides_a_module_is_caught():
    assert hidden_modules("gatewise.units", "def contract(): ...") == ["gatewise.units.contract"]
    planted = "from gatewise.units.contract import spec as contract"
    assert hidden_modules("gatewise.units", planted) == ["gatewise.units.contract"]
    assert hidden_modules("gatewise.units", "from gatewise.units import contract") == []


def test_no_module_has_the_name_of_a_public_function():
    import gatewise as gw

    public = {name for name in gw.__all__ if name.islower() and callable(getattr(gw, name))}
    taken = {
        name
        for name, path in SOURCES.items()
        if name.rpartition(".")[2] in public
        and path in PRODUCT
        and path.parent.relative_to(SOURCE).as_posix() not in CATALOGUES
    }
    assert not taken, f"these hide or repeat a public function: {sorted(taken)}"


def declared(*groups: str, home: Path = ROOT) -> set[str]:
    """Distributions that pyproject.toml names in the core, or in the extras ``groups``."""
    project = tomllib.loads((home / "pyproject.toml").read_text())["project"]
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
    third_party = tops - sys.stdlib_module_names - {"gatewise", "gatewise_papers"}
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
    known = declared(home=LABORATORY.parent)
    for path in sorted(LABORATORY.rglob("*.py")):
        found += [f"{path} {name}" for name in undeclared(path.read_text(), known)]
    assert not found, "declare in pyproject.toml, in the core or an extra:\n" + "\n".join(found)


def test_an_undeclared_import_is_caught():
    planted = "import torch, os\nfrom polars.io import csv\nimport mlflow.entities"
    assert undeclared(planted, declared()) == ["polars"]
