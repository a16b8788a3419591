"""``gatewise list models``: list the networks of the catalogue."""

from gatewise.cli.options import Json
from gatewise.cli.output import print_json, print_rich, table


def models(json: Json = False) -> None:
    """List the networks that commands take as `MODEL`.

    The column `input` is the shape of one example.

    Example: `gatewise list models --json`
    """
    from gatewise.models import get_model, list_models

    chosen = [get_model(name) for name in list_models()]
    if json:
        return print_json(
            [
                {
                    "name": model.name,
                    "title": model.title,
                    "input": list(model.reads),
                    "options": list(model.options),
                    "paper": model.paper,
                }
                for model in chosen
            ]
        )
    rows = table("name", "title", "input", "options", "paper", whole=("name", "input"))
    for model in chosen:
        shape = " x ".join(map(str, model.reads))
        rows.add_row(model.name, model.title, shape, ", ".join(model.options), model.paper)
    print_rich(rows, f"{len(chosen)} networks. To diagnose one: gatewise diagnose {chosen[0].name}")
