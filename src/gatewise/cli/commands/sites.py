"""``gatewise sites``: list the activations of a model."""

from gatewise.cli.options import Input, Json, Model, ModelOptions, model_and_example
from gatewise.cli.output import print_json, print_rich, table


def sites(model: Model, input: Input = None, set: ModelOptions = None, json: Json = False) -> None:
    """List the activations of a model, with the layers before and after each.

    Every call of an activation function is a site: modules, functional calls, modules that are
    called several times, and activations inside norms.

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
        before = ", ".join(site.producers)
        after = ", ".join(site.consumers)
        rows.add_row(site.name, site.op, site.kind, site.role, channels, before, after)
    print_rich(rows, f"{len(graph)} site{'' if len(graph) == 1 else 's'}.", *graph.notes)
