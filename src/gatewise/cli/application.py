"""The ``gatewise`` command line application, with all its commands."""

from typing import Annotated

import typer

from gatewise.cli.commands import (
    bench,
    compare,
    data,
    diagnose,
    doctor,
    explore,
    identify,
    models,
    plan,
    recipes,
    report,
    reproduce,
    sites,
    sparsify,
    stats,
    swap,
    train,
    units,
)
from gatewise.cli.error_group import Group

HELP = """
Find, swap and compare activation functions in PyTorch models.

First steps:

- `gatewise units` lists the activation functions, and `gatewise units show gelu` describes one.

- `gatewise diagnose MODEL` measures what the activations of a model do.

- `gatewise plan MODEL --unit crelu` previews a swap, and `gatewise swap` makes it.

- `gatewise compare demo --out DIR` compares activation functions by training.

- `gatewise stats results.csv` compares methods by runs that you already have.

- `gatewise explore` writes a page on which you drag activation functions of small networks.

- `gatewise doctor` checks the installation.

MODEL is, for example, `torchvision:resnet18` or `file.py:function`.

Exit codes: 0 success, 1 a check failed, 2 invalid input, 130 interrupted (Ctrl+C).
After 130, run the same command again: `train`, `compare` and `reproduce` resume.
"""

MODELS = "Models"
TRAINING = "Training and comparing"
REFERENCE = "Reference and setup"

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
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version and exit.",
        ),
    ] = False,
) -> None:
    pass


app.command("diagnose", cls=diagnose.DiagnoseCommand, rich_help_panel=MODELS)(diagnose.diagnose)
app.command("sites", rich_help_panel=MODELS)(sites.sites)
app.command("identify", rich_help_panel=MODELS)(identify.identify)
app.command("plan", rich_help_panel=MODELS)(plan.plan)
app.command("swap", rich_help_panel=MODELS)(swap.swap)
app.command("sparsify", rich_help_panel=MODELS)(sparsify.sparsify)
app.command("train", rich_help_panel=TRAINING)(train.train)
app.command("compare", rich_help_panel=TRAINING)(compare.compare)
app.command("stats", rich_help_panel=TRAINING)(stats.stats)
app.command("report", rich_help_panel=TRAINING)(report.report)
app.command("reproduce", rich_help_panel=TRAINING)(reproduce.reproduce)
app.add_typer(units.group, name="units", rich_help_panel=REFERENCE)
app.command("models", rich_help_panel=REFERENCE)(models.models)
app.command("recipes", rich_help_panel=REFERENCE)(recipes.recipes)
app.command("data", rich_help_panel=REFERENCE)(data.data)
app.command("bench", rich_help_panel=REFERENCE)(bench.bench)
app.command("explore", rich_help_panel=REFERENCE)(explore.explore)
app.command("doctor", rich_help_panel=REFERENCE)(doctor.doctor)
