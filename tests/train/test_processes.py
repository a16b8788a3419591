"""Two processes of one run, started by ``torchrun``, give the metrics of one process."""

import json
import os
import signal
import subprocess
import sys

import pytest
import torch
from process_pairs import last_words, start_pair

from gatewise.errors import ArgumentError
from gatewise.files import Journal, read_tensors
from gatewise.train.config import find_recipe, run_config
from gatewise.train.loop import ProcessGroup, joined
from gatewise.train.run import train

STEPS = 3 * 6  # 96 examples in batches of 16
# A gradient is a mean over 16 examples: added up in another order it differs by at most 16
# roundings of 2^-24, relative to its terms. Each step passes that on to the weights at a rate of
# 0.05, momentum makes it up to ten times as much.
TOLERANCE = STEPS * 16 * 10 * 0.05 * 2**-24


@pytest.mark.slow
@pytest.mark.skipif(
    not torch.distributed.is_available(), reason="torch is built without distributed training"
)
def test_two_processes_give_the_metrics_of_one(tmp_path):
    both = start_pair(tmp_path / "two", "--epochs", "3")
    ends = last_words(both)
    assert [process.returncode for process in both] == [0, 0], ends
    assert ends[1][0] == "" and json.loads(ends[0][0])["environment"]["processes"] == 2
    recipe = find_recipe(
        "sgd",
        changes=[
            "epochs = 3",
            "batch = 16",
            "optimiser.lr = 0.05",
            "schedule.warmup = 0",
            "weight_decay.value = 0.0",
        ],
    )
    options = {"model_options": {"widths": [4, 8], "norm": False}, "data_options": {"train": 96}}
    train(run_config(model="small_cnn", unit="crelu", recipe=recipe, **options), tmp_path / "one")
    one, two = (Journal(tmp_path / name / "metrics.jsonl").read() for name in ("one", "two"))
    for single, shared in zip(one, two, strict=True):
        assert shared == pytest.approx(single, rel=20 * TOLERANCE, abs=20 * TOLERANCE)
    ours, theirs = (
        read_tensors(tmp_path / name / "weights.safetensors")[0] for name in ("one", "two")
    )
    for name in ours:
        torch.testing.assert_close(theirs[name], ours[name], rtol=0.0, atol=TOLERANCE)


def test_one_process_is_a_crew_of_its_own(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with joined() as group:
        assert group == ProcessGroup(0, 1) and group.leads and group.totals([1.5, 2]) == [1.5, 2]


def test_an_environment_that_torchrun_did_not_set_is_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "two")
    with pytest.raises(ArgumentError, match="WORLD_SIZE is not a count"), joined():
        pass


# The command line lets SIGPIPE end the process. A write to a killed process sends that signal.
WRITES_TO_NOBODY = """
import os, signal
from torch import distributed
from gatewise.train.loop import joined

signal.signal(signal.SIGPIPE, signal.SIG_DFL)
distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
with joined():
    reader, writer = os.pipe()
    os.close(reader)
    try:
        os.write(writer, b"gradients")
    except BrokenPipeError:
        print("raised")
assert signal.getsignal(signal.SIGPIPE) == signal.SIG_DFL
distributed.destroy_process_group()
"""


@pytest.mark.skipif(
    not torch.distributed.is_available(), reason="torch is built without distributed training"
)
@pytest.mark.skipif(not hasattr(signal, "SIGPIPE"), reason="there is no SIGPIPE")
def test_a_write_to_a_killed_process_raises_instead_of_ending_this_one():
    ended = subprocess.run(
        [sys.executable, "-c", WRITES_TO_NOBODY],
        env=dict(os.environ, WORLD_SIZE="2"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, "raised\n"), ended.stderr
