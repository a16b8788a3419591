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
    "torchvision",
    "typer",
)
# Parts that `import gatewise` loads. The others are loaded when they are first used.
LOADED = {"errors", "functional", "fused", "native", "nn", "units"}

LIST_MODULES = """
import json, sys
import numpy, torch
before = set(sys.modules)
import gatewise
print(json.dumps(sorted(set(sys.modules) - before)))
"""


@cache
def imported_modules() -> list[str]:
    """Modules that ``import gatewise`` adds to a process that has torch."""
    command = [sys.executable, "-c", LIST_MODULES]
    here = Path(__file__).parent
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=here)
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", HEAVY)
def test_import_does_not_bring(name: str):
    assert name not in imported_modules()
    assert "gatewise.errors" in imported_modules()  # the list is a real one


def test_import_loads_units_and_no_other_part():
    ours = [name.split(".") for name in imported_modules() if name.startswith("gatewise.")]
    assert {names[1] for names in ours} == LOADED
