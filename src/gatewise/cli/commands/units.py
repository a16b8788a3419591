"""``gatewise units``: the catalogue as a table."""

from typing import TYPE_CHECKING, Annotated

import typer

from gatewise.cli.commands import units_errors, units_gallery, units_show
from gatewise.cli.error_group import Group
from gatewise.cli.output import console, print_json, print_rich, table
from gatewise.errors import ArgumentError, unknown_name

if TYPE_CHECKING:
    from gatewise.units import Unit

group = typer.Typer(cls=Group, invoke_without_command=True, rich_markup_mode="markdown")

TITLE_FROM = 110  # columns a terminal must have for the titles to fit

Family = Annotated[
    str | None, typer.Option(help="Only one family: max-affine, soft, smooth, adaptive or context.")
]
Paper = Annotated[
    str | None, typer.Option(help="Only units studied in one paper: psc, maso, crelu, iieu or dgn.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@group.callback()
def units(
    ctx: typer.Context, family: Family = None, paper: Paper = None, json: Json = False
) -> None:
    """List the units: what there is, what each learns and what it needs.

    `channels` is output channels for each input channel; `needs` is what a unit must know besides
    its input.

    Example: `gatewise units --family soft --paper maso`
    """
    if ctx.invoked_subcommand:
        return _refuse_options(ctx.invoked_subcommand, family, paper, json)
    found = _choose(family, paper)
    if json:
        from gatewise.cli.output import record

        return print_json([record(unit) for unit in found])
    _print_table(found)


def _refuse_options(command: str, family: str | None, paper: str | None, json: bool) -> None:
    given = [
        name
        for name, value in (("--family", family), ("--paper", paper), ("--json", json))
        if value
    ]
    if given:
        raise ArgumentError(
            f"{given[0]} before {command!r} belongs to the list of units",
            got=" ".join(given),
            fix=f"write options after the command: gatewise units {command} ...",
        )


def _choose(family: str | None, paper: str | None) -> list["Unit"]:
    """The units of ``family`` and ``paper``, in the catalogue's order."""
    from gatewise.units import FAMILIES, PAPERS
    from gatewise.units import registered_units as all_units

    if family is not None and family not in FAMILIES:
        raise unknown_name("family", family, FAMILIES)
    if paper is not None and paper not in PAPERS:
        raise unknown_name("paper", paper, PAPERS)
    return [
        unit
        for unit in all_units().values()
        if family in (None, unit.family) and (paper is None or paper in unit.studied_in)
    ]


def _print_table(found: list["Unit"]) -> None:
    whole = ("name", "family", "channels", "needs")
    columns = ("name", "family", "title", "learns", "channels", "needs", "papers")
    if console().width < TITLE_FROM:
        columns = tuple(name for name in columns if name != "title")
    rows = table(*columns, right=["channels"], whole=whole)
    for unit in found:
        cells = _cells(unit)
        rows.add_row(*(cells[name] for name in columns))
    hint = (
        f"One of them in full: gatewise units show {found[0].name}"
        if found
        else "Try without --family or --paper."
    )
    print_rich(rows, f"{len(found)} unit{'' if len(found) == 1 else 's'}. {hint}")


def _cells(unit: "Unit") -> dict[str, str]:
    from gatewise.cli.output import channels
    from gatewise.report import join

    return {
        "name": unit.name,
        "family": unit.family,
        "title": unit.title,
        "learns": join(list(unit.parameters), "-"),
        "channels": channels(unit),
        "needs": join(unit.needs, "-"),
        "papers": join(unit.studied_in, "-"),
    }


group.command("show")(units_show.show)
group.command("gallery")(units_gallery.gallery)
group.command("errors")(units_errors.errors)
