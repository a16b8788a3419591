"""``gatewise swap``: put a unit into a model, check it, and write the weights and the plan."""

import json as json_text
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
    page,
)
from gatewise.cli.error_group import CHECK_FAILED
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
    plan_beside,
    read_plan,
)
from gatewise.cli.output import check_target, print_error, print_json, print_note, print_rich
from gatewise.errors import ArgumentError

if TYPE_CHECKING:
    from torch import nn

    from gatewise.surgery import Plan

ENDING = ".safetensors"
Unit = Annotated[str | None, typer.Option("--unit", metavar="NAME", help=UNIT_HELP)]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="The file to write the weights to (.safetensors)."),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Print what would change, and the cost before and after. Write nothing."
    ),
]
PlanFile = Annotated[
    Path | None,
    typer.Option(
        "--plan",
        metavar="FILE",
        help="Execute this plan, from `gatewise swap --dry-run --json`. Replaces --unit.",
    ),
]


def swap(
    model: Model,
    out: Out = None,
    dry_run: DryRun = False,
    unit: Unit = None,
    plan: PlanFile = None,
    weights: Weights = None,
    trust: Trust = False,
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
    """Replace the activations of a model, check the result, and write its weights.

    `--dry-run` previews it: activations that cannot be changed are listed with the reason. With
    `--json` it prints the full plan, which `--plan FILE` executes.

    The plan is written next to the weights, as NAME.plan.json. `diagnose`, `inspect`, `sparsify`
    and `swap` apply it when they load these weights. In Python, build the original, apply the plan
    with `Plan.from_json(text).apply(model)`, and load the weights. After a second swap the file
    holds both plans, which `gw.load_swaps(model, file)` applies. If the changed model fails its
    checks, nothing is written and the exit code is 1.

    Example: `gatewise swap small_cnn --unit crelu --preserve --out crelu.safetensors`
    """
    if (out is None) != dry_run:
        raise ArgumentError(
            "swap: needs either --out or --dry-run",
            got="neither" if out is None else "both",
            fix="--dry-run to see the plan, or --out FILE.safetensors",
        )
    if (unit is None) == (plan is None):
        raise ArgumentError(
            "swap: needs either a unit or a plan",
            got="neither" if unit is None else "both",
            fix="--unit NAME, or --plan FILE",
        )
    settings = key_values("--set", set)
    network = open_model("swap", model, settings, weights, trust=trust)
    example = example_for(model, network, input)
    if plan is not None:
        swap_plan = read_plan(plan)
    else:
        from gatewise.surgery import plan as make_plan

        swap_plan = make_plan(
            network,
            str(unit),
            example,
            where=where or None,
            width=width,
            preserve=preserve,
            policy=policy,
            gates=gates,
            match=match,
            **key_values("--option", option),
        )
    if out is None:
        return (
            print_json(json_text.loads(swap_plan.to_json()))
            if json
            else print_rich(*page(swap_plan))
        )
    target = check_target(out, (ENDING,))
    receipt = _apply(swap_plan, network, example)
    _write(target, network, swap_plan)
    if json:
        print_json(receipt.to_dict())
    else:
        print_rich(str(receipt))


def _apply(plan: "Plan", network: "nn.Module", example: Any) -> Any:
    """Apply the plan. A failed check is exit code 1."""
    from gatewise.surgery import SwapFailed, receipt

    try:
        return receipt(plan.apply(network, example=example))
    except SwapFailed as failure:
        print_error(str(failure))
        raise typer.Exit(CHECK_FAILED) from None


def _write(target: Path, network: "nn.Module", plan: "Plan") -> None:
    """Write the weights, and the plan next to them."""
    from gatewise.files import write_tensors, write_text
    from gatewise.surgery import save_swaps

    plan_file = plan_beside(target)
    if plan.earlier:  # the weights that were loaded had a plan, too
        save_swaps(network, plan_file)
    else:
        write_text(plan_file, plan.to_json())
    metadata = {"unit": plan.unit, "plan": plan_file.name}
    write_tensors(target, network.state_dict(), metadata=metadata)
    print_note(f"wrote {target} and {plan_file}")
