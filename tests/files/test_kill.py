"""Writers killed (SIGKILL) at random times: 20 kills, 200 with GATEWISE_FULL=1."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from files import victim

from gatewise.files import is_temporary

FULL = os.environ.get("GATEWISE_FULL") == "1"
KILLS = 50 if FULL else 5  # of each kind
FORKS = pytest.mark.skipif(
    not hasattr(os, "fork"), reason="kills are tested where processes can be forked"
)


def start(*arguments) -> subprocess.Popen:
    source = str(Path(sys.modules["gatewise.files"].__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
    return subprocess.Popen([sys.executable, *map(str, arguments)], env=environment, **pipes)


def tell(process: subprocess.Popen) -> None:
    process.stdin.write("START\n")
    process.stdin.flush()


@pytest.mark.slow
@FORKS
@pytest.mark.parametrize("kind", ["bytes", "json", "tensors", "journal"])
def test_a_killed_writer_leaves_the_last_acknowledged_write_or_the_next(kind, tmp_path):
    chance = random.Random(kind)  # noqa: S311  not for secrets
    last = 0
    with start(victim.__file__, kind, tmp_path) as process:
        assert process.stdout.readline() == "ready\n"
        for _ in range(KILLS):
            tell(process)
            acknowledged = kill_at_a_random_moment(process, chance)
            last = max([last, *acknowledged])
            assert victim.read(kind, tmp_path / kind) in (last, last + 1)
            last = victim.read(kind, tmp_path / kind)
        process.stdin.close()
    assert last >= KILLS  # it did write
    others = [path for path in tmp_path.iterdir() if path.name != kind]
    assert all(is_temporary(path) for path in others)


def kill_at_a_random_moment(process, chance) -> list[int]:
    """Kill the worker some time after its first acknowledged write.

    Return the numbers of those acknowledged.
    """
    lines = []
    while not any(line.startswith("worker") for line in lines) or not any(
        line.startswith("done") for line in lines
    ):
        lines.append(process.stdout.readline())
    time.sleep(chance.uniform(0, 0.03))
    worker = next(line for line in lines if line.startswith("worker")).split()[1]
    os.kill(int(worker), signal.SIGKILL)
    while (line := process.stdout.readline()) != "dead\n":
        lines.append(line)
    return [int(line.split()[1]) for line in lines if line.startswith("done")]
