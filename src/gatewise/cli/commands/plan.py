"""``gatewise plan``: what putting a unit into a model takes, site by site. Nothing is changed."""

import json as json_text
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatewise.cli.options import Input, Json, Model, Set, key_values, model_and_example
from gatewise.cli.output import print_json, print_rich, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from gatewise.surgery import Entry, Plan

UNIT_HELP = "What to put in: a unit of `gatewise units`, or concat_act, psc, iieu_dc, beta, galu."
Unit = Annotated[str, typer.Option("--unit", metavar="NAME", help=UNIT_HELP)]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="GLOB",
        help="Only these sites: a glob, or re:, class:, role: or depth: and what.",
    ),
]
Width = Annotated[
    str | None, typer.Option(help="For units with two outputs per channel: half or same.")
]
Preserve = Annotated[
    bool,
    typer.Option("--preserve", help="Keep the function; refuse sites where that is impossible."),
]
Policy = Annotated[
    str, typer.Option(help="What may be widened besides readers: consumers, gates or streams.")
]
Gates = Annotated[bool, typer.Option("--gates", help="Take sigmoid gates too.")]
Match = Annotated[
    str | None, typer.Option("--match", help="Scale widths to the original's parameters or flops.")
]
Option = Annotated[
    list[str] | None, typer.Option("--option", metavar="KEY=VALUE", help="An option of the unit.")
]


def plan(
    model: Model,
    unit: Unit,
    where: Where = None,
    width: Width = None,
    preserve: Preserve = False,
    policy: Policy = "gates",
    gates: Gates = False,
    match: Match = None,
    option: Option = None,
    input: Input = None,
    set: Set = None,
    json: Json = False,
) -> None:
    """Show what a swap would do.

    Channels, parameters and operations before and after, and why a site is refused.

    `--json` prints the plan in full; `gatewise swap --plan FILE` carries it out.

    Example: `gatewise plan torchvision:resnet18 --unit crelu --width same --preserve --input
        2x3x64x64`
    """
    from gatewise.surgery import plan as make_plan

    made = make_plan(
        *with_unit(model_and_example(model, input, set), unit),
        where=where or None,
        width=width,
        preserve=preserve,
        policy=policy,
        gates=gates,
        match=match,
        **key_values("--option", option),
    )
    if json:
        return print_json(json_text.loads(made.to_json()))
    print_rich(*page(made))


def with_unit(model_and_example: tuple[Any, Any], unit: str) -> tuple[Any, str, Any]:
    """The first three arguments of planning."""
    return model_and_example[0], unit, model_and_example[1]


def page(plan: "Plan") -> "list[RenderableType]":
    """A plan as a table and what it comes to."""
    from rich.text import Text

    rows = table(
        "site",
        "kind",
        "from",
        "to",
        "channels",
        "change",
        right=["channels"],
        whole=("kind", "channels"),
    )
    for entry in plan.entries:
        after = (
            f"{entry.channels} to {entry.after}"
            if entry.change == "swap"
            else str(entry.channels or "-")
        )
        style = "yellow" if entry.change == "refuse" else ""
        rows.add_row(
            entry.site,
            entry.kind,
            few(entry.producers),
            few(entry.consumers),
            after,
            Text(_change(entry, plan), style),
        )
    counts = (
        f"{len(plan.swapped)} of {len(plan.entries)} sites change, {len(plan.refused)} refused."
    )
    costs = f"parameters {ratio(plan.parameters)}, operations {ratio(plan.operations)}"
    return [rows, counts, costs, *(f"put back: {edge}" for edge in plan.put_back), *plan.notes]


def _change(entry: "Entry", plan: "Plan") -> str:
    if entry.change == "refuse":
        return f"refused: {entry.why}"
    if entry.change == "leave":
        return "left"
    return f"{entry.op} to {plan.unit}" + (" in the branches before it" if entry.moved else "")


def few(paths: Sequence[str]) -> str:
    """The first two of several."""
    shown = ", ".join(paths[:2])
    return f"{shown} and {len(paths) - 2} more" if len(paths) > 2 else shown


def ratio(pair: tuple[int, int]) -> str:
    """Before, after, and how many times that is."""
    before, after = pair
    return f"{before:,} to {after:,} (x {after / max(1, before):.2f})"
