"""``gatewise identify``: recognise the function at every activation of a model."""

from pathlib import Path
from typing import Annotated

import typer

from gatewise.cli.options import Input, Json, Model, ModelOptions, model_and_example
from gatewise.cli.output import print_json, print_rich, table

Copy = Annotated[
    Path | None, typer.Option(help="An ONNX or safetensors copy of the model to compare with.")
]


def identify(
    model: Model,
    input: Input = None,
    set: ModelOptions = None,
    copy: Copy = None,
    json: Json = False,
) -> None:
    """Recognise the function at every activation of a model by its values.

    The exact and the tanh form of GELU, clamps and trained constants are told apart, and compared
    with the model's configuration.

    Example: `gatewise identify torchvision:resnet18 --input 2x3x64x64`
    """
    from gatewise.analysis import identify as identify_functions

    result = identify_functions(*model_and_example(model, input, set), copy=copy)
    if json:
        return print_json(result.to_dict())
    rows = table("site", "role", "function", "value", "as configured", whole=("role",))
    for site in result.sites:
        agrees = {True: "yes", False: "NO", None: "-"}[site.agrees]
        rows.add_row(site.site, site.role, site.function, site.value, agrees)
    said = f"The configuration says {result.configuration}." if result.configuration else ""
    print_rich(rows, *filter(None, (said, *result.copies, *result.notes)))
