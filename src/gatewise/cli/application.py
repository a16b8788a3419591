"""The ``gatewise`` command line application, with all its commands."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from gatewise.cli.commands import (
    compare,
    diagnose,
    doctor,
    explore,
    inspect,
    listing,
    report,
    sparsify,
    stats,
    swap,
    train,
)
from gatewise.cli.error_group import Group

HELP = """
Find, swap and compare activation functions in PyTorch models.

\b
First steps:
  gatewise list units                list the activation functions
  gatewise list units gelu           describe one
  gatewise diagnose MODEL            measure what the activations of a model do
  gatewise swap MODEL --unit crelu --dry-run   preview a swap
  gatewise compare demo --out DIR    compare activation functions by training
  gatewise stats results.csv         compare methods by runs that you already have
  gatewise explore                   write a page with two small networks to play with

MODEL is, for example, `torchvision:resnet18` or `file.py:function`.

Exit codes: 0 success, 1 a check failed, 2 invalid input, 130 interrupted (Ctrl+C).
After 130, run the same command again: `train` and `compare` resume.
"""

MODELS = "Models"
TRAINING = "Training and comparing"
REFERENCE = "Reference and setup"
SETTINGS: dict[str, Any] = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": 100,  # columns of the help
}

app = typer.Typer(
    name="gatewise",
    cls=Group,
    help=HELP,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # plain text: rich takes longer to import than everything else
    pretty_exceptions_enable=False,
    context_settings=SETTINGS,
)


def help_text(names: Sequence[str]) -> str | None:
    """Return the help of a command, or None if there is no such command.

    The arguments are not parsed: typer would import pydantic for that.

    Args:
        names: The command, for example ``["list", "units"]``. Nothing for the whole program.
    """
    command: Any = typer.main.get_command(app)
    context = typer.Context(command, info_name="gatewise", **SETTINGS)
    for name in names:
        find = getattr(command, "get_command", None)
        command = find(context, name) if find else None
        if command is None:
            return None
        context = typer.Context(command, parent=context, info_name=name)
    return command.get_help(context)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"gatewise {doctor.own_version()}")
        raise typer.Exit


@app.callback()
def _gatewise(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version and exit.",
        ),
    ] = False,
) -> None:
    from gatewise.native import tune_allocator

    tune_allocator()


app.command("diagnose", rich_help_panel=MODELS)(diagnose.diagnose)
app.command("inspect", rich_help_panel=MODELS)(inspect.inspect)
app.command("swap", rich_help_panel=MODELS)(swap.swap)
app.command("sparsify", rich_help_panel=MODELS)(sparsify.sparsify)
app.command("train", rich_help_panel=TRAINING)(train.train)
app.command("compare", rich_help_panel=TRAINING)(compare.compare)
app.command("stats", rich_help_panel=TRAINING)(stats.stats)
app.command("report", rich_help_panel=TRAINING)(report.report)
app.add_typer(listing.group, name="list", rich_help_panel=REFERENCE)
app.command("explore", rich_help_panel=REFERENCE)(explore.explore)
app.command("doctor", rich_help_panel=REFERENCE)(doctor.doctor)
