"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

from gatewise.checks import check_number
from gatewise.errors import ArgumentError

Json = Annotated[bool, typer.Option("--json", help="Print JSON to stdout instead of text.")]
DataFolder = Annotated[
    str | None,
    typer.Option(
        "--data-folder",
        metavar="FOLDER",
        help="The folder of the data sets. Default: the environment variable GATEWISE_DATA.",
    ),
]
DataOptions = Annotated[
    list[str] | None,
    typer.Option("--data-option", metavar="KEY=VALUE", help="An option of the data set."),
]
Device = Annotated[
    str,
    typer.Option(
        metavar="cpu|cuda|cuda:N|mps|auto",
        help="Where to compute. `auto` takes the accelerator of this computer, if it has one. "
        "Tested on `cpu` only.",
    ),
]
Tokenizer = Annotated[
    Path | None,
    typer.Option(
        "--tokenizer",
        metavar="FILE",
        help="The tokenizer.json for text. Default: that next to an hf: configuration.",
    ),
]
Length = Annotated[
    int, typer.Option("--length", min=1, metavar="TOKENS", help="Tokens in a row of text.")
]
Epochs = Annotated[int | None, typer.Option(help="Number of epochs. Default: that of the recipe.")]
RecipeChanges = Annotated[
    list[str] | None,
    typer.Option(
        "--recipe-option",
        metavar="KEY=VALUE",
        help="Change one value of the recipe, for example `--recipe-option optimiser.lr=0.01`. "
        "Repeatable.",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Only check the configuration: read no data and write nothing."),
]
On = Annotated[
    str,
    typer.Option(
        metavar="PLACE",
        help="Where to run: `local` (processes of this computer), `ray` "
        "(a Ray cluster of this computer, or the one in RAY_ADDRESS), `ray:HOST:PORT` (a cluster "
        "that this computer is part of) or `ray://HOST:PORT` (Ray's client protocol).",
    ),
]
Shard = Annotated[
    str | None,
    typer.Option(
        metavar="I/N",
        help="Run the I-th of N parts of the plain grid into a file of its own, for example in a "
        "Slurm array. The same command without --shard joins the files and goes on.",
    ),
]
Workers = Annotated[int, typer.Option(help="Runs at the same time. 0: one for each core.")]


def check_least(option: str, number: float | None, least: int = 1) -> None:
    """Raise an error that names the option if its number is too small.

    Args:
        option: The option, as the user writes it.
        number: Its value, if there is one.
        least: The smallest number that is allowed.
    """
    if number is not None:
        check_number("gatewise", option, number, least=least)


def recipe_lines(changes: list[str] | None, epochs: int | None) -> list[str]:
    """Return ``--recipe-option`` and ``--epochs`` as lines of TOML. Other values are quoted."""
    from gatewise.train import parse

    lines = []
    for pair in changes or []:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip() or "\n" in pair:
            raise ArgumentError(
                "--recipe-option: expected a key and a value", got=pair, allowed="KEY=VALUE"
            )
        try:
            parse(f"x = {value}", "--recipe-option")
        except ArgumentError:
            escaped = value.replace("\\", "\\\\").replace('"', '\\"')
            value = f'"{escaped}"'
        lines.append(f"{key} = {value}")
    if epochs is not None:
        check_least("--epochs", epochs)
        lines.append(f"epochs = {epochs}")
    return lines
