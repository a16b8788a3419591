"""``gatewise inspect``: list the activations of a model and recognise their functions."""

from pathlib import Path
from typing import Annotated

import typer

from gatewise.cli.options import (
    Input,
    Json,
    Model,
    ModelOptions,
    Trust,
    Weights,
    example_for,
    key_values,
    open_model,
)
from gatewise.cli.output import print_json, print_rich, table

Copy = Annotated[
    Path | None, typer.Option(help="An ONNX or safetensors copy of the model to compare with.")
]


def inspect(
    model: Model,
    input: Input = None,
    set: ModelOptions = None,
    weights: Weights = None,
    trust: Trust = False,
    copy: Copy = None,
    json: Json = False,
) -> None:
    """List the activations of a model, with the function that each computes.

    Every call of an activation function is a site: modules, functional calls, modules that are
    called several times, and activations inside norms. Functions are recognised by their values and
    compared with the model's configuration.

    Example: `gatewise inspect fast_cifar --input 2x3x32x32`
    """
    from gatewise.analysis import identify
    from gatewise.graph import find_sites

    network = open_model("inspect", model, key_values("--set", set), weights, trust=trust)
    example = example_for(model, network, input)
    graph = find_sites(network, example)
    found = identify(network, example, copy=copy)
    if json:
        return print_json(graph.to_dict() | {"functions": found.to_dict()})
    functions = {site.site: site for site in found.sites}
    columns = ("site", "function", "as configured", "role", "channels", "from", "to")
    rows = table(*columns, right=["channels"], whole=("function", "role", "channels"))
    for site in graph:
        function = functions.get(site.name)
        rows.add_row(
            site.name,
            function.function if function else site.op,
            {True: "yes", False: "NO", None: "-"}[function.agrees if function else None],
            site.role,
            "-" if site.channels is None else str(site.channels),
            ", ".join(site.producers),
            ", ".join(site.consumers),
        )
    count = f"{len(graph)} site{'' if len(graph) == 1 else 's'}."
    said = f"The configuration says {found.configuration}." if found.configuration else ""
    differences: dict[str, list[str]] = {}
    for site in found.disagreements:
        differences.setdefault(site.differs, []).append(site.site)
    for words, names in differences.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        said += f"\nNOT as configured, at {names[0]}{more}: {words}."
    notes = dict.fromkeys((*graph.notes, *found.copies, *found.notes))  # both tell what is no site
    print_rich(rows, *filter(None, (count, said, *notes)))
