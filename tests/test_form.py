"""The form of the source: documented, typed, and laid out by the formatter alone.

``tools/form.py`` prints sizes.
"""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = (ROOT / "src" / "gatewise", ROOT / "laboratory" / "gatewise_papers")

FORMATTER_OFF = ("fmt: skip", "fmt: off")
# `nn.Module`, `autograd.Function` and `UnitModule` document these.
DOCUMENTED_BY_PARENT = {
    "arguments",
    "backward",
    "extra_repr",
    "forward",
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@functools.cache
def sources() -> dict[str, str]:
    texts = {}
    for path in [path for home in SOURCES for path in sorted(home.rglob("*.py"))]:
        texts[str(path.relative_to(ROOT))] = path.read_text()
    return texts


def public_definitions(tree: ast.AST) -> Iterator[Function | ast.ClassDef]:
    """Public functions and classes of a module, and public methods of its public classes."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public_definitions(node)
        elif isinstance(node, ast.If | ast.Try | ast.With):
            yield from public_definitions(node)


def undocumented(where: str, text: str) -> list[str]:
    names = []
    for node in public_definitions(ast.parse(text)):
        documented = ast.get_docstring(node) is not None
        if not documented and node.name not in DOCUMENTED_BY_PARENT:
            names.append(f"{where}:{node.lineno} {node.name}")
    return names


def untyped(where: str, text: str) -> list[str]:
    names = []
    for node in public_definitions(ast.parse(text)):
        if isinstance(node, Function) and not is_typed(node):
            names.append(f"{where}:{node.lineno} {node.name}")
    return names


def is_typed(node: Function) -> bool:
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    for argument in arguments:
        if argument.annotation is None and argument.arg not in ("self", "cls"):
            return False
    return node.returns is not None


def formatter_off(where: str, text: str) -> list[str]:
    places = []
    for number, line in enumerate(text.splitlines(), start=1):
        if any(mark in line for mark in FORMATTER_OFF):
            places.append(f"{where}:{number}")
    return places


@pytest.mark.parametrize("fault", [formatter_off, undocumented, untyped])
def test_no_file_has_this_fault(fault):
    places = []
    for where, text in sources().items():
        places += fault(where, text)
    assert not places, f"{fault.__name__}:\n" + "\n".join(places)


PLANTED = '''
"""A module."""

import os


def bare(x):
    def inner(y):
        return y
    return inner(x)


def documented(x: int) -> int:
    """Return one."""
    return 1


def half_typed(x) -> int:
    """Return one."""
    return 1


class Thing:
    """A thing."""

    def forward(self, x: int) -> int:
        return x

    def other(self, x: int) -> int:
        return x


class Bare:
    pass


class _Hidden:
    def bare(self):
        pass
'''


def test_planted_undocumented_and_untyped_functions_are_caught():
    assert undocumented("planted.py", PLANTED) == [
        "planted.py:7 bare",
        "planted.py:29 other",
        "planted.py:33 Bare",
    ]
    assert untyped("planted.py", PLANTED) == ["planted.py:7 bare", "planted.py:18 half_typed"]


@pytest.mark.parametrize("mark", FORMATTER_OFF)
def test_a_planted_switch_of_the_formatter_is_caught(mark: str):
    assert formatter_off("planted.py", f"x = 1\ny = 2  # {mark}\n") == ["planted.py:2"]
