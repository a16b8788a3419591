"""Tables of facts, and a section for any question without one of its own."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from gatewise.report.charts import Cell, Table
from gatewise.report.diagnosis.layer_charts import Facts, value_cell
from gatewise.report.sheet import Folded
from gatewise.words import count

MOST_VALUES = 12  # of a list that is shown in one cell
MOST_ROWS = 500
SHORT = 12  # a table of at most so many rows is open at first, if it is the only one
Column = str | Callable[[Facts], Any]


def show_facts(facts: Facts) -> list[Any]:
    """Return one table of all single values, and one table per list of entries."""
    single: dict[str, Any] = {}
    lists: list[tuple[str, Sequence[Facts]]] = []
    for name, value in _flat(facts):
        if _is_entries(value):
            lists.append((name, value))
        elif value not in ([], ()):
            single[name] = value
    items: list[Any] = [numbers_table(single, "value", "fact")] if single else []
    for name, entries in lists:
        is_short = len(lists) == 1 and len(entries) <= SHORT
        flat = [dict(_flat(entry)) for entry in entries[:MOST_ROWS]]
        caption = ""
        if len(entries) > MOST_ROWS:
            caption = f"The first {count(MOST_ROWS)} of {count(len(entries))} rows"
        table = fact_table(flat, {key: key for entry in flat for key in entry}, caption)
        items.append(Folded(f"{name}: {count(len(entries))} rows", [table], open=is_short))
    return items


def fact_table(rows: Sequence[Facts], columns: Mapping[str, Column], caption: str = "") -> Table:
    """Return a table with one row for each entry. Columns of numbers are on the right.

    Args:
        rows: The entries.
        columns: For each heading, the key of the value or a function of the entry.
        caption: What the table shows.
    """
    cells = []
    for row in rows:
        values = (show(row) if callable(show) else row.get(show) for show in columns.values())
        cells.append([_cell(value) for value in values])
    align = ""
    for column in range(len(columns)):
        has_number = any(row[column].value is not None for row in cells)
        align += "r" if has_number and column else "l"
    return Table(list(columns), cells, caption, align)


def numbers_table(numbers: Facts, heading: str, names: str = "") -> Table:
    """Return a table of named numbers.

    Args:
        numbers: The values by name.
        heading: Above the values.
        names: Above the names.
    """
    rows = [{"name": name, "value": value} for name, value in numbers.items()]
    return fact_table(rows, {names: "name", heading: "value"})


def folded_table(rows: Sequence[Facts], columns: Mapping[str, Column], what: str) -> Folded:
    """Return a table of all entries, which is closed at first.

    Args:
        rows: The entries.
        columns: As in :func:`fact_table`.
        what: What the entries are.
    """
    return Folded(f"All {len(rows)} {what} in a table", [fact_table(rows, columns)])


def shown(key: str, show: Callable[[float | None], str]) -> Callable[[Facts], Cell]:
    """Return a column with the number ``key`` as ``show`` writes it."""
    return partial(_shown, key, show)


def _shown(key: str, show: Callable[[float | None], str], row: Facts) -> Cell:
    return value_cell(row.get(key), show)


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


def _cell(value: Any) -> Cell:
    """Any plain value as a cell; a long or nested list is only counted."""
    if isinstance(value, Cell):
        return value
    if value is None:
        return Cell("")
    if isinstance(value, bool):
        return Cell("yes" if value else "no")
    if isinstance(value, int):
        return Cell(count(value), value=value)
    if isinstance(value, float):
        return value_cell(value)
    if isinstance(value, list | tuple):
        if len(value) > MOST_VALUES or any(isinstance(entry, list | tuple) for entry in value):
            return Cell(f"{count(len(value))} values")
        return Cell(", ".join(_cell(entry).text for entry in value))
    return Cell(str(value))
