"""Plans as text."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gatewise.surgery.planning.plans import Entry, PlanData

SHOWN = 8  # unreached parts of a model that a text names
HEADS = ("site", "kind", "from", "to", "channels", "change")


def plan_as_text(plan: "PlanData") -> str:
    """A table with one line for each site, and a summary of the cost."""
    rows = [_row(entry) for entry in plan.entries]
    summary = (
        f"{len(plan.swapped)} of {len(plan.entries)} sites change, {len(plan.refused)} refused; "
        f"parameters {_change(plan.parameters)}, operations {_change(plan.operations)}"
    )
    put_back = [f"put back: {edge}" for edge in plan.put_back]
    unreached = unreached_lines(plan.unreached)
    return "\n".join([*table(HEADS, rows), summary, *put_back, *unreached, *plan.notes])


def unreached_lines(parts: Sequence[str]) -> list[str]:
    """A line for each of the first parts of a model that no example has reached."""
    lines = [f"not reached by any example: {part}" for part in parts[:SHOWN]]
    if len(parts) > SHOWN:
        lines.append(f"and {len(parts) - SHOWN} more parts, all in .unreached")
    return lines


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with aligned columns."""
    widths = [max(len(str(row[column])) for row in (heads, *rows)) for column in range(len(heads))]
    lines = []
    for row in (heads, *rows):
        cells = [str(cell).ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return lines


def _row(entry: "Entry") -> tuple[str, ...]:
    channels = str(entry.channels)
    if entry.change == "swap":
        channels = f"{entry.channels} to {entry.after}"
        change = f"{entry.op} to {entry.unit}"
    else:
        change = "refused" if entry.change == "refuse" else "left"
        if entry.why:
            change += f": {entry.why}"
    producers = _first_two(entry.producers)
    consumers = _first_two(entry.consumers)
    return entry.site, entry.kind, producers, consumers, channels, change


def _first_two(paths: Sequence[str]) -> str:
    shown = ", ".join(paths[:2])
    return f"{shown} and {len(paths) - 2} more" if len(paths) > 2 else shown


def _change(pair: tuple[int, int]) -> str:
    before, after = pair
    return f"{before:,} to {after:,} (x {after / max(1, before):.2f})"
