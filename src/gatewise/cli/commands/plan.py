"""``gatewise plan``: preview a swap. Nothing is changed."""

import json as json_text
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from gatewise.cli.options import Input, Json, Model, ModelOptions, key_values, model_and_example
from gatewise.cli.output import print_json, print_rich, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from gatewise.surgery import Entry, Plan

UNIT_HELP = (
    "The activation function to put in: a unit of `gatewise units`, or one of the swaps "
    "concat_act, psc, static_psc, iieu_dc, beta and galu."
)
Unit = Annotated[str, typer.Option("--unit", metavar="NAME", help=UNIT_HELP)]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="PATTERN",
        help="Change only these activations, by their names in `gatewise sites`: a glob such as "
        "`layer1.*`, or `re:REGEX`, `class:NAME`, `role:ROLE` or `depth:0-0.5`. Repeatable. "
        "Default: all.",
    ),
]
Width = Annotated[
    str | None,
    typer.Option(
        metavar="half|same",
        help="For units with two outputs per channel, such as crelu. `half` halves the layer "
        "before, `same` widens the layers after. Default: `half` "
        "with --no-preserve or --match, else `same`.",
    ),
]
Preserve = Annotated[
    bool | None,
    typer.Option(
        "--preserve/--no-preserve",
        help="Keep the outputs of the model. Activations where that is impossible are not changed. "
        "Default: keep them where the unit can, and change the others.",
    ),
]
Policy = Annotated[
    str,
    typer.Option(
        metavar="POLICY",
        help="What may be widened besides the layers that read a widened tensor. `consumers`: "
        "nothing. `gates`: also factors it is multiplied with. `streams`: also tensors it is "
        "added to.",
    ),
]
Gates = Annotated[bool, typer.Option("--gates", help="Also change sigmoid gates.")]
Match = Annotated[
    str | None,
    typer.Option(
        "--match",
        metavar="parameters|flops",
        help="Scale the widths so that the changed model has as many parameters or FLOPs "
        "as the original, within 1 %.",
    ),
]
Option = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="KEY=VALUE",
        help="An option of the unit, for example `--option slope=0.1`. Repeatable.",
    ),
]


def plan(
    model: Model,
    unit: Unit,
    where: Where = None,
    width: Width = None,
    preserve: Preserve = None,
    policy: Policy = "gates",
    gates: Gates = False,
    match: Match = None,
    option: Option = None,
    input: Input = None,
    set: ModelOptions = None,
    json: Json = False,
) -> None:
    """Preview a swap: which activations would change, and the cost before and after.

    Activations that cannot be changed are listed with the reason. `--json` prints the full plan,
    which `gatewise swap --plan FILE` executes.

    Example: `gatewise plan torchvision:resnet18 --unit crelu --preserve --input 2x3x64x64`
    """
    from gatewise.surgery import plan as make_plan

    network, example = model_and_example(model, input, set)
    swap_plan = make_plan(
        network,
        unit,
        example,
        where=where or None,
        width=width,
        preserve=preserve,
        policy=policy,
        gates=gates,
        match=match,
        **key_values("--option", option),
    )
    if json:
        return print_json(json_text.loads(swap_plan.to_json()))
    print_rich(*page(swap_plan))


def page(plan: "Plan") -> "list[RenderableType]":
    """Return a plan as a table with a summary."""
    from rich.text import Text

    columns = ("site", "kind", "from", "to", "channels", "change")
    rows = table(*columns, right=["channels"], whole=("kind", "channels"))
    for entry in plan.entries:
        channels = str(entry.channels or "-")
        if entry.change == "swap":
            channels = f"{entry.channels} to {entry.after}"
        style = "yellow" if entry.change == "refuse" else ""
        rows.add_row(
            entry.site,
            entry.kind,
            few(entry.producers),
            few(entry.consumers),
            channels,
            Text(_change(entry, plan), style),
        )
    counts = f"{len(plan.swapped)} of {len(plan.entries)} sites change."
    if plan.refused:
        counts += f" {len(plan.refused)} cannot change."
    costs = f"parameters {ratio(plan.parameters)}, operations {ratio(plan.operations)}"
    put_back = [f"activation put back where {edge}" for edge in plan.put_back]
    return [rows, counts, costs, *put_back, *plan.notes]


def _change(entry: "Entry", plan: "Plan") -> str:
    """Return what happens to a site, in words."""
    if entry.change == "refuse":
        return f"not changed: {entry.why}"
    if entry.change == "leave":
        return "not selected"
    return f"{entry.op} to {plan.unit}" + (" in the branches before it" if entry.moved else "")


def few(paths: Sequence[str]) -> str:
    """Return the first two paths, and how many more there are."""
    shown = ", ".join(paths[:2])
    return f"{shown} and {len(paths) - 2} more" if len(paths) > 2 else shown


def ratio(pair: tuple[int, int]) -> str:
    """Return a number before and after, and their ratio."""
    before, after = pair
    return f"{before:,} to {after:,} (x {after / max(1, before):.2f})"
