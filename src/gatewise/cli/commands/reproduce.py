"""``gatewise reproduce``: a figure or table of a paper, run here."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatewise.cli.error_group import CHECK_FAILED
from gatewise.cli.output import print_error, print_json, print_note, print_rich, table
from gatewise.errors import ArgumentError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from gatewise.papers import Experiment, Result, Row

Name = Annotated[
    str | None, typer.Argument(metavar="PAPER/FIGURE", help="What to run, as `--list` spells it.")
]
List = Annotated[bool, typer.Option("--list", help="Say what there is.")]
Scale = Annotated[
    str,
    typer.Option(help="`cpu`: minutes; `full`: as in the paper; `tiny`: seconds, to see it run."),
]
Seeds = Annotated[
    int | None,
    typer.Option(metavar="N", help="How many seeds; by default as many as the paper has."),
]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="Files go to DIR/PAPER/FIGURE.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


def reproduce(
    name: Name = None,
    listed: List = False,
    scale: Scale = "cpu",
    seeds: Seeds = None,
    out: Out = Path("reproduced"),
    json: Json = False,
) -> None:
    """Run a figure or table of a paper: its picture, its numbers, and what the paper says of them.

    Every row says at which scale it was run. Writes figure.png, curves.csv, rows.csv and
    results.json. A run that is stopped goes on from there when it is started again. Exit 1 if a
    number is outside the interval of its closed form.

    Example: `gatewise reproduce deep_gated/figure1 --scale cpu`
    """
    from gatewise.papers import experiments, find_experiment

    if listed:
        return _print_list(list(experiments().values()), json)
    if name is None:
        raise ArgumentError("say what to run", fix="gatewise reproduce --list says what there is")
    experiment = find_experiment(name)
    result = experiment.run(scale, seeds, out, tell=lambda piece: print_note(f"{name}: {piece}"))
    _hand_over(result, out, json)
    for row in result.failed:
        print_error(
            f"{row.what}: ours {row.ours:.6g}, closed form {row.closed_form:.6g} ± {row.within:.2g}"
        )
    if result.failed:
        raise typer.Exit(CHECK_FAILED)


def _print_list(found: list["Experiment"], json: bool) -> None:
    records = [
        {
            "name": each.name,
            "title": each.title,
            "seeds": each.seeds,
            "needs": list(each.needs),
            "scales": {
                name: settings.reduced or "as in the paper"
                for name, settings in each.scales.items()
            },
        }
        for each in found
    ]
    if json:
        return print_json(records)
    rows = table("name", "title", "seeds", "needs", "scale cpu", right=["seeds"], whole=["name"])
    for each in records:
        rows.add_row(
            each["name"],
            each["title"],
            str(each["seeds"]),
            ", ".join(each["needs"]) or "-",
            each["scales"]["cpu"],
        )
    print_rich(rows, f"{len(found)} experiments. One of them: gatewise reproduce {found[0].name}")


def _hand_over(result: "Result", out: Path, json: bool) -> None:
    if json:
        print_json(result.to_dict())
    else:
        print_rich(*_page(result))
    folder = Path(out, *result.experiment.split("/"))
    print_note(
        f"wrote {', '.join(result.files)} to {folder}: {result.seconds:.0f} s of processor time"
    )


def _page(result: "Result") -> list["RenderableType"]:
    from rich.text import Text

    heading = Text.assemble((result.experiment, "bold"), f"  {result.title}\n")
    numbers = ("paper", "closed form", "ours", "±", "seeds")
    rows = table("what", *numbers, "agrees", "scale", right=numbers)
    for row in result.findings.rows:
        rows.add_row(*_cells(row), result.scale_in_words)
    claims = table("the paper says", "here", "because")
    for claim in result.findings.claims:
        claims.add_row(claim.published, "so" if claim.holds else "not so", claim.evidence)
    notes = [Text(f"note: {note}") for note in result.findings.notes]
    return [heading, rows, *([claims] if result.findings.claims else []), *notes]


def _cells(row: "Row") -> list[str]:
    agrees = {True: "yes", False: "no", None: "-"}[row.agrees]
    left_out = f" (of {row.seeds + row.left_out})" if row.left_out else ""
    numbers = (row.published, row.closed_form, row.ours, row.spread)
    return [row.what, *map(_number, numbers), f"{row.seeds}{left_out}", agrees]


def _number(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}"
