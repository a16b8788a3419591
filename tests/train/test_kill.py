"""T1, T6: real kills (SIGKILL) at random moments.

The run goes on and ends in the bits of one never interrupted.

30 kills of three kinds of run, some of them killed again while they go on. Times are counted from
the first step, so that no kill falls into the imports.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
import small_runs
import training_victim
from small_runs import SAME

from gatewise.train.loop import read_result

KILLS = 10  # of each kind
pytestmark = pytest.mark.skipif(
    not hasattr(os, "fork"), reason="kills are tested where processes can be forked"
)


@pytest.fixture(scope="module")
def server():
    source = str(Path(sys.modules["gatewise"].__file__).parents[1])
    environment = {
        **os.environ,
        "PYTHONPATH": f"{source}:{Path(training_victim.__file__).parent}",
        "OMP_NUM_THREADS": "1",
    }
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
    with subprocess.Popen(
        [sys.executable, training_victim.__file__], env=environment, **pipes
    ) as process:
        assert process.stdout.readline() == "ready\n"
        yield process
        process.stdin.close()


def run(server, kind, folder, kill_after=None) -> float:
    """Let a worker train; kill it so many seconds after its first step; how long it trained."""
    server.stdin.write(f"{kind}\t{folder}\n")
    server.stdin.flush()
    line = server.stdout.readline()
    while not line.startswith("worker"):
        line = server.stdout.readline()
    worker, first = int(line.split()[1]), None
    while (line := server.stdout.readline()) != "dead\n":
        if first is None and line.startswith("step"):
            first = time.monotonic()
            if kill_after is not None:
                time.sleep(kill_after)
                with suppress(ProcessLookupError):  # it may have come to its end
                    os.kill(worker, signal.SIGKILL)
    return time.monotonic() - (first or time.monotonic())


def samples_seen(log: Path) -> list[Counter]:
    """How often each example was seen in each epoch, of the steps that count.

    Not those gone back behind.
    """
    steps = []
    for line in log.read_text().splitlines():
        what = json.loads(line)
        if "after" in what:
            steps = [step for step in steps if step["step"] <= what["after"]]
        else:
            steps.append(what)
    assert [step["step"] for step in steps] == list(range(1, len(steps) + 1))
    epochs = [Counter() for _ in range(steps[-1]["epoch"])]
    for step in steps:
        epochs[step["epoch"] - 1].update(step["index"])
    return epochs


FIRST, *OTHERS = small_runs.KINDS
KILLED = [FIRST, *(pytest.param(kind, marks=pytest.mark.slow) for kind in OTHERS)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KILLED)
def test_a_run_killed_at_any_moment_ends_in_the_bits_of_one_never_interrupted(server, kind, place):
    lasted = run(server, kind, place / "whole")
    whole = read_result(place / "whole")
    assert whole.status == "finished" and whole.starts == 1
    chance, starts, landed = random.Random(kind), [], 0  # noqa: S311  not for secrets
    for number in range(KILLS):
        folder = place / str(number)
        run(server, kind, folder, chance.uniform(0, lasted))
        if read_result(folder) is None:
            landed += 1
        else:
            lasted /= 2  # it had ended before: the first run, or the machine then, was slower
        while read_result(folder) is None:
            again = chance.uniform(0, lasted / 2) if chance.random() < 0.5 else None
            run(server, kind, folder, again)
        found = read_result(folder)
        assert {name: getattr(found, name) for name in SAME} == {
            name: getattr(whole, name) for name in SAME
        }
        everyone = Counter(range(small_runs.EXAMPLES))
        assert samples_seen(Path(f"{folder}.seen")) == [everyone] * 3  # T6
        starts.append(found.starts)
    assert landed >= KILLS / 4 and max(starts) >= 2, (landed, starts)  # kills did fall within runs
