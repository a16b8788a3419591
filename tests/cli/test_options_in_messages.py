"""Options are named by the command line alone. What is below it speaks of keyword arguments."""

import re
from pathlib import Path

import gatewise
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


def test_keyword_arguments_in_an_error_are_printed_as_options() -> None:
    assert as_options("fix: name it: method=COLUMN") == "fix: name it: --method COLUMN"
    assert as_options("set allow_inexact=True") == "set --allow-inexact"
    assert (
        as_options("got: alpha=0.5, GATEWISE_DATA=/data") == "got: alpha=0.5, GATEWISE_DATA=/data"
    )


def test_the_fix_of_a_table_without_methods_is_an_option_of_the_command(run, tmp_path) -> None:
    table = tmp_path / "runs.csv"
    table.write_text("score,other\n1.0,2\n2.0,3\n")
    ended = run("stats", table)
    assert ended.exit_code == 2 and "--method COLUMN" in ended.stderr
