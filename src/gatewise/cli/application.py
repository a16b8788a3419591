"""The ``gatewise`` command and what all its commands share."""

from typing import Annotated

import typer

from gatewise.cli.commands import (
    compare,
    data,
    diagnose,
    doctor,
    plan,
    report,
    reproduce,
    sites,
    swap,
    train,
    units,
)
from gatewise.cli.error_group import Group

HELP = """
The workbench for neural-network nonlinearities.

Start with `gatewise units` for the catalogue, `gatewise units show gelu` for one unit,
`gatewise diagnose MODEL` for what its gates do, `gatewise plan MODEL --unit crelu` to see what a swap takes,
`gatewise train` to train a network, `gatewise compare demo --out DIR` to compare units,
`gatewise reproduce --list` for the papers' figures, and `gatewise doctor` if something does not work.

Exit codes: 0 done, 1 a check failed, 2 bad input. Commands that read take `--json`.
"""

app = typer.Typer(
    name="gatewise",
    cls=Group,
    help=HELP,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"gatewise {doctor.own_version()}")
        raise typer.Exit


@app.callback()
def _gatewise(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass


app.add_typer(units.group, name="units")
app.command("sites")(sites.sites)
app.command("plan")(plan.plan)
app.command("swap")(swap.swap)
app.command("diagnose", cls=diagnose.DiagnoseCommand)(diagnose.diagnose)
app.command("data")(data.data)
app.command("train")(train.train)
app.command("compare")(compare.compare)
app.command("reproduce")(reproduce.reproduce)
app.command("report")(report.report)
app.command("doctor")(doctor.doctor)
