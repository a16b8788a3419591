"""``gatewise compare``: what it prints and writes, how it ends, Ctrl-C, and its status."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import gatewise

ENVIRONMENT = os.environ | {
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": str(Path(gatewise.__file__).parents[1]),
}
SMALL = [
    "compare",
    "--units",
    "relu,leaky_relu",
    "--backbones",
    "mlp",
    "--data-option",
    "train=50",
    "--seeds",
    "2",
    "--tune",
    "none",
]
STUDY = """
title = "[red]small[/red]"
units = ["relu", "elu"]
seeds = 6
tune = false
evaluate_every = 2
[[backbones]]
name = "tiny"
model = "mlp"
options = { widths = [4] }
[[data]]
name = "digits"
options = { train = 40 }
[recipe]
epochs = 2
batch = 20
"""


def test_it_prints_a_table_and_a_second_time_does_nothing(run, tmp_path):
    result = run(*SMALL, "--epochs", 1, "--on", "here", "--out", tmp_path / "s")
    assert result.exit_code == 0, result.stderr
    assert "mlp: test accuracy in %" in result.stdout and "fewer than three seeds" in result.stdout
    assert "leaky_relu" in result.stdout and "baseline" in result.stdout
    assert result.stderr.splitlines()[-1].startswith("cells: 4/4 done")
    again = run(*SMALL, "--epochs", 1, "--on", "here", "--out", tmp_path / "s", "--json")
    last = json.loads(again.stderr.splitlines()[-1])
    assert again.exit_code == 0
    assert (last["event"], last["done"], last["total"]) == ("progress", 4, 4)
    found = json.loads(again.stdout)
    assert len(found["records"]) == 4 and found["blocks"][0]["comparison"]["baseline"] == "relu"


def test_a_file_is_run_and_its_words_are_printed_as_they_are(run, tmp_path):
    (tmp_path / "a.toml").write_text(STUDY)
    result = run("compare", tmp_path / "a.toml", "--on", "here", "--out", tmp_path / "s")
    assert (
        result.exit_code == 0
        and "[red]small[/red]" in result.stdout
        and "tiny: test accuracy" in result.stdout
    )
    counted = run("compare", "--status", "--out", tmp_path / "s", "--json")
    found = json.loads(counted.stdout)
    assert (found["total"], found["finished"], found["waiting"], found["driver"]) == (
        12,
        12,
        0,
        None,
    )
    assert "12 of 12 cells done" in run("compare", "--status", "--out", tmp_path / "s").stdout


def test_a_flag_replaces_a_key_of_the_file(run, tmp_path):
    (tmp_path / "a.toml").write_text(STUDY)
    words = [
        "compare",
        tmp_path / "a.toml",
        "--seeds",
        1,
        "--units",
        "relu,beta_vq:pieces=abs:beta=0.5",
        "--dry-run",
    ]
    plain, full = run(*words, "--out", tmp_path / "s").stdout.splitlines()
    assert plain == "Configuration OK: 2 runs."
    assert re.fullmatch(r"Time: about 0:0\d needed. From the start .* with --seeds 1.", full)
    assert not (tmp_path / "s").exists()


def test_a_dry_run_counts_the_runs_and_estimates_their_time(run, tmp_path):
    (tmp_path / "a.toml").write_text(STUDY)
    words = [
        "compare",
        tmp_path / "a.toml",
        "--tune",
        "quick",
        "--dry-run",
        "--out",
        tmp_path / "s",
    ]
    first, second = run(*words).stdout.splitlines()
    counts = (
        "30 runs to choose learning rates, 12 final runs, and at most 12 to confirm differences."
    )
    assert first == f"Configuration OK: {counts}"
    assert "with --tune none" in second and "with --seeds 3" in second
    found = json.loads(run(*words, "--json").stdout)
    assert found["planned"] == {"tuning": 30, "final": 12, "confirmation": 12}
    times = found["estimate"]
    assert 0 <= times["untuned"] <= times["left"] and times["fewer_seeds"] == 3
    assert not (tmp_path / "s").exists()
    full = run(*words, "--tune", "full").stdout
    assert "44 runs to choose learning rates" in full and "at most 24 to confirm" in full


@pytest.mark.parametrize("as_json", [False, True])
def test_the_cost_is_told_first_and_the_time_left_after_a_run_of_each_unit(run, tmp_path, as_json):
    (tmp_path / "a.toml").write_text(STUDY.replace("tune = false", "tune = {lr = [0.001, 0.01]}"))
    words = ["compare", tmp_path / "a.toml", "--seeds", 2, "--on", "here", "--out", tmp_path / "s"]
    result = run(*words, *(["--json"] if as_json else []))
    assert result.exit_code == 0, result.stderr
    lines = result.stderr.splitlines()
    if as_json:
        events = [json.loads(line) for line in lines]
        assert events[0] == {"event": "planned", "tuning": 20, "final": 4, "confirmation": 4}
        names = [event["event"] for event in events]
        assert names.count("planned") == names.count("estimate") == 1
        stages = [event["stage"] for event in events if event["event"] == "progress"]
        assert stages[0] == "tuning" and stages[-1] == "cells"
    else:
        counts = "20 runs to choose learning rates, 4 final runs, and at most 4 to confirm"
        assert lines[0] == f"Planned: {counts} differences."
        assert sum("left and at most" in line and "--tune none" in line for line in lines) == 1


def test_units_that_cannot_be_matched_are_named(run, tmp_path):
    text = STUDY.replace("seeds = 6", 'seeds = 2\nmatch = "parameters"').replace("[4]", "[2]")
    (tmp_path / "a.toml").write_text(text.replace('"elu"]', '"elu", "crelu"]'))
    words = ["compare", tmp_path / "a.toml", "--on", "here", "--out", tmp_path / "s"]
    said = "Left out: crelu in tiny: match: no widths of mlp come within 2.0%"
    assert said in run(*words, "--dry-run").stdout
    result = run(*words)
    assert result.exit_code == 0 and said in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    "words, said",
    [
        (["--units", "relu"], "nothing to compare"),
        (["--units", "relu,crellu"], "crellu in mlp: there is no unit of that name; got: 'crellu'"),
        (["--units", "relu,frelu"], "frelu in mlp: frelu cannot follow a linear layer"),
        (["--units", "relu,elu:alpha"], "allowed: KEY=VALUE"),
        (["--units", "relu,elu:alfa=1"], "alfa"),
        (["--backbones", "mlpp"], "did you mean 'mlp'?"),
        (["--data", "digit"], "did you mean 'digits'?"),
        (["--data-option", "trian=3"], "did you mean 'train'?"),
        (["--data-option", "train=1000000"], "train"),
        (["--seeds", "0"], "seeds is not allowed"),
        (["--baseline", "elu"], "baseline is not possible"),
        (["--match", "params"], "did you mean 'parameters'?"),
        (["--tune", "ful"], "did you mean 'full'?"),
        (["--margin", "-1"], "--margin is not allowed"),
        (["--margin", "0.5"], "0.005 for 0.5 points"),
        (["--recipe", "adm"], "did you mean 'adam'?"),
        (["--epochs", "0"], "epochs is not allowed"),
        (["--set", "optimiser.lrate=1"], "did you mean 'lr'?"),
        (["--on", "rya"], "did you mean 'ray'?"),
        (["--on", "here", "--workers", "-1"], "--workers is not allowed"),
        (["--tries", "0"], "--tries is not allowed"),
        (
            ["--data", "mnist", "--data-folder", "/nowhere", "--data-option", "train=9"],
            "not a folder",
        ),
    ],
)
def test_bad_input_is_one_line_and_exit_2_and_nothing_is_run(run, tmp_path, words, said):
    options = {
        **dict(zip(SMALL[1::2], SMALL[2::2], strict=True)),
        "--out": str(tmp_path / "s"),
        "--on": "here",
    }
    options |= dict(zip(words[::2], words[1::2], strict=True))
    result = run("compare", *(word for pair in options.items() for word in pair))
    assert result.exit_code == 2, (result.stdout, result.stderr, result.exception)
    assert (
        said in result.stderr
        and result.stderr.startswith("error: ")
        and result.stderr.count("\n") == 1
    )
    assert not (tmp_path / "s" / "cells").exists()


@pytest.mark.parametrize(
    "words, said",
    [
        ([], "name a study or units"),
        (["dmo"], "did you mean 'demo'?"),
        (["none.toml"], "the study cannot be read"),
        (["demo", "--epochs", "3"], "add --recipe NAME"),
        (["--status"], "there is no study in this folder"),
    ],
)
def test_a_study_that_is_not_there(run, tmp_path, words, said):
    result = run("compare", *words, "--out", tmp_path / "s")
    assert result.exit_code == 2 and said in result.stderr and not (tmp_path / "s").exists()


def test_a_failed_cell_is_exit_1_and_named(run, tmp_path, monkeypatch):
    from gatewise.studies.older import cell_work

    def failing(*_, **__):
        raise RuntimeError("no such kernel")

    monkeypatch.setattr(cell_work, "train", failing)
    result = run(*SMALL, "--on", "here", "--out", tmp_path / "s")
    assert result.exit_code == 1 and "failed, and left out: relu in mlp, seed 0" in result.stdout
    assert (
        "RuntimeError: no such kernel" in run("compare", "--status", "--out", tmp_path / "s").stdout
    )


@pytest.mark.thorough
def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path):
    """T7: once, while workers are at work; then the same command comes to the end."""
    (tmp_path / "a.toml").write_text(
        STUDY.replace("epochs = 2", "epochs = 20").replace("seeds = 6", "seeds = 1")
    )
    words = ["compare", str(tmp_path / "a.toml"), "--out", str(tmp_path / "s"), "--workers", "1"]
    command = [sys.executable, "-m", "gatewise", *words]
    with subprocess.Popen(
        command, env=ENVIRONMENT, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        journal = tmp_path / "s" / "journal.jsonl"
        while not journal.exists() or "started" not in journal.read_text():
            assert first.poll() is None, first.stderr.read()
            time.sleep(0.05)
        first.send_signal(signal.SIGINT)
        out, said = first.communicate(timeout=120)
    assert first.returncode == 130, said
    assert f"to resume: gatewise {' '.join(words)}" in said and "Traceback" not in said and not out
    second = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert second.returncode == 0 and "baseline" in second.stdout, second.stderr
