"""A section for any question without a section of its own: its facts in tables."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gatewise.report.charts import Cell, Table
from gatewise.report.diagnosis.layer_charts import Facts
from gatewise.report.sheet import Folded
from gatewise.words import count, number

MOST_VALUES = 12  # of a list that is shown in one cell
MOST_ROWS = 500
Entries = Sequence[Facts]


def show_facts(facts: Facts) -> list[Any]:
    """Return one table of all single values, and one table per list of entries."""
    rows: list[list[str | Cell]] = []
    lists: list[tuple[str, Entries]] = []
    for name, value in _flat(facts):
        if _is_entries(value):
            lists.append((name, value))
        else:
            rows.append([name, _cell(value)])
    items: list[Any] = []
    if rows:
        items.append(Table(["fact", "value"], rows, align="lr"))
    for name, entries in lists:
        summary = f"{name}: {count(len(entries))} rows"
        items.append(Folded(summary, [_table(entries)], open=len(lists) == 1))
    return items


def _flat(facts: Facts, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every fact with its name; names of nested facts are joined by a comma."""
    for key, value in facts.items():
        name = f"{prefix}{str(key).replace('_', ' ')}"
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}, ")
        else:
            yield name, value


def _is_entries(value: Any) -> bool:
    """Whether ``value`` is a list of mappings, which becomes a table."""
    if not isinstance(value, list | tuple) or not value:
        return False
    return all(isinstance(entry, Mapping) for entry in value)


def _table(entries: Entries) -> Table:
    """A list of entries as a table with one column per key."""
    flat = [dict(_flat(entry)) for entry in entries[:MOST_ROWS]]
    columns: dict[str, None] = {}
    for entry in flat:
        columns |= dict.fromkeys(entry)
    rows = []
    for entry in flat:
        rows.append([_cell(entry.get(name)) for name in columns])
    caption = ""
    if len(entries) > MOST_ROWS:
        caption = f"The first {count(MOST_ROWS)} of {count(len(entries))} rows"
    return Table(list(columns), rows, caption)


def _cell(value: Any) -> Cell:
    """Any plain value as a cell; a long or nested list is only counted."""
    if value is None:
        return Cell("")
    if isinstance(value, bool):
        return Cell("yes" if value else "no")
    if isinstance(value, int):
        return Cell(count(value), value=value)
    if isinstance(value, float):
        return Cell(number(value, 4), value=value)
    if isinstance(value, list | tuple):
        if len(value) > MOST_VALUES or any(isinstance(entry, list | tuple) for entry in value):
            return Cell(f"{count(len(value))} values")
        return Cell(", ".join(_cell(entry).text for entry in value))
    return Cell(str(value))
