#!/usr/bin/env python3
"""Change one place of a source file at a time, and see whether the tests notice.

    tools/mutate.py FILE... [-n 20] [--seed 0] -- PYTEST ARGS

Each mutant is written over the file, the tests run, and the file is put back, also when
interrupted. Prints every survivor as file:line and the change, and ends with the count. ``{name}``
in the pytest arguments becomes the mutated file's name without ``.py``.
"""

import argparse
import ast
import copy
import random
import subprocess
import sys
from pathlib import Path

SWAPS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.USub: ast.UAdd,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


def places(tree: ast.AST) -> list[tuple[ast.AST, str, object]]:
    """(node, field, new value) for every change that can be made."""
    found: list[tuple[ast.AST, str, object]] = []
    typed = (getattr(a, f, None) for a in ast.walk(tree) for f in ("annotation", "returns"))
    annotations = {
        id(inner) for annotation in typed if annotation for inner in ast.walk(annotation)
    }
    for node in ast.walk(tree):
        if id(node) in annotations:
            continue
        op = getattr(node, "op", None) or (node.ops[0] if isinstance(node, ast.Compare) else None)
        if type(op) in SWAPS:
            new = SWAPS[type(op)]()
            found.append(
                (node, "ops", [new, *node.ops[1:]])
                if isinstance(node, ast.Compare)
                else (node, "op", new)
            )
        if isinstance(node, ast.Constant) and type(node.value) in (int, float, bool):
            found.append(
                (
                    node,
                    "value",
                    (not node.value) if isinstance(node.value, bool) else node.value + 1,
                )
            )
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            found.append((node, "value", ast.Constant(value=None)))
        if isinstance(node, ast.If):
            found.append((node, "test", ast.Constant(value=False)))
    return found


def mutants(path: Path) -> list[tuple[int, str, str]]:
    """(line, description, source) of every mutant of a file."""
    tree = ast.parse(path.read_text())
    made = []
    for i, (node, field, _) in enumerate(places(tree)):
        other = copy.deepcopy(tree)
        target, _, new = places(other)[i]
        before = ast.unparse(target)
        setattr(target, field, new)
        ast.fix_missing_locations(other)
        made.append(
            (
                getattr(node, "lineno", 0),
                f"{before[:70]}  ->  {ast.unparse(target)[:70]}",
                ast.unparse(other),
            )
        )
    return made


def survives(path: Path, source: str, pytest: list[str]) -> bool:
    """Whether the tests pass with ``source`` in place of the file."""
    original = path.read_bytes()
    asked = [argument.replace("{name}", path.stem) for argument in pytest]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *asked]
    try:
        path.write_text(source)
        return subprocess.run(command, capture_output=True, timeout=600).returncode == 0  # noqa: S603  our own tests
    except subprocess.TimeoutExpired:
        return False
    finally:
        path.write_bytes(original)


def main() -> int:
    """Run; exit 1 if a mutant survived."""
    own, _, pytest = " ".join(sys.argv[1:]).partition(" -- ")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("-n", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(own.split())
    candidates = [(path, *m) for path in options.files for m in mutants(path)]
    chosen = random.Random(options.seed).sample(candidates, min(options.n, len(candidates)))  # noqa: S311  not for secrets
    alive = 0
    for path, line, change, source in chosen:
        lived = survives(path, source, pytest.split())
        alive += lived
        print(f"{'SURVIVED' if lived else 'noticed '} {path}:{line}  {change}", flush=True)
    print(
        f"{len(chosen) - alive} of {len(chosen)} mutants noticed, "
        f"of {len(candidates)} that could be made"
    )
    return alive > 0


if __name__ == "__main__":
    sys.exit(main())
