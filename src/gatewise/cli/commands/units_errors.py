"""``gatewise units errors``: measure the rounding errors of all units."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gatewise.cli.error_group import CHECK_FAILED
from gatewise.cli.options import Json
from gatewise.cli.output import check_target, print_error, print_json, print_note, progress

if TYPE_CHECKING:
    from gatewise.testing import Measured

Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="Write the table to this Markdown file instead of printing it.",
    ),
]
Full = Annotated[
    bool, typer.Option("--full", help="Test many more float32 numbers. Takes much longer.")
]


def errors(out: Out = None, json: Json = False, full: Full = False) -> None:
    """Measure the rounding error of every unit against float64, and print a Markdown table.

    Tests every float16 and bfloat16 number, and a sample of the float32 numbers. The exit code is 1
    if an error is above its declared bound.

    Example: `gatewise units errors --out docs/errors.md`
    """
    target = check_target(out) if out else None
    measured = _measure_all(full)
    _write(measured, target, json)
    broken = [error for error in measured if not error.kept]
    for error in broken:
        print_error(_complaint(error))
    if broken:
        raise typer.Exit(CHECK_FAILED)


def _measure_all(full: bool) -> list["Measured"]:
    """Measure every unit, with a progress bar."""
    from gatewise.cli.output import one_thread
    from gatewise.testing import measure
    from gatewise.units import registered_units

    measured: list[Measured] = []
    with one_thread(), progress(list(registered_units()), "measuring") as names:
        for name in names:
            measured += measure(registered_units()[name], full=full)
    return measured


def _write(measured: list["Measured"], target: Path | None, json: bool) -> None:
    """Print or write the table."""
    from gatewise.testing import errors_markdown

    if json:
        print_json([asdict(error) for error in measured])
    elif target is None:
        print(errors_markdown(measured))
    if target is not None:
        from gatewise.files import write_text

        write_text(target, errors_markdown(measured))
        print_note(f"wrote {target}: {len(measured)} measurements")


def _complaint(error: "Measured") -> str:
    """Return the message for an error above its bound."""
    from gatewise.report import bound, number

    options = f" with {error.options}" if error.options else ""
    promised = bound(error.promised_ulps, error.promised_absolute)
    ulps = f"{number(error.ulps)} ulp at x = {number(error.ulps_at, 9)}"
    absolute = f"{number(error.absolute)} absolute at x = {number(error.absolute_at, 9)}"
    where = f"{error.unit}{options}, {error.dtype} {error.direction}"
    return f"{where}: promised {promised}; got: {ulps}, {absolute}"
