"""The same records on Ray, after a worker or the whole cluster was killed."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from engine.small_work import sums

import gatewise

PROGRAM = Path(__file__).with_name("ray_program.py")
needs_ray = pytest.mark.skipif(
    find_spec("ray") is None or not Path("/proc/self/stat").exists(), reason="needs ray and /proc"
)


@needs_ray
@pytest.mark.slow
@pytest.mark.parametrize("what", ["plain", "worker", "cluster"])
def test_a_study_on_ray_ends_with_the_same_records(tmp_path, what):
    source = Path(gatewise.__file__).parents[1]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    environment |= {"PYTHONPATH": f"{source}:{PROGRAM.parent}", "OMP_NUM_THREADS": "1"}
    answer = tmp_path / "answer.json"
    command = [sys.executable, str(PROGRAM), what, str(tmp_path / "s"), str(answer)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(answer.read_text())
    assert found["values"] == sums(8)
    assert ("died" in found["events"]) == (what == "worker")
    assert ("the cluster was lost" in found["problem"]) == (what == "cluster")
