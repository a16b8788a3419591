"""``gatewise compare``: what it prints and writes, how it ends, Ctrl-C, and its status."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

import gatewise

ENVIRONMENT = os.environ | {
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": str(Path(gatewise.__file__).parents[1]),
}
NETWORK = """
from torch import nn

def make():
    return nn.Sequential(nn.Flatten(1), nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 10))
"""
SMALL = ["--units", "silu", "--seeds", 3, "--rates", 4, "--epochs", 1]
STUDY = """
title = "[red]small[/red]"
units = ["silu"]
seeds = 3
rates = 4
data = { name = "digits", options = { train = 40 } }
[[models]]
name = "tiny"
model = "mlp"
options = { widths = [4] }
[recipe]
base = "adam"
epochs = 1
batch = 20
"""


@pytest.fixture
def network(tmp_path: Path) -> str:
    (tmp_path / "net.py").write_text(NETWORK)
    return f"{tmp_path / 'net.py'}:make"


def test_the_users_own_network_is_compared_and_a_second_time_does_nothing(run, network, tmp_path):
    words = ["compare", network, "--data", "digits", "--data-option", "train=60", *SMALL]
    first = run(*words, "--out", tmp_path / "s")
    assert first.exit_code == 0, first.output
    for part in ("original", "silu", "accuracy in %", "study.jsonl", "report.html"):
        assert part in first.stdout
    assert "recipe: adam, 1 epoch in batches of 64; learning rates around 0.003" in first.stderr
    cost = next(line for line in first.stderr.splitlines() if "learning rates (" in line)
    assert "2 units x 4 learning rates" in cost and "24 to 36 runs, 24 as planned" in cost
    header, *records = (tmp_path / "s" / "study.jsonl").read_text().splitlines()
    assert json.loads(header)["models"] == ["make"] and len(records) >= 24
    again = run(*words, "--out", tmp_path / "s", "--json")
    assert again.exit_code == 0 and " of " not in again.stderr.splitlines()[-1]
    assert len(json.loads(again.stdout)["records"]) == len(records)
    status = json.loads(run("compare", "--status", "--out", tmp_path / "s", "--json").stdout)
    assert status["done"] + status["diverged"] >= len(records) and status["driver"] is None
    assert "have ended" in run("compare", "--status", "--out", tmp_path / "s").stdout


WRITTEN_OUT = """
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(64, 12), nn.Linear(12, 12), nn.Linear(12, 10)

    def forward(self, x):
        return self.c(self.b(nn.functional.relu(self.a(x.flatten(1)))).clamp(min=0))

def make():
    return Net()
"""


def test_an_activation_that_the_network_writes_out_is_said_to_stay(run, tmp_path):
    (tmp_path / "net.py").write_text(WRITTEN_OUT)
    words = ["compare", f"{tmp_path / 'net.py'}:make", "--data", "digits"]
    ended = run(*words, "--data-option", "train=60", *SMALL, "--out", tmp_path / "s")
    assert ended.exit_code == 0, ended.output
    left = "ReLU (written as clamp, in the model)"
    assert f"left as it is in make: {left}" in ended.stderr
    assert f"make: left as it is with every unit: {left}." in " ".join(ended.stdout.split())
    header = json.loads((tmp_path / "s" / "study.jsonl").read_text().splitlines()[0])
    assert header["as_written"] == [{"model": "make", "activations": left}]
    page = (tmp_path / "s" / "report.html").read_text()
    assert f"make: left as it is with every unit: {left}." in page


def test_arrays_and_functions_are_data_too(run, network, tmp_path):
    found = load_digits()
    for name, part in (("train", slice(0, 60)), ("test", slice(60, 120))):
        images = found.images[part].astype(np.float32) / 16
        np.savez(tmp_path / f"{name}.npz", x=images, y=found.target[part])
    words = ["compare", network, *SMALL, "--dry-run", "--json", "--out", tmp_path / "s"]
    arrays = run(*words, "--data", tmp_path / "train.npz", "--test", tmp_path / "test.npz")
    assert arrays.exit_code == 0, arrays.output
    assert json.loads(arrays.stdout)["runs"] == {"racing": 24, "planned": 24, "widened": 36}
    (tmp_path / "pairs.py").write_text(
        "import torch\ndef pairs():\n"
        "    part = torch.randn(40, 1, 8, 8), torch.randint(0, 10, (40,))\n    return part, part\n"
    )
    assert run(*words, "--data", f"{tmp_path / 'pairs.py'}:pairs").exit_code == 0
    assert not (tmp_path / "s").exists()


def test_the_unit_that_the_network_has_is_trained_once(run, network, tmp_path):
    words = ["--data", "digits", "--units", "relu,silu", "--dry-run", "--out", tmp_path / "s"]
    told = run("compare", network, *words)
    assert told.exit_code == 0 and "2 units x 5 learning rates" in told.stderr
    assert "left out of make: relu: the same network as original" in told.stderr
    assert "with fewer: --rates 4 --seeds 8: " in told.stderr
    only = run("compare", network, *words[:2], "--units", "relu", *words[4:])
    assert only.exit_code == 2 and "the same network as original" in only.stderr


def test_naming_the_default_recipe_changes_nothing(run, network, tmp_path):
    words = ["--data", "digits", "--units", "silu", "--dry-run", "--out", tmp_path / "s"]
    told = []
    for named in ((), ("--recipe", "adam")):
        lines = run("compare", network, *words, *named).stderr.splitlines()
        told.append([line.split(" seeds: ")[0] for line in lines[:3]])
    assert told[0] == told[1]
    assert told[0][0].endswith("learning rates around 0.003")
    set_rate = ("--recipe", "adam", "--recipe-option", "optimiser.lr=0.01")
    assert "learning rates around 0.01" in run("compare", network, *words, *set_rate).stderr


def test_options_of_the_network_are_set(run, tmp_path):
    (tmp_path / "net.py").write_text(NETWORK.replace("make()", "make(width=12)"))
    words = ["--data", "digits", "--units", "silu", "--dry-run", "--out", tmp_path / "s"]
    named = f"{tmp_path / 'net.py'}:make"
    assert run("compare", named, "--set", "width=20", *words).exit_code == 0
    wrong = run("compare", named, "--set", "wide=20", *words)
    assert wrong.exit_code == 2 and "wide" in wrong.stderr


def test_a_file_is_run_and_a_flag_replaces_a_key_of_it(run, tmp_path):
    (tmp_path / "a.toml").write_text(STUDY)
    result = run("compare", tmp_path / "a.toml", "--out", tmp_path / "s")
    assert result.exit_code == 0, result.output
    assert "[red]small[/red]" in result.stdout and "tiny" in result.stdout
    other = run(
        "compare", tmp_path / "a.toml", "--units", "gelu,elu", "--dry-run", "--out", tmp_path / "t"
    )
    assert "3 units x 4 learning rates" in other.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name a network or a study"),
        (["mlp"], "needs --units and --data"),
        (["nonsense"], "there is no model or study of that name"),
        (["mlp", "--units", "silu", "--data", "nonsense"], "there is no data set, file or folder"),
        (["mlp", "--units", "silu", "--data", "a.npz"], "needs a test set"),
        (["demo", "--rates", "3"], "four learning rates"),
        (["demo", "--rates", "0.1,x"], "rates with commas"),
        (["demo", "--seeds", "1"], "seeds"),
        (["demo", "--workers", "0"], "workers is not allowed"),
        (["demo", "--threads", "-1"], "threads is not allowed"),
        (["demo", "--time-limit", "-1"], "time_limit is not allowed"),
        (["demo", "--on", "slurm", "--dry-run"], "allowed: local, ray, ray:HOST:PORT or ray://"),
        (["demo", "--shard", "3/2", "--dry-run"], "allowed: i/n"),
        (["demo", "--set", "width=3"], "copy the study to a file"),
        (["missing.toml"], "cannot be read"),
    ],
)
def test_what_cannot_work_is_refused_with_a_remedy(run, tmp_path, words, said):
    result = run("compare", *words, "--out", tmp_path / "s")
    assert result.exit_code == 2 and said in " ".join(result.output.split())
    assert not (tmp_path / "s").exists()


def test_shards_write_files_of_their_own_and_are_joined(run, tmp_path):
    (tmp_path / "a.toml").write_text(STUDY)
    words = ["compare", tmp_path / "a.toml", "--out", tmp_path / "s"]
    for part in ("1/2", "2/2"):
        told = run(*words, "--shard", part).stdout
    assert "the study asks for" in told
    assert not (tmp_path / "s" / "report.html").exists()
    whole = run(*words)
    assert whole.exit_code == 0 and (tmp_path / "s" / "report.html").exists()
    assert run(*words, "--shard", "3/2").exit_code == 2


def test_ctrl_c_saves_and_the_same_command_goes_on(run, tmp_path):
    (tmp_path / "a.toml").write_text(STUDY.replace("epochs = 1", "epochs = 3"))
    command = [sys.executable, "-m", "gatewise", "compare", str(tmp_path / "a.toml")]
    command += ["--out", str(tmp_path / "s")]
    process = subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
    with process:
        for line in process.stderr:
            if line.startswith("2 of "):
                break
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert process.returncode == 130 and "stopping and saving" in rest
    from gatewise.studies import StudyFile

    before = StudyFile(tmp_path / "s").records()
    assert 2 <= len(before) < 24
    done = run(*command[3:])
    assert done.exit_code == 0, done.stderr
    after = StudyFile(tmp_path / "s").records()
    assert {key: after[key] for key in before} == before
