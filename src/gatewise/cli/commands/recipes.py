"""``gatewise list recipes``: list the training recipes."""

from gatewise.cli.options import Json
from gatewise.cli.output import print_json, print_rich, table


def recipes(json: Json = False) -> None:
    """List the training recipes that `--recipe` accepts.

    Example: `gatewise list recipes --json`
    """
    from gatewise.train import find_recipe
    from gatewise.train import recipes as names

    chosen = {name: find_recipe(name) for name in names()}
    if json:
        return print_json({name: recipe.model_dump(mode="json") for name, recipe in chosen.items()})
    rows = table("name", "title", "optimiser", "lr", "epochs", "batch", right=["epochs", "batch"])
    for name, recipe in chosen.items():
        optimiser = recipe.optimiser
        rows.add_row(
            name,
            recipe.title,
            optimiser.name,
            f"{optimiser.lr:g}",
            str(recipe.epochs),
            str(recipe.batch),
        )
    print_rich(
        rows,
        f"{len(chosen)} recipes. To use one: gatewise train small_cnn --recipe adam --out first",
    )
