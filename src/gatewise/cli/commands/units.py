"""``gatewise units``: list the units."""

from typing import TYPE_CHECKING, Annotated

import typer

from gatewise.cli.commands import units_errors, units_gallery, units_show, units_vectors
from gatewise.cli.error_group import Group
from gatewise.cli.options import Json
from gatewise.cli.output import console, print_json, print_rich, table
from gatewise.errors import ArgumentError, unknown_name

if TYPE_CHECKING:
    from gatewise.units import Unit

group = typer.Typer(cls=Group, invoke_without_command=True, rich_markup_mode=None)

WIDTH_WITH_TITLES = 110  # columns of a terminal that shows the titles

Family = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="List only one family: max-affine, soft, smooth, adaptive or context."
    ),
]
Paper = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="List only the units of one paper: psc, maso, crelu, iieu or dgn."
    ),
]


@group.callback()
def units(
    ctx: typer.Context,
    family: Family = None,
    paper: Paper = None,
    json: Json = False,
) -> None:
    """List the units (activation functions and gates), or describe one with `show`.

    The column `channels` is the number of output channels per input channel. `needs` is what a unit
    must know besides its input.

    Example: `gatewise units --family soft --paper maso`
    """
    if ctx.invoked_subcommand:
        return _refuse_options(ctx.invoked_subcommand, family, paper, json)
    chosen = _choose(family, paper)
    if json:
        from gatewise.cli.output import record

        return print_json([record(unit) for unit in chosen])
    _print_table(chosen)


def _refuse_options(
    command: str,
    family: str | None,
    paper: str | None,
    json: bool,
) -> None:
    """Raise an error for options that were written before a subcommand."""
    options = {"--family": family, "--paper": paper, "--json": json}
    misplaced = [name for name, value in options.items() if value]
    if misplaced:
        raise ArgumentError(
            f"{misplaced[0]} before {command!r} is an option of the list of units",
            got=" ".join(misplaced),
            fix=f"write options after the command: gatewise units {command} ...",
        )


def _choose(family: str | None, paper: str | None) -> list["Unit"]:
    """Return the units of ``family`` and ``paper``, in the order of the catalogue."""
    from gatewise.units import FAMILIES, PAPERS
    from gatewise.units import registered_units as all_units

    if family is not None and family not in FAMILIES:
        raise unknown_name("family", family, FAMILIES)
    if paper is not None and paper not in PAPERS:
        raise unknown_name("paper", paper, PAPERS)
    chosen = []
    for unit in all_units().values():
        if family in (None, unit.family) and (paper is None or paper in unit.studied_in):
            chosen.append(unit)
    return chosen


def _print_table(units: list["Unit"]) -> None:
    """Print the units. Titles are left out on a narrow terminal."""
    whole = ("name", "family", "channels", "needs")
    columns = ("name", "family", "title", "trainable", "channels", "needs", "papers")
    if console().width < WIDTH_WITH_TITLES:
        columns = ("name", "family", "trainable", "channels", "needs", "papers")
    rows = table(*columns, right=["channels"], whole=whole)
    for unit in units:
        cells = _cells(unit)
        rows.add_row(*(cells[name] for name in columns))
    hint = "Try without --family or --paper."
    if units:
        hint = f"For details of one: gatewise units show {units[0].name}"
    print_rich(rows, f"{len(units)} unit{'' if len(units) == 1 else 's'}. {hint}")


def _cells(unit: "Unit") -> dict[str, str]:
    """Return the cells of a unit, by column."""
    from gatewise.cli.output import channels
    from gatewise.report import join

    return {
        "name": unit.name,
        "family": unit.family,
        "title": unit.title,
        "trainable": join(list(unit.parameters), "-"),
        "channels": channels(unit),
        "needs": join(unit.needs, "-"),
        "papers": join(unit.studied_in, "-"),
    }


group.command("show")(units_show.show)
group.command("gallery")(units_gallery.gallery)
group.command("errors")(units_errors.errors)
group.command("vectors")(units_vectors.vectors)
