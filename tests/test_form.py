"""The form of the source: sizes in tokens, no packed lines, documented and typed.

Tokens are counted, not lines, so that packing a line does not make a function shorter. Imports,
docstrings and comments do not count as code.
"""

import ast
import functools
import io
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "gatewise"

# Bounds over the whole tree.
FUNCTION_TOKENS_P90 = 250
TOKENS_PER_LINE = 9.0
COMPREHENSIONS_PER_1000_LINES = 35

NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
DEFINITIONS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
FORMATTER_OFF = ("fmt: skip", "fmt: off")
# `nn.Module`, `autograd.Function` and `UnitModule` document these.
DOCUMENTED_BY_PARENT = {
    "arguments",
    "backward",
    "extra_repr",
    "forward",
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Counts:
    """Totals over one file or over the whole tree."""

    tokens: int = 0
    lines: int = 0
    comprehensions: int = 0

    @property
    def tokens_per_line(self) -> float:
        return self.tokens / max(1, self.lines)

    @property
    def comprehensions_per_1000_lines(self) -> float:
        return 1000 * self.comprehensions / max(1, self.lines)

    def add(self, other: "Counts") -> None:
        self.tokens += other.tokens
        self.lines += other.lines
        self.comprehensions += other.comprehensions


@functools.cache
def sources() -> dict[str, str]:
    texts = {}
    for path in sorted(SOURCE.rglob("*.py")):
        texts[str(path.relative_to(SOURCE.parent))] = path.read_text()
    return texts


def lines_of(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def lines_without_code(tree: ast.Module) -> set[int]:
    """Lines of imports and docstrings."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            lines.update(lines_of(node))
        elif isinstance(node, DEFINITIONS) and ast.get_docstring(node, clean=False) is not None:
            lines.update(lines_of(node.body[0]))
    return lines


def count(text: str) -> Counts:
    tree = ast.parse(text)
    skipped = lines_without_code(tree)
    counts = Counts()
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in NOT_CODE or token.start[0] in skipped:
            continue
        counts.tokens += 1
        lines.update(range(token.start[0], token.end[0] + 1))
    counts.lines = len(lines)
    counts.comprehensions = sum(isinstance(node, COMPREHENSIONS) for node in ast.walk(tree))
    return counts


def function_tokens(node: ast.AST) -> int:
    """Tokens of a function as ``ast.unparse`` writes it, so that its layout does not matter."""
    tokens = tokenize.generate_tokens(io.StringIO(ast.unparse(node)).readline)
    return sum(token.type not in NOT_CODE for token in tokens)


def functions(text: str) -> Iterator[Function]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, Function):
            yield node


def percentile_90(values: Iterable[int]) -> int:
    ordered = sorted(values)
    return ordered[int(0.9 * (len(ordered) - 1))]


@functools.cache
def tree_counts() -> Counts:
    total = Counts()
    for text in sources().values():
        total.add(count(text))
    return total


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


def test_functions_are_short():
    sizes = []
    for text in sources().values():
        sizes += [function_tokens(node) for node in functions(text)]
    assert percentile_90(sizes) <= FUNCTION_TOKENS_P90


def test_lines_are_not_packed():
    assert tree_counts().tokens_per_line <= TOKENS_PER_LINE


def test_comprehensions_are_few():
    assert tree_counts().comprehensions_per_1000_lines <= COMPREHENSIONS_PER_1000_LINES


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


def test_code_is_counted_without_imports_docstrings_and_comments():
    text = '"""Doc."""\nimport os\n\n\n# why\nx = [\n    i for i in range(3)\n]  # end\n'
    assert count(text) == Counts(tokens=12, lines=3, comprehensions=1)


def test_a_planted_packed_line_is_caught():
    packed = "a, b, c = f(1), g(2), h(3); d, e = (x for x in y), [z for z in w]\n"
    assert count(packed).tokens_per_line > TOKENS_PER_LINE
    assert count(packed).comprehensions_per_1000_lines > COMPREHENSIONS_PER_1000_LINES


def test_a_planted_long_function_is_caught_however_it_is_packed():
    long = "def f():\n    " + "; ".join(f"x{i} = {i}" for i in range(100)) + "\n"
    assert function_tokens(next(functions(long))) > FUNCTION_TOKENS_P90


@pytest.mark.parametrize("mark", FORMATTER_OFF)
def test_a_planted_switch_of_the_formatter_is_caught(mark: str):
    assert formatter_off("planted.py", f"x = 1\ny = 2  # {mark}\n") == ["planted.py:2"]
