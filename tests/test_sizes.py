"""Small files, small functions, every public function documented and typed.

Measured, so that it stays so.
"""

import ast
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "gatewise"
LONGEST_FILE, LONGEST_BODY, MEDIAN_BODY, P90_BODY = 400, 50, 6, 25
DOCUMENTED_BY_PARENT = {
    "arguments",
    "extra_repr",
    "forward",
}  # `nn.Module` and `UnitModule` say what these do

Def = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Function:
    where: str
    name: str
    body: int  # lines, without the docstring
    public: bool  # reachable by public names only
    has_docstring: bool
    has_return_type: bool


def functions(text: str, where: str) -> Iterator[Function]:
    file = Path(where).name
    return _functions(
        ast.parse(text), where, public=file == "__init__.py" or not file.startswith("_")
    )


def _functions(node: ast.AST, where: str, public: bool) -> Iterator[Function]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Def):
            yield describe(child, where, public)
            yield from _functions(child, where, public=False)
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, where, public and not child.name.startswith("_"))
        else:
            yield from _functions(child, where, public)


def describe(node: Def, where: str, public: bool) -> Function:
    docstring = ast.get_docstring(node) is not None
    statements = node.body[1:] if docstring else node.body
    body = node.end_lineno - statements[0].lineno + 1 if statements else 0
    public = public and not node.name.startswith("_")
    return Function(
        f"{where}:{node.lineno}", node.name, body, public, docstring, node.returns is not None
    )


def sources() -> dict[str, str]:
    return {
        str(path.relative_to(SOURCE.parent)): path.read_text()
        for path in sorted(SOURCE.rglob("*.py"))
    }


def all_functions() -> list[Function]:
    return [function for where, text in sources().items() for function in functions(text, where)]


def undocumented(found: list[Function]) -> list[str]:
    wanting = (f for f in found if f.public and not f.has_docstring)
    return [f"{f.where} {f.name}" for f in wanting if f.name not in DOCUMENTED_BY_PARENT]


def untyped(found: list[Function]) -> list[str]:
    return [f"{f.where} {f.name}" for f in found if f.public and not f.has_return_type]


def test_no_file_is_long():
    long = {
        where: count
        for where, text in sources().items()
        if (count := len(text.splitlines())) > LONGEST_FILE
    }
    assert not long, f"over {LONGEST_FILE} lines: {long}"


def test_no_body_is_long():
    long = {f"{f.where} {f.name}": f.body for f in all_functions() if f.body > LONGEST_BODY}
    assert not long, f"over {LONGEST_BODY} lines: {long}"


def test_bodies_are_short_on_the_whole():
    bodies = sorted(f.body for f in all_functions())
    median, p90 = statistics.median(bodies), bodies[int(0.9 * (len(bodies) - 1))]
    assert median <= MEDIAN_BODY and p90 <= P90_BODY, (
        f"median {median}, p90 {p90} over {len(bodies)} functions"
    )


def test_every_public_function_has_a_docstring():
    assert not (missing := undocumented(all_functions())), "\n" + "\n".join(missing)


def test_every_public_function_has_a_return_type():
    assert not (missing := untyped(all_functions())), "\n" + "\n".join(missing)


PLANTED = '''
def bare(x):
    def inner(y):
        return y
    return inner(x)

def told(x) -> int:
    """Say."""
    a = 1

    return a

class Thing:
    def forward(self, x) -> int:
        return x

    def other(self, x) -> int:
        return x

class _Hidden:
    def bare(self):
        pass
'''


def test_the_measure_sees_what_it_should():
    found = list(functions(PLANTED, "planted.py"))
    assert [(f.name, f.body) for f in found][:5] == [
        ("bare", 3),
        ("inner", 1),
        ("told", 3),
        ("forward", 1),
        ("other", 1),
    ]
    assert undocumented(found) == ["planted.py:2 bare", "planted.py:17 other"]
    assert untyped(found) == ["planted.py:2 bare"]


@pytest.mark.parametrize(
    ("name", "public"), [("planted.py", True), ("_planted.py", False), ("units/__init__.py", True)]
)
def test_functions_of_private_files_are_private(name: str, public: bool):
    assert bool(untyped(list(functions(PLANTED, name)))) is public
