"""The options of a swap, and its preview as a table."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from gatewise.cli.output import table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from gatewise.surgery import Entry, Plan

UNIT_HELP = (
    "The activation function to put in: a unit of `gatewise list units`, or one of the swaps "
    "concat_act, psc, static_psc, iieu_dc, beta and galu."
)
Unit = Annotated[str, typer.Option("--unit", metavar="NAME", help=UNIT_HELP)]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="PATTERN",
        help="Change only these activations, by their names in `gatewise inspect`: a glob such as "
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
