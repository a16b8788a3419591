"""Plans and receipts as text."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gatewise.surgery.planning.plans import Entry, Plan

HEADS = ("site", "kind", "from", "to", "channels", "change")


def plan_as_text(plan: "Plan") -> str:
    """One line for each site, and what it comes to."""
    rows = [_row(entry, plan.unit) for entry in plan.entries]
    summary = (
        f"{len(plan.swapped)} of {len(plan.entries)} sites change, {len(plan.refused)} refused; "
    )
    summary += f"parameters {_change(plan.parameters)}, operations {_change(plan.operations)}"
    put_back = (f"put back: {edge}" for edge in plan.put_back)
    return "\n".join([*table(HEADS, rows), summary, *put_back, *plan.notes])


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with aligned columns."""
    widths = [max(len(str(row[column])) for row in (heads, *rows)) for column in range(len(heads))]
    lines = [
        "  ".join(str(cell).ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in (heads, *rows)
    ]
    return [line.rstrip() for line in lines]


def _row(entry: "Entry", unit: str) -> tuple[str, ...]:
    after = f"{entry.channels} to {entry.after}" if entry.change == "swap" else str(entry.channels)
    change = {
        "swap": f"{entry.op} to {unit}",
        "refuse": f"refused: {entry.why}",
        "leave": f"left: {entry.why}",
    }
    made, read = _few(entry.producers), _few(entry.consumers)
    return entry.site, entry.kind, made, read, after, change[entry.change].removesuffix(": ")


def _few(paths: Sequence[str]) -> str:
    shown = ", ".join(paths[:2])
    return f"{shown} and {len(paths) - 2} more" if len(paths) > 2 else shown


def _change(pair: tuple[int, int]) -> str:
    before, after = pair
    return f"{before:,} to {after:,} (x {after / max(1, before):.2f})"
