#!/usr/bin/env python3
"""Try other versions of torch, Python and transformers in throw-away environments.

    tools/compat.py [ROW...]

Prints a table for the release checklist (``docs/release.md``). An environment with torch needs
about 6 GB and is removed at the end. The tests are a quick part of all: every layer of the library
is in it. Warnings are not errors here, because other versions deprecate other names. What cannot
be had is named as not tried, with the reason. Exits with 1 if a test failed.
"""

import datetime
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
QUICK = (
    "analysis/test_affine_map.py",
    "analysis/test_diagnose.py",
    "analysis/test_ntk_quick.py",
    "cli/test_app.py",
    "graph/test_interpret.py",
    "graph/test_reading.py",
    "layers/test_iieu_b.py",
    "studies/test_own_compare.py",
    "surgery/test_saved_swaps.py",
    "surgery/test_several_units.py",
    "surgery/test_swap.py",
    "train/test_loop.py",
    "units/test_iieu_block.py",
    "units/test_create.py",
)
TOOLS = ("pytest", "hypothesis")
HUGGING_FACE = ("surgery/test_transformers_versions.py",)
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
COUNTS = re.compile(r"(\d+) (passed|failed|errors?)\b")


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        name: What is tried.
        python: The version of Python, or "" for this one.
        packages: What pip installs.
        constraints: A file of constraints, whose packages are put beside those of this Python.
    """

    name: str
    python: str = ""
    packages: tuple[str, ...] = ()
    constraints: str = ""


@dataclass(frozen=True)
class Result:
    """What came of a row.

    Attributes:
        row: The row.
        versions: The versions that were tried.
        text: How many tests passed and failed, or why nothing was tried.
        failed: Whether a test failed.
    """

    row: Row
    versions: str
    text: str
    failed: bool = False


ROWS = (
    Row("oldest-torch", "3.11", ("torch==2.6.*",)),
    Row("newest-torch", "3.13", ("torch",)),
    Row("transformers-4", constraints="constraints-hf4.txt"),
)


def main(names: list[str]) -> int:
    """Try the rows that are named, or all, and print the table."""
    wrong = set(names) - {row.name for row in ROWS}
    if wrong:
        print(f"compat: unknown row {', '.join(sorted(wrong))}", file=sys.stderr)
        print(f"  allowed: {', '.join(row.name for row in ROWS)}", file=sys.stderr)
        return 2
    results = []
    for row in ROWS:
        if names and row.name not in names:
            results.append(Result(row, row.python, "not tried"))
            continue
        with tempfile.TemporaryDirectory(prefix="gatewise-compat-") as folder:
            results.append(tried(row, Path(folder)))
        print(f"{row.name}: {results[-1].text}", file=sys.stderr, flush=True)
    print(table(results, datetime.date.today()))
    return int(any(result.failed for result in results))


def tried(row: Row, folder: Path) -> Result:
    """Set an environment up in ``folder`` and run the tests there."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONPATH", None)
    environment.pop("GATEWISE_REQUIRE_ALL", None)
    install = ["-m", "pip", "install", "-q"]
    if row.constraints:
        program = sys.executable
        packages = names_in(ROOT / row.constraints)
        install += ["--no-deps", "--target", str(folder), "-c", row.constraints, *packages]
        environment |= {"PYTHONPATH": f"{folder}:{ROOT / 'src'}", "GATEWISE_THOROUGH": "1"}
        shown, tests = packages[0], HUGGING_FACE
    else:
        found = shutil.which(f"python{row.python}")
        if found is None:
            return Result(row, row.python, f"not tried: there is no python{row.python} here")
        # A launcher can be there without the version that it should start.
        if run([found, "-m", "venv", str(folder)], environment).returncode:
            return Result(row, row.python, f"not tried: {found} makes no environment")
        program = str(folder / "bin/python")
        install += [*row.packages, str(ROOT), *TOOLS]
        shown, tests = "torch", QUICK
    if run([program, *install], environment).returncode:
        return Result(row, row.python, "not tried: pip could not install it")
    versions = run([program, "-c", _VERSIONS.format(shown)], environment).stdout.strip()
    options = ["-m", "pytest", "-q", "-W", "default", "-p", "no:cacheprovider", "--tb=short"]
    said = run([program, *options, *(f"tests/{name}" for name in tests)], environment).stdout
    print(said, file=sys.stderr)
    return Result(row, versions, *summary(said))


_VERSIONS = (
    "import platform, importlib.metadata as m; "
    "print(f\"Python {{platform.python_version()}}, {0} {{m.version('{0}')}}\")"
)


def run(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command in the root of the repository, and keep what it prints."""
    return subprocess.run(  # noqa: S603 - our own command, without a shell
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, encoding="utf-8"
    )


def names_in(constraints: Path) -> list[str]:
    """Return the packages that a file of constraints names."""
    lines = constraints.read_text().splitlines()
    return [re.split(r"[=<>]", line)[0] for line in lines if line and not line.startswith("#")]


def summary(said: str) -> tuple[str, bool]:
    """Return the counts of pytest's last line, and whether a test failed or none passed."""
    last = said.strip().rpartition("\n")[2]
    counts = {kind.rstrip("s"): int(count) for count, kind in COUNTS.findall(last)}
    passed = counts.get("passed", 0)
    failed = counts.get("failed", 0) + counts.get("error", 0)
    return f"{passed:,} tests passed, {failed:,} failed", failed > 0 or not passed


def table(results: Iterable[Result], date: datetime.date) -> str:
    """Return the table in Markdown. Pythons that no row tried are in it, too."""
    lines = ["| what | versions | result | date |", "|---|---|---|---|"]
    pythons = set(PYTHONS)
    for result in results:
        was_tried = not result.text.startswith("not tried")
        when = f"{date}" if was_tried else ""
        lines.append(f"| {result.row.name} | {result.versions} | {result.text} | {when} |")
        if was_tried:
            pythons -= {name for name in PYTHONS if f"Python {name}." in result.versions}
    lines += [f"| Python | {name} | not tried | |" for name in PYTHONS if name in pythons]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
