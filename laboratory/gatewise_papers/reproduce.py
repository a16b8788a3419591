"""``gatewise reproduce``: run the experiment behind a figure or table of a paper."""

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatewise.cli.error_group import CHECK_FAILED
from gatewise.cli.options import Device, Json, On, Workers, check_least
from gatewise.cli.output import print_error, print_json, print_note, print_rich, table
from gatewise.errors import ArgumentError

HOUR = 3600

if TYPE_CHECKING:
    from rich.console import RenderableType

    from gatewise.studies import Running
    from gatewise_papers.common import Experiment, Result, Row

Name = Annotated[
    str | None,
    typer.Argument(metavar="PAPER/FIGURE", help="The experiment, as `--list` names it."),
]
List = Annotated[bool, typer.Option("--list", help="List all experiments and exit.")]
Scale = Annotated[
    str,
    typer.Option(
        metavar="tiny|desk|full",
        help="`tiny`: seconds, only to see it run. `desk`: hours of two cores. `full`: as in the "
        "paper.",
    ),
]
Seeds = Annotated[
    int | None,
    typer.Option(metavar="N", help="Number of seeds. Default: as many as --list says."),
]
Pages = Annotated[
    bool,
    typer.Option(
        "--pages",
        help="Write the tables of verdicts on the pages of docs/ from the records in --out, and "
        "exit.",
    ),
]
Cost = Annotated[
    bool,
    typer.Option(
        "--cost",
        help="Print what the training would cost on this machine, and exit. Three steps of each "
        "network are timed; nothing is written.",
    ),
]
Out = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Write to FOLDER/PAPER/FIGURE.")]


def reproduce(
    name: Name = None,
    listed: List = False,
    scale: Scale = "desk",
    seeds: Seeds = None,
    out: Out = Path("reproduced"),
    cost: Cost = False,
    pages: Pages = False,
    on: On = "local",
    workers: Workers = 1,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Run the experiment behind a figure or table, and compare the numbers with the paper.

    Writes figure.svg, curves.csv, rows.csv and results.json. Every row says at which scale it was
    computed, and every claim of the paper is supported, contradicted, undecided or not tested. If
    interrupted, rerun the same command to resume. A record of another scale is never overwritten.
    The exit code is 1 if a number is outside the interval of its closed form.

    Example: `gatewise reproduce deep_gated/figure1`
    """
    from gatewise_papers.all_experiments import experiments, find_experiment

    if pages:
        return _write_pages(out)
    if listed:
        return _print_list(list(experiments().values()), json)
    if name is None:
        raise ArgumentError(
            "reproduce: name an experiment", fix="gatewise reproduce --list lists all of them"
        )
    from gatewise.devices import DEVICE_VARIABLE, find_device

    experiment = find_experiment(name)
    if device != "cpu":
        # Experiments train in several ways and processes; each of them reads the variable.
        os.environ[DEVICE_VARIABLE] = str(find_device(device))
    if cost:
        return _print_cost(experiment, scale, seeds, out, json)
    options = _options(on, workers)
    if scale != "tiny":
        _print_cost_at_start(experiment, scale, seeds, out)
    result = experiment.run(
        scale,
        seeds,
        out,
        tell=lambda piece: print_note(f"{name}: {piece}"),
        options=options,
    )
    if json:
        print_json(result.to_dict())
    else:
        print_rich(*_page(result))
    folder = experiment.folder(out)
    files = ", ".join(result.files)
    print_note(f"wrote {files} to {folder} ({result.seconds:.0f} s of CPU time)")
    for row in result.failed:
        closed_form = f"closed form {row.closed_form:.6g} ± {row.within:.2g}"
        print_error(f"{row.what}: ours {row.ours:.6g}, {closed_form}")
    if result.failed:
        raise typer.Exit(CHECK_FAILED)


def _options(on: str, workers: int) -> "Running | None":
    """Return where the parts of an experiment run; None for this process."""
    check_least("--workers", workers)
    if on == "local" and workers == 1:
        return None
    from gatewise.studies import Running

    return Running(on=on, workers=workers)


def _print_cost_at_start(
    experiment: "Experiment", scale: str, seeds: int | None, out: Path
) -> None:
    """Print what the training costs before it starts."""
    from gatewise_papers.common import cost_at_start

    words = cost_at_start(experiment, scale, seeds, out)
    if words is not None:
        print_note(f"{experiment.name}: {words}")


def _print_list(experiments: list["Experiment"], json: bool) -> None:
    """Print all experiments."""
    records = [_record(experiment) for experiment in experiments]
    if json:
        return print_json(records)
    from gatewise_papers.not_here import NOT_HERE

    rows = table("name", "title", "seeds", "needs", "scale desk", right=["seeds"], whole=["name"])
    for record in records:
        needs = ", ".join(record["needs"]) or "-"
        desk = record["scales"]["desk"]
        rows.add_row(record["name"], record["title"], str(record["seeds"]), needs, desk)
    example = f"gatewise reproduce {experiments[0].name}"
    missing = table("not run here", "title", "reason", whole=["not run here"])
    for one in NOT_HERE:
        missing.add_row(one.name, one.title, one.reason)
    print_rich(rows, f"{len(experiments)} experiments. To run one: {example}", missing)


def _print_cost(
    experiment: "Experiment", scale: str, seeds: int | None, out: Path, json: bool
) -> None:
    """Time the training of an experiment, and print its cost and the command that runs it."""
    from gatewise_papers.common import cost_of

    cost = cost_of(experiment, scale, seeds)
    command = ["gatewise", "reproduce", experiment.name, "--scale", scale, "--out", str(out)]
    if seeds is not None:
        command += ["--seeds", str(seeds)]
    resume = shlex.join(command)
    reduced = experiment.settings_of(scale).reduced or "as in the paper"
    if json:
        return print_json({**cost.to_dict(), "reduced": reduced, "command": resume})
    numbers = ("runs", "seconds a run", "core-hours")
    rows = table("network", *numbers, right=numbers)
    for arm in cost.arms:
        hours = arm.total / HOUR
        rows.add_row(arm.name, str(arm.final), f"{arm.seconds:.3g}", f"{hours:.3g}")
    lines = (cost.words, f"Scale {scale}: {reduced}.", f"To run or resume it: {resume}")
    print_rich(*([rows] if cost.arms else []), *lines)


def _write_pages(records: Path) -> None:
    """Replace the generated part of every page that has one."""
    from gatewise.files import write_text
    from gatewise_papers.all_experiments import PAGES, generated_part, with_generated_part

    for page in PAGES:
        path = Path("docs", page)
        if not path.exists():
            raise ArgumentError(
                "reproduce: the page is missing", got=str(path), fix="run it in the repository"
            )
        text = with_generated_part(path.read_text(encoding="utf-8"), generated_part(page, records))
        write_text(path, text)
        print_note(f"wrote {path}")


def _record(experiment: "Experiment") -> dict[str, Any]:
    """Return an experiment for ``--json``."""
    scales = {}
    for name, settings in experiment.scales.items():
        scales[name] = settings.reduced or "as in the paper"
    return {
        "name": experiment.name,
        "title": experiment.title,
        "seeds": len(experiment.seed_numbers(None, "desk")),
        "needs": list(experiment.needs),
        "scales": scales,
    }


def _page(result: "Result") -> list["RenderableType"]:
    """Return the result as tables: numbers first, then the claims of the paper."""
    from rich.text import Text

    heading = Text.assemble((result.experiment, "bold"), f"  {result.title}\n")
    numbers = ("paper", "closed form", "ours", "±", "seeds")
    rows = table("what", *numbers, "agrees", "scale", right=numbers)
    for row in result.findings.rows:
        rows.add_row(*_cells(row), result.scale_in_words)
    parts: list[RenderableType] = [heading, rows]
    if result.findings.claims:
        claims = table("claim of the paper", "verdict", "evidence")
        for claim in result.findings.claims:
            evidence = "; ".join(text for text in (claim.reason, claim.evidence) if text)
            claims.add_row(claim.published, claim.verdict.value, evidence)
        parts.append(claims)
    parts += [Text(f"level: {level.words}") for level in result.findings.levels]
    return [*parts, *(Text(f"note: {note}") for note in result.findings.notes)]


def _cells(row: "Row") -> list[str]:
    """Return the cells of a row of numbers."""
    agrees = {True: "yes", False: "no", None: "-"}[row.agrees]
    left_out = f" (of {row.seeds + row.left_out})" if row.left_out else ""
    numbers = (row.published, row.closed_form, row.ours, row.spread)
    return [row.what, *map(_number, numbers), f"{row.seeds}{left_out}", agrees]


def _number(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}"
