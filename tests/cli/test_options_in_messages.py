"""Options are named by the command line alone. What is below it speaks of keyword arguments."""

import re
from pathlib import Path

import pytest

import gatewise
import gatewise as gw
from gatewise.cli.options import as_options

SOURCE = Path(gatewise.__file__).parent
OPTION = re.compile(r"(?<=[\s\"'`(])--[a-z][a-z-]*")
OTHER_PROGRAMS = ("ray start --head",)


def test_no_part_below_the_command_line_names_an_option() -> None:
    named = []
    for path in sorted(SOURCE.rglob("*.py")):
        part = path.relative_to(SOURCE)
        if part.parts[0] == "cli":
            continue
        text = path.read_text("utf-8")
        for command in OTHER_PROGRAMS:
            text = text.replace(command, "")
        named += [f"{part}: {option}" for option in OPTION.findall(text)]
    assert named == []


OPTIONS = {
    name: f"--{name.replace('_', '-')}"
    for name in (
        "method",
        "mode",
        "rates",
        "seeds",
        "where",
        "preserve",
        "no_preserve",
        "norms",
        "value",
    )
}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name it: method=COLUMN", "name it: --method COLUMN"),
        ('say mode="max" or mode="min"', "say --mode max or --mode min"),
        ("rates=5, or rates=1 to compare", "--rates 5, or --rates 1 to compare"),
        ("rates=[0.001, 0.003]", "--rates 0.001,0.003"),
        ('value=["relu", "gelu"], mode="max"', "--value relu --value gelu --mode max"),
        ('where="*" to include it', "--where '*' to include it"),
        ("rates=4, seeds=8: 64 runs", "--rates 4 --seeds 8: 64 runs"),
        ("leave it out with where=", "leave it out with --where"),
        ("preserve=True", "--preserve"),
        ("preserve=False", "--no-preserve"),
        ("norms=False", "no --norms"),
        ("give step=my_step", "give step=my_step (an argument in Python)"),
        ("set the variable GATEWISE_DATA=/data", "set the variable GATEWISE_DATA=/data"),
    ],
)
def test_keyword_arguments_in_a_fix_are_printed_as_options(text, words) -> None:
    assert as_options(text, OPTIONS) == words


def test_an_option_of_a_unit_is_printed_as_the_command_takes_it() -> None:
    assert as_options("hidden='matched'", {"option": "--option"}) == "--option hidden=matched"
    assert as_options("put_back=True", {"option": "--option"}) == "--option put_back=true"


def test_the_fix_for_an_unknown_metric_is_an_option(run, tmp_path) -> None:
    table = tmp_path / "runs.csv"
    table.write_text("method,seed,joy\nrelu,0,1.0\ngelu,0,2.0\n")
    ended = run("stats", table)
    assert ended.exit_code == 2 and "fix: say --mode max or --mode min" in ended.stderr


def test_the_fix_of_a_table_without_methods_is_an_option_of_the_command(run, tmp_path) -> None:
    table = tmp_path / "runs.csv"
    table.write_text("score,other\n1.0,2\n2.0,3\n")
    ended = run("stats", table)
    assert ended.exit_code == 2 and "--method COLUMN" in ended.stderr


def test_the_fix_of_a_table_with_a_column_per_method_works(run, tmp_path) -> None:
    table = tmp_path / "wide.csv"
    table.write_text("seed,relu,gelu,note\n0,.90,.91,a\n1,.91,nan,b\n2,.90,.92,c\n3,.9,.93,d\n")
    ended = run("stats", table)
    said = " ".join(ended.stderr.split())
    assert ended.exit_code == 2
    assert "if each column is a method, --value relu --value gelu --mode max for a score" in said
    options = said.split("is a method, ")[1].split(" for a score")[0].split()
    assert run("stats", table, *options).exit_code == 0
    with pytest.raises(gw.GatewiseError, match=r'value=\["relu", "gelu"\], mode="max"'):
        gw.compare_records(table)
