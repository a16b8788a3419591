"""``gatewise units errors``: measure every promise about rounding."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gatewise.cli.error_group import CHECK_FAILED
from gatewise.cli.output import check_target, print_error, print_json, print_note, progress

if TYPE_CHECKING:
    from gatewise.testing import Measured

Out = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="FILE", help="Write the table to this file instead of printing it."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of Markdown.")]
Full = Annotated[
    bool, typer.Option("--full", help="Try many more float32 numbers. Takes much longer.")
]


def errors(out: Out = None, json: Json = False, full: Full = False) -> None:
    """Measure every unit against float64 and make the table of errors.

    Exit 1 if a promise is broken.

    Tries every float16 and bfloat16 number, and a sample of the float32 ones.

    Example: `gatewise units errors --out docs/errors.md`
    """
    target = check_target(out) if out else None
    measured = _measure_all(full)
    _hand_over(measured, target, json)
    broken = [found for found in measured if not found.kept]
    for found in broken:
        print_error(_complaint(found))
    if broken:
        raise typer.Exit(CHECK_FAILED)


def _measure_all(full: bool) -> list["Measured"]:
    from gatewise.cli.output import one_thread
    from gatewise.testing import measure
    from gatewise.units import registered_units

    found: list[Measured] = []
    with one_thread(), progress(list(registered_units()), "measuring") as names:
        for name in names:
            found += measure(registered_units()[name], full=full)
    return found


def _hand_over(measured: list["Measured"], target: Path | None, json: bool) -> None:
    from gatewise.testing import errors_markdown

    if json:
        print_json([asdict(found) for found in measured])
    elif target is None:
        print(errors_markdown(measured))
    if target is not None:
        from gatewise.files import write_text

        write_text(target, errors_markdown(measured))
        print_note(f"wrote {target}: {len(measured)} measurements")


def _complaint(found: "Measured") -> str:
    from gatewise.report import bound, number

    options = f" with {found.options}" if found.options else ""
    promised = bound(found.promised_ulps, found.promised_absolute)
    steps = f"{number(found.ulps)} ulp at x = {number(found.ulps_at, 9)}"
    size = f"{number(found.absolute)} absolute at x = {number(found.absolute_at, 9)}"
    return f"{found.unit}{options}, {found.dtype} {found.direction}: promised {promised}; got: {steps}, {size}"
