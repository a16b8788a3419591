"""``gatewise swap``: put a unit into a model, prove it, and write the weights with the plan beside them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatewise.cli.commands.plan import (
    UNIT_HELP,
    Gates,
    Match,
    Option,
    Policy,
    Preserve,
    Where,
    Width,
    with_unit,
)
from gatewise.cli.error_group import CHECK_FAILED
from gatewise.cli.options import (
    Input,
    Json,
    Model,
    Set,
    Weights,
    key_values,
    load_weights,
    model_and_example,
)
from gatewise.cli.output import check_target, print_error, print_json, print_note, print_rich
from gatewise.errors import ArgumentError, FileError

if TYPE_CHECKING:
    from torch import nn

    from gatewise.surgery import Plan

ENDING = ".safetensors"
Unit = Annotated[str | None, typer.Option("--unit", metavar="NAME", help=UNIT_HELP)]
Out = Annotated[
    Path, typer.Option("--out", metavar="FILE", help="Where the weights go: a .safetensors file.")
]
PlanFile = Annotated[
    Path | None, typer.Option("--plan", metavar="FILE", help="Carry out this plan instead.")
]


def swap(
    model: Model,
    out: Out,
    unit: Unit = None,
    plan: PlanFile = None,
    weights: Weights = None,
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
    """Put a unit into a model and write its weights, the plan beside them as NAME.plan.json.

    Print the receipt.

    Exit 1 if the changed model is not what was promised; nothing is written then. To have the
    changed model again, make the original and apply the plan to it:
    `Plan.from_json(text).apply(model)`, then load the weights.

    Example: `gatewise swap torchvision:resnet18 --unit crelu --preserve --out crelu.safetensors
        --input 2x3x64x64`
    """
    target = check_target(out, (ENDING,))
    if (unit is None) == (plan is None):
        raise ArgumentError(
            "swap: needs a unit or a plan",
            got=f"--unit {unit}, --plan {plan}",
            allowed="one of them",
        )
    network, example = model_and_example(model, input, set)
    if weights is not None:
        load_weights(network, weights)
    choices = {
        "where": where or None,
        "width": width,
        "preserve": preserve,
        "policy": policy,
        "gates": gates,
    }
    choices["match"] = match
    made = (
        _read(plan)
        if plan
        else _plan(network, str(unit), example, choices | key_values("--option", option))
    )
    receipt = _apply(made, network, example)
    _write(target, network, made)
    if json:
        print_json(receipt.to_dict())
    else:
        print_rich(str(receipt))


def _plan(network: "nn.Module", unit: str, example: Any, choices: dict[str, Any]) -> "Plan":
    from gatewise.surgery import plan

    return plan(*with_unit((network, example), unit), **choices)


def _apply(plan: "Plan", network: "nn.Module", example: Any) -> Any:
    from gatewise.surgery import SwapFailed, receipt

    try:
        return receipt(plan.apply(network, example=example))
    except SwapFailed as failure:
        print_error(str(failure))
        raise typer.Exit(CHECK_FAILED) from None


def _write(target: Path, network: "nn.Module", plan: "Plan") -> None:
    from gatewise.files import write_tensors, write_text

    beside = target.with_suffix(".plan.json")
    write_text(beside, plan.to_json())
    write_tensors(target, network.state_dict(), metadata={"unit": plan.unit, "plan": beside.name})
    print_note(f"wrote {target} and {beside}")


def _read(path: Path) -> "Plan":
    from gatewise.surgery import Plan

    try:
        return Plan.from_json(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as problem:
        raise FileError(
            "--plan: the file cannot be read", got=str(path), fix="name a plan of ours"
        ) from problem
