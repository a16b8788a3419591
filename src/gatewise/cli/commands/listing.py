"""``gatewise list``: the units, networks, data sets and recipes that have a name."""

import typer

from gatewise.cli.commands import data, models, recipes, units
from gatewise.cli.error_group import Group

group = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="List units, networks, data sets or recipes, or describe one unit.",
)
group.command("units")(units.units)
group.command("models")(models.models)
group.command("data")(data.data)
group.command("recipes")(recipes.recipes)
