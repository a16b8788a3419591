"""Print the sizes of the source: tokens of each part, and averages over the tree.

    python tools/form.py

Tokens are counted, not lines, so that packing a line makes nothing shorter. Imports, docstrings and
comments do not count as code.
"""

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

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


def main() -> None:
    """Print the sizes of both packages."""
    for source in SOURCES:
        print(f"{source.name}:")
        print_sizes(source)


def print_sizes(source: Path) -> None:
    """Print the sizes of one package."""
    parts: Counter[str] = Counter()
    functions = []
    comprehensions = lines = 0
    for path in sorted(source.rglob("*.py")):
        text = path.read_text()
        tokens = code_tokens(text)
        parts[path.relative_to(source).parts[0]] += len(tokens)
        lines += len({row for each in tokens for row in range(each.start[0], each.end[0] + 1)})
        for node in ast.walk(ast.parse(text)):
            comprehensions += isinstance(node, COMPREHENSIONS)
            if isinstance(node, FUNCTIONS):
                functions.append(len(code_tokens(ast.unparse(node))))
    for part, count in parts.most_common():
        print(f"{count:8,} {part}")
    functions.sort()
    print(f"{parts.total():8,} tokens in all")
    print(f"{parts.total() / lines:8.1f} tokens per line of code")
    print(f"{functions[int(0.9 * (len(functions) - 1))]:8} tokens per function, 90th percentile")
    print(f"{1000 * comprehensions / lines:8.0f} comprehensions per 1,000 lines")


if __name__ == "__main__":
    main()
