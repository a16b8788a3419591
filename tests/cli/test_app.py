"""The command as a whole.

Help, version, exit codes, and errors that are one line and never a traceback.
"""

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from gatewise.errors import ContractError, GatewiseError
from gatewise.units.contract import FAMILIES, PAPERS

FULL_DEVICE = Path("/dev/full")
COMMANDS = (
    [],
    ["list", "units"],
    ["list", "data"],
    ["train"],
    ["reproduce"],
    ["doctor"],
)


def gatewise(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    clean = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")}
    return subprocess.run(
        [sys.executable, "-m", "gatewise.cli", *arguments],
        capture_output=True,
        encoding="utf-8",
        env=clean | environment,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: " ".join(c) or "gatewise")
def test_help_reads_well_and_has_an_example(run, command):
    result = run(*command, "--help")
    flat = " ".join(result.stdout.replace("│", " ").split())
    assert result.exit_code == 0 and max(map(len, result.stdout.splitlines())) <= 100
    assert f"gatewise {' '.join(command)}".strip() in flat
    assert ("Example: `gatewise" in flat) == bool(command)


def test_help_of_the_list_names_every_family_and_paper(run):
    text = run("list", "units", "--help").stdout
    assert all(name in text for name in (*FAMILIES, *PAPERS))


def test_a_bare_call_prints_the_help(run):
    result = run()
    assert "units" in result.output and "doctor" in result.output


def test_version(run):
    result = run("--version")
    assert result.exit_code == 0 and result.stdout.split() == [
        "gatewise",
        metadata.version("gatewise"),
    ]


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["list", "units", "rellu"], "did you mean 'relu'?"),
        (["list", "units", "--family", "sfot"], "did you mean 'soft'?"),
        (["reproduce", "deep_gated/figur1"], "did you mean 'deep_gated/figure1'?"),
        (["reproduce", "deep_gated/figure1", "--scale", "desks"], "did you mean 'desk'?"),
        (["reproduce", "deep_gated/figure1", "--seeds", "0"], "seeds must be a number of seeds"),
        (["reproduce"], "gatewise reproduce --list"),
        (["list", "units", "--paper", "crelo"], "did you mean 'crelu'?"),
        (["list", "units", "--plot", "relu.svg"], "--plot needs the name of a unit"),
        (["list", "units", "relu", "--plot", "relu.gif"], ".svg"),
        (["list", "units", ""], "there is no unit of that name"),
        (["list", "units", "x" * 5000], "there is no unit of that name"),
        (["list", "units", "[red]\x1b[31m"], "there is no unit of that name"),
    ],
)
def test_bad_input_is_one_line_with_a_remedy_and_exit_2(run, arguments, said):
    result = run(*arguments)
    assert result.exit_code == 2 and result.stdout == ""
    assert said in result.stderr and result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1 and "\x1b" not in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["list", "units", "--page", "nul\0.html"],
        ["list", "unit"],
        ["list", "units", "--familly", "soft"],
        ["doctor", "extra"],
        ["nothing"],
    ],
)
def test_usage_errors_are_exit_2(run, arguments):
    result = run(*arguments)
    assert result.exit_code == 2 and "Traceback" not in result.output


@pytest.mark.parametrize(
    "command",
    [
        ["list", "units", "--page"],
        ["list", "units", "relu", "--plot"],
    ],
)
@pytest.mark.parametrize(
    "place", ["folder.svg", "missing/a.svg", "file.txt/a.svg", "x" * 300 + ".svg"]
)
def test_a_place_that_cannot_be_written_is_exit_2_and_leaves_nothing(
    run, quick_measure, tmp_path, command, place
):
    (tmp_path / "folder.svg").mkdir()
    (tmp_path / "file.txt").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    result = run(*command, f"{tmp_path}/{place}")
    assert result.exit_code == 2 and result.stderr.startswith("error: ")
    assert isinstance(result.exception, SystemExit) and sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "file.txt").read_text() == "mine"


def test_a_folder_without_permission_is_exit_2_before_the_work(run, monkeypatch, tmp_path):
    monkeypatch.setattr("gatewise.cli.output.terminal.os.access", lambda *_: False)
    result = run("list", "units", "--page", tmp_path / "a.html")
    assert result.exit_code == 2 and "no permission to write" in result.stderr


@pytest.mark.parametrize(
    "error, code", [(GatewiseError("odd", got=1), 2), (ContractError("odd", got=1), 1)]
)
def test_our_errors_end_with_the_right_code(run, monkeypatch, error, code):
    def fail():
        raise error

    monkeypatch.setattr("gatewise.cli.commands.doctor.examine", fail)
    result = run("doctor")
    assert result.exit_code == code and result.stderr == "error: odd; got: 1\n"


@pytest.mark.slow
def test_as_a_process_errors_are_plain_and_output_is_clean():
    wrong = gatewise("list", "units", "rellu")
    assert (wrong.returncode, wrong.stdout) == (2, "") and wrong.stderr.count("\n") == 1
    listed = gatewise("list", "units", "--json")
    assert listed.returncode == 0 and listed.stderr == "" and json.loads(listed.stdout)


@pytest.mark.slow
def test_as_a_process_colour_can_be_forced_and_forbidden():
    assert "\x1b" in gatewise("list", "units", "rellu", FORCE_COLOR="1").stderr
    assert (
        "\x1b[31m" not in gatewise("list", "units", "rellu", FORCE_COLOR="1", NO_COLOR="1").stderr
    )


@pytest.mark.slow
def test_a_terminal_without_our_symbols_gets_others_instead_of_an_error():
    result = gatewise("list", "units", "crelu", PYTHONIOENCODING="ascii")
    assert result.returncode == 0 and "crelu" in result.stdout


@pytest.mark.slow
@pytest.mark.skipif(not FULL_DEVICE.exists(), reason="needs a device that is always full")
@pytest.mark.parametrize(
    "arguments", [["list", "units"], ["list", "units", "--json"], ["--version"], ["doctor"]]
)
def test_a_full_disc_is_one_line_and_exit_2(arguments):
    with FULL_DEVICE.open("w") as full:
        command = [sys.executable, "-m", "gatewise.cli", *arguments]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr.startswith("error: cannot write the output") and done.stderr.count("\n") == 1


def test_the_help_that_main_prints_is_that_of_the_application(run):
    from gatewise.cli.application import help_text

    for command in ([], ["compare"], ["list", "units"]):
        printed = run(*command, "--help").stdout  # the runner has a width of its own
        assert printed.split() == (help_text(command) or "").split()
    assert help_text(["nothing"]) is None
    assert help_text(["list", "units", "relu"]) is None


@pytest.mark.parametrize("command", [["compare", "--units", "relu,gelu"], ["train", "mlp"]])
def test_a_wrong_number_of_epochs_is_blamed_on_the_option(run, tmp_path, command):
    result = run(*command, "--epochs", -1, "--out", tmp_path / "out")
    assert result.exit_code == 2 and "--epochs is not allowed; got: -1" in result.stderr
    assert ".toml" not in result.stderr


def test_a_wrong_change_of_a_recipe_is_blamed_on_the_change(run, tmp_path):
    arguments = [
        "--units",
        "relu,gelu",
        "--recipe-option",
        "optimiser.lr=-1",
        "--out",
        tmp_path / "out",
    ]
    result = run("compare", "demo", *arguments)
    assert result.exit_code == 2 and "optimiser.lr is not allowed; got: -1" in result.stderr
    assert "line" not in result.stderr


@pytest.mark.parametrize(
    "word, near", [("diagnos", "diagnose"), ("nips", None), ("compere", "compare")]
)
def test_a_command_is_suggested_only_if_near(run, word, near):
    message = run(word).stderr
    assert (f"Did you mean '{near}'?" in message) if near else ("mean" not in message)
