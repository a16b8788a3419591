"""Extract the documentation strings of a Python standard library into one compressed file.

The data set ``python_text`` was made once, with Python 3.11.7, and is frozen: another version has
other text. Modules are parsed and never imported. Usage::

    python tools/python_docstrings.py LIBRARY_FOLDER OUTPUT.xz

where ``LIBRARY_FOLDER`` is the one that holds ``os.py``. The sha256 of the text and of the file are
printed.
"""

import ast
import hashlib
import lzma
import sys
from collections.abc import Iterator
from pathlib import Path

# Folders that are not documentation of modules: test suites, bundled wheels, installed packages.
SKIPPED = {"test", "tests", "idle_test", "site-packages", "_bundled", "__pycache__"}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
SHORTEST = 20  # characters: shorter strings are rarely sentences


def modules(library: Path) -> list[Path]:
    """Return the .py files of the standard library, in the order of their paths."""
    found = []
    for path in library.rglob("*.py"):
        parts = path.relative_to(library).parts
        if parts[0].removesuffix(".py") in sys.stdlib_module_names and not SKIPPED & set(parts):
            found.append(path)
    return sorted(found, key=lambda path: path.relative_to(library).as_posix())


def docstrings(source: str) -> Iterator[str]:
    """Yield the documentation strings of a module, in the order in which they stand in it."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, DOCUMENTED)]
    nodes.sort(key=lambda node: getattr(node, "lineno", 0))
    for node in nodes:
        text = ast.get_docstring(node)
        if text and len(text) >= SHORTEST:
            yield text


def library_text(library: Path) -> bytes:
    """Return all documentation strings, each once, with an empty line between two."""
    texts: dict[str, None] = {}
    for path in modules(library):
        texts.update(dict.fromkeys(docstrings(path.read_text(encoding="utf-8"))))
    return "\n\n".join(texts).encode() + b"\n"


def main() -> None:
    """Write the file that the command line names."""
    library, output = map(Path, sys.argv[1:])
    text = library_text(library)
    packed = lzma.compress(text, preset=9 | lzma.PRESET_EXTREME)
    output.write_bytes(packed)
    for name, data in (("text", text), ("file", packed)):
        print(f"{name}: {len(data):,} bytes, sha256 {hashlib.sha256(data).hexdigest()}")


if __name__ == "__main__":
    main()
