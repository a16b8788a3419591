"""Print the sizes of the source: tokens of each part, averages over the tree, depth of imports.

    python tools/form.py

Tokens are counted, not lines, so that packing a line makes nothing shorter. Imports, docstrings and
comments do not count as code. The budget of each part is in ARCHITECTURE.md.
"""

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

import networkx

ROOT = Path(__file__).parents[1]
SOURCES = (ROOT / "src" / "gatewise", ROOT / "laboratory" / "gatewise_papers")
NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DOCUMENTED = (ast.Module, ast.ClassDef, *FUNCTIONS)


def code_tokens(text: str) -> list[tokenize.TokenInfo]:
    """Return the tokens of a file without imports, docstrings and comments."""
    skipped: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node = node.body[0]
        elif not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        skipped.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [each for each in tokens if each.type not in NOT_CODE and each.start[0] not in skipped]


def part_tokens(source: Path) -> Counter[str]:
    """Return the tokens of each part of a package: a folder, or a module beside the folders."""
    parts: Counter[str] = Counter()
    for path in sorted(source.rglob("*.py")):
        parts[path.relative_to(source).parts[0]] += len(code_tokens(path.read_text()))
    return parts


def main() -> None:
    """Print the sizes of both packages."""
    for source in SOURCES:
        print(f"{source.name}:")
        print_sizes(source)


def print_sizes(source: Path) -> None:
    """Print the sizes of one package."""
    functions = []
    comprehensions = lines = definitions = 0
    paths = sorted(source.rglob("*.py"))
    for path in paths:
        text = path.read_text()
        tree = ast.parse(text)
        tokens = code_tokens(text)
        lines += len({row for each in tokens for row in range(each.start[0], each.end[0] + 1)})
        definitions += sum(is_public_definition(node) for node in tree.body)
        for node in ast.walk(tree):
            comprehensions += isinstance(node, COMPREHENSIONS)
            if isinstance(node, FUNCTIONS):
                functions.append(len(code_tokens(ast.unparse(node))))
    parts = part_tokens(source)
    for part, count in parts.most_common():
        print(f"{count:8,} {part}")
    functions.sort()
    print(f"{parts.total():8,} tokens in all")
    print(f"{len(paths):8} files")
    print(f"{definitions:8,} public definitions")
    print(f"{import_depth(source):8} modules in the longest chain of imports")
    print(f"{parts.total() / lines:8.1f} tokens per line of code")
    print(f"{functions[int(0.9 * (len(functions) - 1))]:8} tokens per function, 90th percentile")
    print(f"{1000 * comprehensions / lines:8.0f} comprehensions per 1,000 lines")


def is_public_definition(node: ast.stmt) -> bool:
    """Return whether a statement defines a function or class without a leading underscore."""
    return isinstance(node, (ast.ClassDef, *FUNCTIONS)) and not node.name.startswith("_")


def import_depth(source: Path) -> int:
    """Return the length of the longest chain of imports at the top of modules.

    Modules that import each other count as one.
    """
    modules = {}
    for path in source.rglob("*.py"):
        parts = path.relative_to(source.parent).with_suffix("").parts
        modules[".".join(parts).removesuffix(".__init__")] = path
    graph = networkx.DiGraph()
    for name, path in modules.items():
        graph.add_edges_from((name, other) for other in imported_modules(path, modules))
    without_cycles = networkx.condensation(graph)
    return len(networkx.dag_longest_path(without_cycles))


def imported_modules(path: Path, modules: dict[str, Path]) -> set[str]:
    """Return which of ``modules`` a file imports at its top."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        found.update(name for name in names if name in modules)
    return found


if __name__ == "__main__":
    main()
