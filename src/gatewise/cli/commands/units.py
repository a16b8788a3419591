"""``gatewise list units``: list the units, or describe one."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gatewise.cli.commands import units_gallery, units_show
from gatewise.cli.options import Json
from gatewise.cli.output import console, print_json, print_rich, table
from gatewise.errors import ArgumentError, unknown_name

if TYPE_CHECKING:
    from gatewise.units import Unit

WIDTH_WITH_TITLES = 110  # columns of a terminal that shows the titles

Family = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="List only one family: max-affine, piecewise, soft, smooth, adaptive or context.",
    ),
]
Paper = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="List only the units of one paper: psc, maso, crelu, iieu or dgn."
    ),
]


Name = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="Describe this unit instead of listing all.")
]
PlotFile = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        metavar="FILE",
        help="With NAME: plot the function and its derivative to an .svg file.",
    ),
]
Page = Annotated[
    Path | None,
    typer.Option(
        "--page",
        metavar="FILE",
        help="Write an HTML page with formula, curve, properties and measured error of every unit.",
    ),
]


def units(
    name: Name = None,
    family: Family = None,
    paper: Paper = None,
    plot: PlotFile = None,
    page: Page = None,
    json: Json = False,
) -> None:
    """List the units (activation functions and gates), or describe one.

    The column `channels` is the number of output channels per input channel. `needs` is what a unit
    must know besides its input.

    Example: `gatewise list units --family soft --paper maso`
    """
    if name is None and plot is not None:
        raise ArgumentError("--plot needs the name of a unit", got=str(plot), fix="name a unit")
    if name is not None:
        if family or paper or page:
            raise ArgumentError(
                "--family, --paper and --page are for the list of all units",
                got=name,
                fix="leave out the name or these options",
            )
        return units_show.show(name, plot, json)
    if page is not None:
        return units_gallery.gallery(page)
    chosen = _choose(family, paper)
    if json:
        from gatewise.cli.output import record

        return print_json([record(unit) for unit in chosen])
    _print_table(chosen)


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
        hint = f"For details of one: gatewise list units {units[0].name}"
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
