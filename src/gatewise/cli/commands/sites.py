"""``gatewise sites``: the activation sites of a model."""

from gatewise.cli.options import Input, Json, Model, Set, model_and_example
from gatewise.cli.output import print_json, print_rich, table


def sites(model: Model, input: Input = None, set: Set = None, json: Json = False) -> None:
    """List where a model's activations are.

    How each is called, what makes and what reads its tensor.

    Functional calls, reused modules and activations inside norms are sites like any other.

    Example: `gatewise sites torchvision:resnet18 --input 2x3x64x64`
    """
    from gatewise.graph import find_sites

    graph = find_sites(*model_and_example(model, input, set))
    if json:
        return print_json(graph.to_dict())
    columns = ("site", "op", "kind", "role", "channels", "from", "to")
    rows = table(*columns, right=["channels"], whole=("op", "kind", "role", "channels"))
    for site in graph:
        channels = "-" if site.channels is None else str(site.channels)
        rows.add_row(
            site.name,
            site.op,
            site.kind,
            site.role,
            channels,
            *map(", ".join, (site.producers, site.consumers)),
        )
    print_rich(rows, f"{len(graph)} site{'' if len(graph) == 1 else 's'}.", *graph.notes)
