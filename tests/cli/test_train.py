"""``gatewise train``: what it prints and writes, how it ends, and Ctrl-C (T7)."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import gatewise

SMALL = [
    "train",
    "small_cnn",
    "--unit",
    "crelu",
    "--set",
    "widths=[4, 8]",
    "--data-option",
    "train=96",
]
ENVIRONMENT = os.environ | {
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": str(Path(gatewise.__file__).parents[1]),
}


def test_it_trains_and_says_so_and_a_second_time_does_nothing(run, tmp_path):
    result = run(*SMALL, "--epochs", 2, "--out", tmp_path / "run")
    assert result.exit_code == 0 and "finished after 2 epochs and 4 steps" in result.stdout
    assert [line.split("  ")[0] for line in result.stderr.splitlines()] == [
        "epoch 1/2",
        "epoch 2/2",
    ]
    written = json.loads((tmp_path / "run" / "result.json").read_text())
    assert written["weights_sha256"] in result.stdout and written["metrics"]["epoch"] == 2
    again = run(*SMALL, "--epochs", 2, "--out", tmp_path / "run", "--json")
    assert again.exit_code == 0 and "already finished; nothing to do" in again.stderr
    assert json.loads(again.stdout)["weights_sha256"] == written["weights_sha256"]


def test_the_command_of_the_documentation_is_possible(run, tmp_path):
    words = "train convpool_cnn --unit crelu --data digits --epochs 3 --seed 0"
    result = run(*words.split(), "--dry-run", "--out", tmp_path / "run")
    assert result.exit_code == 0 and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "words, said",
    [
        (["small_cn"], "did you mean 'small_cnn'?"),
        (["--unit", "crellu"], "did you mean 'crelu'?"),
        (["--data", "digit"], "did you mean 'digits'?"),
        (["--recipe", "adm"], "did you mean 'adam'?"),
        (["--recipe-option", "optimiser.lrate=1"], "did you mean 'lr'?"),
        (["--recipe-option", "optimiser.lr"], "allowed: KEY=VALUE"),
        (["--recipe-option", "optimiser.name=adammm"], "did you mean 'adam'?"),
        (["--set", "width=3"], "did you mean 'widths'?"),
        (["--set", "widths=[100000000, 100000000]"], "does not fit into memory"),
        (["--set", "classes=7"], "these outputs do not go with cross_entropy"),
        (["--set", "channels=3"], "cannot read images"),
        (["--data-option", "train=1000000"], "train"),
        (["--epochs", "0"], "epochs is not allowed"),
        (["--seed", "-1"], "--seed is not allowed"),
        (["--loading-threads", "-1"], "--loading-threads is not allowed"),
        (["--checkpoint-seconds", "nan"], "--checkpoint-seconds is not allowed"),
        (["--sink", "tensorbord"], "did you mean 'tensorboard'?"),
        (["resnet", "--unit", "relu", "--set", "depth=13"], "depth"),
        (
            ["--data", "mnist", "--data-folder", "/nowhere", "--data-option", "classes=[4, 7]"],
            "not a folder",
        ),
        (
            ["--recipe", "iieu_cfg_1", "--epochs", "9"],
            "random_resized_crop is larger than the images",
        ),
    ],
)
def test_bad_input_is_one_line_with_a_remedy_and_exit_2_and_nothing_is_written(
    run, tmp_path, words, said
):
    model = "small_cnn"
    if len(words) % 2:
        model, *words = words
    options = {
        **dict(zip(SMALL[2::2], SMALL[3::2], strict=True)),
        "--epochs": "1",
        "--out": str(tmp_path / "run"),
    }
    if model == "resnet":
        options.pop("--set")
    options |= dict(zip(words[::2], words[1::2], strict=True))
    result = run("train", model, *(word for pair in options.items() for word in pair))
    assert result.exit_code == 2, (result.stdout, result.stderr, result.exception)
    assert (
        said in result.stderr
        and result.stderr.startswith("error: ")
        and result.stderr.count("\n") == 1
    )
    assert not (tmp_path / "run").exists()


NETWORK = """
from torch import nn

def make(width=12):
    return nn.Sequential(nn.Flatten(1), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))
"""


def test_the_users_own_network_is_trained_with_another_unit(run, tmp_path):
    import torch
    from safetensors.torch import load_file

    from gatewise.surgery import Plan

    (tmp_path / "net.py").write_text(NETWORK)
    words = [f"{tmp_path / 'net.py'}:make", "--set", "width=8", "--unit", "crelu", "--epochs", 2]
    words += ["--data-option", "train=96", "--keep-weights", 1, "--out", tmp_path / "run"]
    result = run("train", *words)
    assert result.exit_code == 0, result.output
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 2
    from gatewise.cli.options import load_model

    plan = Plan.from_json((tmp_path / "run" / "weights.plan.json").read_text())
    network = plan.apply(load_model(words[0], {"width": 8}))
    network.load_state_dict(load_file(tmp_path / "run" / "weights.safetensors"))
    assert network(torch.zeros(1, 64)).shape == (1, 10)
    assert network[1].out_features == 4  # half of the original's: without the plan nothing fits
    inputs = ["--data", "digits", "--examples", 9, "--questions", "sites", "--out", tmp_path / "d"]
    for option in ("--weights", "--checkpoints"):
        weights = tmp_path / "run" / ("weights.safetensors" if option == "--weights" else "")
        looked = run("diagnose", *words[:3], option, weights, *inputs)
        assert looked.exit_code == 0, looked.output
    assert "already finished" in run("train", *words).stderr
    other = run("train", *words, "--seed", 1)
    assert other.exit_code == 2 and not other.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["net.py:none"], "has no function of that name"),
        (["net.py:make", "--set", "wide=3"], "wide"),
        (["net.py:make", "--set", "optimiser.lr=3"], "KEY=VALUE"),
        (["net.py:make", "--unit", "crellu"], "did you mean 'crelu'?"),
        (["net.py:make", "--data", "signals.npz"], "--test FILE.npz"),
        (["net.py:make", "--seed", "-1"], "--seed is not allowed"),
    ],
)
def test_bad_input_for_an_own_network_is_refused(run, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(NETWORK)
    result = run("train", *words, "--out", "run")
    assert result.exit_code == 2 and said in result.stderr and not Path("run").exists()


def test_divergence_is_exit_1_with_the_result_written(run, tmp_path):
    result = run(
        *SMALL, "--epochs", 1, "--recipe-option", "diverged_above=0.1", "--out", tmp_path / "run"
    )
    assert result.exit_code == 1 and "the run diverged: the loss is" in result.stderr
    assert json.loads((tmp_path / "run" / "result.json").read_text())["status"] == "diverged"


def test_a_disc_that_fails_is_exit_1_and_one_line(run, tmp_path, monkeypatch):
    def full(self, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    result = run(*SMALL, "--epochs", 1, "--out", tmp_path / "run")
    assert result.exit_code == 1 and "No space left on device" in result.stderr
    assert result.stderr.count("\n") == 1 and "free some space" in result.stderr


@pytest.mark.parametrize("name", ["tensorboard", "mlflow"])
def test_a_sink_whose_package_is_missing_says_how_to_have_it(run, tmp_path, name, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard.writer", None)
    result = run(*SMALL, "--epochs", 1, "--sink", name, "--out", tmp_path / "run")
    assert result.exit_code == 2 and f"pip install '{name}" in result.stderr
    assert not (tmp_path / "run").exists()


class Terminal:
    """The command on a terminal of its own, endless: it would train for days."""

    def __init__(self, out: Path) -> None:
        self.screen, inside = pty.openpty()
        command = [
            sys.executable,
            "-m",
            "gatewise.cli",
            *SMALL,
            "--epochs",
            "100000",
            "--out",
            str(out),
        ]
        self.process = subprocess.Popen(
            command,
            stdin=inside,
            stdout=inside,
            stderr=inside,
            env=ENVIRONMENT,
            start_new_session=True,
        )
        os.close(inside)
        self.shown = ""

    def read_until(self, words: str, seconds: float = 60) -> float:
        """Read until the words are shown or the command is over; how long that took."""
        begin = time.monotonic()
        while words not in self.shown:
            assert time.monotonic() - begin < seconds, self.shown[-500:]
            try:
                self.shown += os.read(self.screen, 65536).decode(errors="replace")
            except OSError:  # the other end is closed
                break
        return time.monotonic() - begin

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def close(self) -> None:
        with suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        os.close(self.screen)


@pytest.mark.slow
def test_ctrl_c_once_saves_and_says_how_to_go_on_and_twice_ends_at_once(tmp_path):
    """T7. A process that does not end fails the test by the time limit of ``wait``."""
    terminal = Terminal(tmp_path / "run")
    try:
        terminal.read_until(" left")  # a line with the time left is drawn while it trains
        assert "examples/s" in terminal.shown and "\r" in terminal.shown
        terminal.interrupt()
        terminal.read_until("to resume: gatewise train")
        terminal.process.wait(60)
        assert terminal.process.returncode == 130 and "stopping after this step" in terminal.shown
        assert any("checkpoint" in path.name for path in (tmp_path / "run").iterdir())
    finally:
        terminal.close()
    terminal = Terminal(tmp_path / "run")
    try:
        terminal.read_until("resuming after step")
        terminal.read_until(" left")
        terminal.interrupt()
        terminal.read_until("stopping after this step")
        terminal.interrupt()
        terminal.process.wait(60)
        assert terminal.process.returncode in (
            -signal.SIGINT,
            130,
        )  # ended by the second, or just done with the first
    finally:
        terminal.close()
