"""T1 for two processes at one run: kill -9 of either or both.

Started again, they end in the bits of an unharmed pair.

One kill by default, of the process that only helps; with GATEWISE_FULL=1 also of the one that
leads, of both, and several in one run.
"""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch
from process_pairs import PATIENCE, last_words, start_pair
from small_runs import SAME

from gatewise.train.loop import read_result

EPOCHS = 20
slow = pytest.mark.slow
pytestmark = [
    pytest.mark.skipif(
        not torch.distributed.is_available(), reason="torch is built without distributed training"
    ),
    pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL"),
]


def start(out: Path) -> list[subprocess.Popen]:
    return start_pair(out, "--epochs", str(EPOCHS), "--checkpoint-seconds", "0.01")


def finish(out: Path) -> dict:
    """Let a pair come to its end; what must be the same for every run of this configuration."""
    both = start(out)
    ends = last_words(both)
    assert [process.returncode for process in both] == [0, 0], ends
    result = read_result(out).to_dict()
    return {name: result[name] for name in SAME}


def kill(out: Path, ranks: list[int], after: int) -> list[tuple[int, str]]:
    """Start a pair, kill ``ranks`` once ``after`` epochs are over.

    Exit codes and last words of the others.
    """
    both = start(out)
    wait_for_epoch(out, after, both)
    for rank in ranks:
        both[rank].send_signal(signal.SIGKILL)
    words = [said for _, said in last_words(both)]
    assert not (out / "result.json").exists(), "the kill came too late to say anything"
    return [(both[rank].returncode, words[rank]) for rank in range(2) if rank not in ranks]


def wait_for_epoch(out: Path, epoch: int, both: list[subprocess.Popen]) -> None:
    metrics, deadline = out / "metrics.jsonl", time.monotonic() + PATIENCE
    while not metrics.exists() or metrics.read_bytes().count(b"\n") < epoch:
        ended = [process.communicate() for process in both if process.poll() is not None]
        assert not ended and time.monotonic() < deadline, ended
        time.sleep(0.002)


@pytest.fixture(scope="module")
def unharmed(tmp_path_factory) -> dict:
    return finish(tmp_path_factory.mktemp("pair") / "run")


@pytest.mark.slow
@pytest.mark.parametrize(
    "kills",
    [
        pytest.param([[1]], id="helper"),
        pytest.param([[0]], id="leader", marks=slow),
        pytest.param([[0, 1]], id="both", marks=slow),
        pytest.param([[1], [0, 1], [0]], id="three-times", marks=slow),
    ],
)
def test_a_killed_pair_goes_on_to_the_same_bits(
    kills: list[list[int]], tmp_path: Path, unharmed: dict
):
    for number, ranks in enumerate(kills):
        for code, words in kill(tmp_path / "run", ranks, after=3 + 4 * number):
            assert (
                code == 1
                and "another process of this run has ended" in words
                and "Traceback" not in words
            )
    assert finish(tmp_path / "run") == unharmed
