"""``gatewise list units NAME``: describe one unit."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from gatewise.cli.output import check_target, print_json, print_note, print_rich, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from gatewise.report import ErrorRow
    from gatewise.units import Unit

PLOT_ENDINGS = (".svg",)
HOW_TO_READ = (
    "An ulp is one step between neighbouring numbers of the dtype. A result is within its bound if "
    "its error is at most that many ulp or, near zero, at most the absolute number. If results "
    "exceed the ulp, their largest absolute error is shown."
)


def show(name: str, plot: Path | None, json: bool) -> None:
    """Describe one unit: formula, properties, options, and its rounding error measured now.

    Args:
        name: The unit.
        plot: A picture file for the function and its derivative.
        json: Print JSON.
    """
    from gatewise.cli.output import measured_errors, unit_facts
    from gatewise.testing import measure
    from gatewise.units import get_unit

    unit = get_unit(name)
    target = check_target(plot, PLOT_ENDINGS) if plot else None
    with measured_errors.one_thread():
        errors = measured_errors.rows(measure(unit))
    if json:
        print_json(unit_facts.record(unit) | {"measured": [asdict(row) for row in errors]})
    else:
        print_rich(*_page(unit, errors))
    if target:
        _draw(unit, target)


def _page(unit: "Unit", errors: tuple["ErrorRow", ...]) -> list["RenderableType"]:
    """Return heading, properties, options and errors of a unit."""
    from rich.text import Text

    from gatewise.cli.output import unit_facts
    from gatewise.report import plain

    heading = Text.assemble(
        (unit.name, "bold"),
        f"  {unit.title}\n\n",
        ("  y = " + plain(unit.formula), "cyan"),
        "\n",
    )
    note = [Text.assemble(("note: ", "bold yellow"), unit.note, "\n")] if unit.note else []
    pairs = [(fact.label, fact.text) for fact in unit_facts.facts(unit)]
    return [
        heading,
        *note,
        _pairs(("property", "value"), pairs),
        _pairs(("option", "default"), list(unit_facts.options(unit).items())),
        _errors(errors),
        Text(HOW_TO_READ),
    ]


def _pairs(columns: tuple[str, str], pairs: list[tuple[str, str]]) -> "RenderableType":
    """Return a table of two columns."""
    rows = table(*columns)
    for pair in pairs or [("none", "")]:
        rows.add_row(*pair)
    return rows


def _errors(errors: tuple["ErrorRow", ...]) -> "RenderableType":
    """Return the table of measured errors."""
    from rich.text import Text

    from gatewise.report import number

    numbers = ("largest error", "at x", "torch's largest")
    columns = ("dtype", "direction", "bound", "holds", *numbers)
    rows = table(*columns, right=numbers, whole=columns[:-1])
    for row in errors:
        holds = Text("yes") if row.kept else Text("no", "bold red")
        rows.add_row(
            row.dtype,
            row.direction,
            row.promised,
            holds,
            row.largest,
            "" if row.largest_at is None else number(row.largest_at, 2),
            row.torch_largest,
        )
    return rows


def _draw(unit: "Unit", target: Path) -> None:
    """Write the plot of a unit."""
    from gatewise.cli.output import sweep
    from gatewise.files import write_bytes
    from gatewise.report import figure, plain

    title = f"{unit.name}: {plain(unit.formula)}"
    write_bytes(target, figure(title, sweep(unit)))
    print_note(f"wrote {target}")
