"""Every command that help, lists and errors tell a user to type is run."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import typer
from report.made_study import made_study, write_study

from gatewise.cli.application import HELP, app

NETWORK = """
import torch


def make():
    return torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(64, 8), torch.nn.ReLU(), torch.nn.Linear(8, 10)
    )
"""
# What stands for a user's own model, folder or study.
PLACES = {"MODEL": "small_cnn", "DIR": "folder"}
# Commands that train for minutes are checked until the first step.
TRAINING = ("compare", "train", "reproduce")
PRINTED = re.compile(
    r"gatewise (?:list|compare|diagnose|reproduce|train)(?: (?!or |lists )[^\s`;]+)+"
)
SMALL = {
    "compare": ("--units", "relu,silu", "--rates", "1"),
    "sparsify": ("--examples", "4"),
    "diagnose": ("--examples", "9", "--questions", "sites"),
}


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(NETWORK)
    rows = ["method,seed,accuracy"]
    for seed in range(5):
        rows += [f"relu,{seed},{seed / 10}", f"gelu,{seed},{seed / 10 + 1}"]
    Path("results.csv").write_text("\n".join(rows))
    np.save("x.npy", np.zeros((4, 1, 8, 8), np.float32))
    monkeypatch.setenv("HOME", str(tmp_path))
    Path("datasets").mkdir()
    write_study(tmp_path / "demo", made_study(3))
    return tmp_path


def every_command(group, path=()) -> Iterator[tuple[tuple[str, ...], object]]:
    context = typer.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if hasattr(command, "list_commands"):
            yield from every_command(command, (*path, name))
        else:
            yield (*path, name), command


def examples() -> list[str]:
    """The commands in the help of the program and of each command."""
    found = [
        re.split(r" {3,}", line.strip())[0] for line in HELP.splitlines() if "  gatewise" in line
    ]
    for path, command in every_command(typer.main.get_command(app)):
        shown = re.findall(r"Example: `(gatewise [^`]+)`", command.help)
        assert shown, f"the help of {' '.join(path)} has no example"
        found += shown
    return found


WORKED: set[str] = set()  # several places print the same command


def works(run, command: str) -> None:
    if command in WORKED:
        return
    program, *words = shlex.split(command)
    assert program == "gatewise"
    words = [PLACES.get(word, word).replace("~", str(Path.cwd())) for word in words]
    if words[0] in TRAINING:
        words.append("--cost" if words[0] == "reproduce" else "--dry-run")
    ended = run(*words, *SMALL.get(words[0], ()))
    assert ended.exit_code == 0, f"{command}\n{ended.output}"
    WORKED.add(command)


def cases() -> Iterator[object]:
    for command in examples():
        long = "doctor" in command or "--relu" in command
        yield pytest.param(command, marks=pytest.mark.slow) if long else command


@pytest.mark.parametrize("command", list(cases()))
def test_a_command_of_the_help_works(run, home, quick_measure, command) -> None:
    works(run, command)


@pytest.mark.parametrize(
    "words",
    [
        ("list", "units"),
        ("list", "models"),
        ("list", "recipes"),
        ("reproduce", "--list"),
        ("compare", "--out", "x"),
        ("compare", "net.py:make", "--out", "x"),
        ("diagnose", "small_cn", "--out", "x"),
    ],
    ids=" ".join,
)
def test_a_command_that_a_command_prints_works(
    run, home, quick_measure, monkeypatch, words
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    found = PRINTED.findall(run(*words).output)
    assert found
    for command in found:
        works(run, command.rstrip(",."))


def test_diagnose_of_random_numbers_names_commands_that_work(run, home) -> None:
    ended = run(
        "diagnose", "net.py:make", "--input", "2x1x8x8", "--out", "out", "--questions", "cost,gates"
    )
    assert ended.exit_code == 0, ended.output
    record = json.loads(Path("out/diagnosis.json").read_text())
    command = record["ask_all"].replace("YOUR_DATA", "digits")
    assert command.startswith("gatewise diagnose net.py:make --input")
    program, *words = shlex.split(command.removesuffix(" --questions all"))
    ended = run(*words, "--questions", "sites", "--out", "again", "--examples", "9")
    assert program == "gatewise" and ended.exit_code == 0, ended.output
