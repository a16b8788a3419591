"""T2, S2: processes killed (SIGKILL) at random times, and many processes at one journal.

20 kills and 4 x 100 appends; 200 kills and 8 x 1,000 appends with GATEWISE_FULL=1.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import victim

from gatewise.files import Journal, is_temporary

FULL = os.environ.get("GATEWISE_FULL") == "1"
KILLS = 50 if FULL else 5  # of each kind
PROCESSES, APPENDS = (8, 1000) if FULL else (4, 100)
FORKS = pytest.mark.skipif(
    not hasattr(os, "fork"), reason="kills are tested where processes can be forked"
)

APPENDERS = """
import os, sys
from gatewise.files import Journal

def work(who, count):
    journal = Journal(sys.argv[1])
    for n in range(count):
        journal.append({"who": who, "n": n})
        os.write(1, b"done %d %d\\n" % (who, n))

for who in range(int(sys.argv[2])):
    worker = os.fork()
    if not worker:
        work(who, int(sys.argv[3]))
        os._exit(0)
    os.write(1, b"worker %d %d\\n" % (who, worker))
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
"""


def start(*arguments) -> subprocess.Popen:
    source = str(Path(sys.modules["gatewise.files"].__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
    return subprocess.Popen([sys.executable, *map(str, arguments)], env=environment, **pipes)


def tell(process: subprocess.Popen) -> None:
    process.stdin.write("START\n")
    process.stdin.flush()


@pytest.mark.thorough
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
    others = [path for path in tmp_path.iterdir() if path.name not in (kind, f"{kind}.lock")]
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


def append_from_many(path, doomed=()) -> list[int]:
    """Append from several processes at once, killing some.

    Return how many appends of each were acknowledged.
    """
    chance, acknowledged = random.Random(1), [0] * PROCESSES  # noqa: S311  not for secrets
    with start("-c", APPENDERS, path, PROCESSES, APPENDS) as process:
        for line in process.stdout:
            what, who, number = line.split()
            if what == "worker" and int(who) in doomed:
                time.sleep(chance.uniform(0, 0.1))
                os.kill(int(number), signal.SIGKILL)
            elif what == "done":
                assert int(number) == acknowledged[int(who)]
                acknowledged[int(who)] += 1
    assert process.returncode == 0
    return acknowledged


@pytest.mark.thorough
@FORKS
def test_many_processes_append_to_one_journal(tmp_path):
    assert append_from_many(tmp_path / "journal") == [APPENDS] * PROCESSES
    records = Journal(tmp_path / "journal").read()
    assert len(records) == PROCESSES * APPENDS
    for who in range(PROCESSES):
        assert [record["n"] for record in records if record["who"] == who] == list(range(APPENDS))


@pytest.mark.thorough
@FORKS
def test_processes_killed_among_others_lose_only_what_was_not_acknowledged(tmp_path):
    doomed = range(0, PROCESSES, 2)
    acknowledged = append_from_many(tmp_path / "journal", doomed)
    records = Journal(tmp_path / "journal").read()
    for who, least in enumerate(acknowledged):
        found = [record["n"] for record in records if record["who"] == who]
        assert found == list(range(len(found)))
        assert len(found) in ((least, least + 1) if who in doomed else (APPENDS,))
