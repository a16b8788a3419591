"""``gatewise bench``: measure the speed of units and layers against their targets."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gatewise.cli.error_group import CHECK_FAILED
from gatewise.cli.options import Json
from gatewise.cli.output import check_target, print_json, print_note
from gatewise.errors import ArgumentError

if TYPE_CHECKING:
    import torch

    from gatewise.speed import Line, Row

Only = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="LINE...",
        help="Measure only lines whose name starts with one of these, for example `relu/` or "
        "`expression/acon_c`. Default: all lines.",
    ),
]
Seconds = Annotated[float, typer.Option(min=0.0, help="Time for each line, in seconds.")]
Where = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="cpu|cuda|cuda:N",
        help="Where to measure. On a GPU (NVIDIA or AMD) its own events take the time. No GPU was "
        "at hand when the targets were set.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Write the rows to this CSV file, with the machine and the versions."
    ),
]
Page = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write a page with bars against the memory floor."),
]
Compare = Annotated[
    Path | None,
    typer.Option(metavar="OLD.csv", help="Name the lines that clearly changed since this file."),
]
List = Annotated[bool, typer.Option("--list", help="Print the lines and targets; measure nothing.")]


def bench(
    only: Only = None,
    seconds: Seconds = 2.0,
    device: Where = "cpu",
    out: Out = None,
    page: Page = None,
    compare: Compare = None,
    json: Json = False,
    list_lines: List = False,
) -> None:
    """Measure how fast units and layers run, each line against its target.

    Both sides of a line run in turns, in processor time of one thread or in time of the GPU. The
    measured value is the median of the rounds' ratios, with quartiles. The exit code is 1 if a
    target is missed.

    Example: `gatewise bench relu/ --out bench.csv`
    """
    place = _find_device(device)
    lines = _chosen(only or [], place)
    if list_lines:
        for line in lines:
            print(f"{line.name:34} {line.relation} {line.target:<5g} {line.what}")
        return
    targets = [check_target(path) for path in (out, page) if path is not None]
    del targets  # only checked, before anything is measured
    if compare is not None and not compare.is_file():
        raise ArgumentError("bench: there is no such file to compare with", got=str(compare))
    rows, facts = _measure(lines, seconds, json, place)
    _write(rows, facts, out, page)
    if compare is not None:
        _compare(rows, compare)
    if json:
        print_json({"machine": facts, "rows": [asdict(row) for row in rows]})
    missed = sum(row.verdict == "missed" for row in rows)
    print_note(f"{len(rows) - missed} of {len(rows)} targets are met")
    if missed:
        raise typer.Exit(CHECK_FAILED)


def _find_device(name: str) -> "torch.device":
    """Return the device to measure on."""
    from gatewise.devices import find_device

    device = find_device(name)
    if device.type not in ("cpu", "cuda"):
        raise ArgumentError(
            "bench: no times can be taken there", got=str(device), allowed="cpu, cuda, cuda:1"
        )
    return device


def _chosen(prefixes: list[str], device: "torch.device") -> list["Line"]:
    """Return the lines for a device whose names start with one of the prefixes."""
    from gatewise.speed import LINES

    # Forms without a compiler are those of the processor.
    lines = [line for line in LINES if device.type == "cpu" or not line.name.startswith("plain/")]
    if not prefixes:
        return lines
    for prefix in prefixes:
        if not any(line.name.startswith(prefix) for line in lines):
            groups = sorted({line.name.partition("/")[0] + "/" for line in lines})
            raise ArgumentError(
                "bench: no line starts with this",
                got=prefix,
                allowed=", ".join(groups),
            )
    return [line for line in lines if line.name.startswith(tuple(prefixes))]


def _measure(
    lines: list["Line"],
    seconds: float,
    quiet: bool,
    device: "torch.device",
) -> tuple[list["Row"], dict[str, str]]:
    """Measure the lines and print each row when it is there."""
    from gatewise.devices import describe_device
    from gatewise.native import tune_allocator
    from gatewise.speed import (
        machine_facts,
        measure_lines,
        measure_on,
        memory_floor,
    )

    def tell(row: "Row") -> None:
        if not quiet:
            target = f"{row.relation} {row.target:g}"
            spread = f"{row.low:.2f} to {row.high:.2f}"
            print(
                f"{row.line:34} {target:>13} {row.measured:7.2f}  {spread:14} {row.form:7} "
                f"{row.verdict:7} {row.reason}",
                flush=True,
            )

    tuned = tune_allocator()
    from gatewise.cli.output import one_thread

    with one_thread(), measure_on(device):
        facts = machine_facts(describe_device(device)) | {
            "allocator": "tuned" if tuned else "default"
        }
        facts["memory_floor"] = f"{memory_floor(min(seconds, 1.0)).ratio:.2f}"
        return measure_lines(lines, seconds=seconds, tell=tell), facts


def _write(
    rows: list["Row"],
    facts: dict[str, str],
    out: Path | None,
    page: Path | None,
) -> None:
    """Write the files that the user named."""
    from gatewise.files import write_text
    from gatewise.speed import rows_as_csv, speed_page

    if out is not None:
        write_text(out, rows_as_csv(rows, facts))
        print_note(f"wrote {out}")
    if page is not None:
        write_text(page, speed_page(rows, facts))
        print_note(f"wrote {page}")


def _compare(rows: list["Row"], old: Path) -> None:
    """Print the lines that changed."""
    from gatewise.speed import changes, read_rows

    sentences = changes(read_rows(old), rows)
    for sentence in sentences or ["no line clearly changed"]:
        print_note(sentence)
