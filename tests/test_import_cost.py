"""``import gatewise`` costs under 50 ms beyond torch, and brings nothing heavy along."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

LIMIT_MS = 50
RUNS = 5
HEAVY = (
    *("gatewise.cli", "jinja2", "matplotlib", "onnx", "onnxruntime"),
    *("pydantic", "rich", "scipy", "sklearn", "torchvision", "typer"),
)

# Processor time, not the clock: a busy machine makes the clock run on while nothing of ours is
# done.
MEASURE = """
import json, sys, time
import numpy, torch
before = set(sys.modules)
start = time.process_time()
import gatewise
spent = time.process_time() - start
print(json.dumps([1000 * spent, sorted(set(sys.modules) - before)]))
"""


@cache
def import_in_a_new_process(run: int) -> tuple[float, list[str]]:
    here = Path(__file__).parent
    cached = {
        k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"
    }  # as an installed package is
    done = subprocess.run(
        [sys.executable, "-c", MEASURE],
        capture_output=True,
        text=True,
        check=True,
        cwd=here,
        env=cached,
    )
    spent, modules = json.loads(done.stdout)
    return spent, modules


def test_import_takes_under_50_ms_beyond_torch():
    import_in_a_new_process(0)  # writes the bytecode
    times = sorted(import_in_a_new_process(run)[0] for run in range(1, RUNS + 1))
    assert times[0] < LIMIT_MS, f"milliseconds: {[round(t) for t in times]}"


@pytest.mark.parametrize("name", HEAVY)
def test_import_does_not_bring(name: str):
    _, modules = import_in_a_new_process(0)
    assert name not in modules
    assert "gatewise.errors" in modules  # the list is a real one
