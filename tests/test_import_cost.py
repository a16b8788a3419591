"""``import gatewise`` imports nothing heavy. ``benchmarks/import_time.py`` measures the time."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

HEAVY = (
    "gatewise.cli",
    "jinja2",
    "matplotlib",
    "onnx",
    "onnxruntime",
    "pydantic",
    "rich",
    "scipy",
    "sklearn",
    "torch",
    "torchvision",
    "typer",
)

LIST_MODULES = """
import json, sys
before = set(sys.modules)
import gatewise
print(json.dumps(sorted(set(sys.modules) - before)))
"""


@cache
def imported_modules() -> list[str]:
    """Modules that ``import gatewise`` adds to a process."""
    command = [sys.executable, "-c", LIST_MODULES]
    here = Path(__file__).parent
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=here)
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", HEAVY)
def test_import_does_not_bring(name: str):
    assert name not in imported_modules()
    assert "gatewise" in imported_modules()  # the list is a real one


def test_import_loads_no_part():
    """Parts are loaded when they are first used."""
    assert [name for name in imported_modules() if name.startswith("gatewise.")] == []


@pytest.mark.parametrize("argument", ("--version", "--help"))
def test_help_and_version_do_not_import_torch(argument: str):
    script = (
        f"import sys; from gatewise.cli import main; sys.argv = ['gatewise', {argument!r}]\n"
        "try: main()\nexcept SystemExit: pass\nassert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "gatewise" in done.stdout
