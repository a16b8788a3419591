#!/usr/bin/env python3
"""Measure the rounding error of every unit against float64, and write a Markdown table.

    tools/measure_unit_errors.py FILE [--full]

Tests every float16 and bfloat16 number, and a sample of the float32 numbers (a larger one with
``--full``). The exit code is 1 if an error is above its declared bound.
"""

import sys
from pathlib import Path

import torch

from gatewise.files import write_text
from gatewise.report import bound, number
from gatewise.testing import Measured, errors_markdown, measure
from gatewise.units import registered_units


def main(arguments: list[str]) -> int:
    """Measure every unit, and write the table."""
    full = "--full" in arguments
    paths = [argument for argument in arguments if not argument.startswith("-")]
    if len(paths) != 1:
        print(__doc__)
        return 2
    torch.set_num_threads(1)
    measured: list[Measured] = []
    for name, unit in registered_units().items():
        print(f"measuring {name}", file=sys.stderr)
        measured += measure(unit, full=full)
    write_text(Path(paths[0]), errors_markdown(measured))
    broken = [error for error in measured if not error.kept]
    for error in broken:
        print(complaint(error), file=sys.stderr)
    return int(bool(broken))


def complaint(error: Measured) -> str:
    """Return the message for an error above its bound."""
    options = f" with {error.options}" if error.options else ""
    promised = bound(error.promised_ulps, error.promised_absolute)
    ulps = f"{number(error.ulps)} ulp at x = {number(error.ulps_at, 9)}"
    absolute = f"{number(error.absolute)} absolute at x = {number(error.absolute_at, 9)}"
    where = f"{error.unit}{options}, {error.dtype} {error.direction}"
    return f"{where}: promised {promised}; got: {ulps}, {absolute}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
