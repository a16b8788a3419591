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


PRINT_EVERY_HELP = """
import json, sys
from gatewise.cli import main
from gatewise.cli.application import app, help_text
import typer
commands = [[]]
for name, command in typer.main.get_command(app).commands.items():
    commands.append([name])
    commands += [[name, other] for other in getattr(command, "commands", ())]
for command in commands:
    sys.argv = ["gatewise", *command, "--help"]
    main()
sys.argv = ["gatewise", "--version"]
main()
heavy = {"torch", "rich", "pydantic", "numpy"} & set(sys.modules)
print(json.dumps([len(commands), sorted(heavy)]))
"""


def test_version_and_every_help_import_nothing_heavy():
    command = [sys.executable, "-c", PRINT_EVERY_HELP]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *text, last = done.stdout.splitlines()
    count, heavy = json.loads(last)
    assert count >= 16 and heavy == []
    assert sum(line.startswith("Usage: gatewise") for line in text) == count
