"""Read tables of runs from files, folders and data frames as plain columns.

Note [Cells of a table]. Every cell becomes text, a number or None. Only the text says whether a
value is missing (an empty cell) or a run diverged (``nan``, ``inf``), so text is kept until the
value column is known. In a data frame NaN cannot be told from an empty cell and counts as diverged.
"""

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gatewise.errors import ArgumentError, FileError, MissingExtraError, install_extra
from gatewise.studies.records.logged_runs import (
    EVENTS,
    is_mlflow_folder,
    read_event_files,
    read_mlflow,
)

DATABASES = (".db", ".sqlite", ".sqlite3")
DELIMITERS = ",;\t|"
LARGEST = 200_000_000  # bytes of one file
# How data frames of pyarrow, polars and pandas become columns.
FRAMES = (("to_pydict", {}), ("to_dict", {"as_series": False}), ("to_dict", {"orient": "list"}))
MOST_CELLS = 20_000_000


@dataclass(frozen=True)
class RawTable:
    """Columns of equal length, and where they were read from.

    Attributes:
        columns: Name to values, in the order of the source.
        source: Where the table is from, for messages and for the page.
        rows: The number of each row in its source, for messages.
        decimal_comma: Whether numbers may be written with a comma.
        notes: What was decided while reading, in words.
    """

    columns: Mapping[str, Sequence[Any]]
    source: str
    rows: Sequence[str]
    decimal_comma: bool = False
    notes: Sequence[str] = field(default=())

    def __len__(self) -> int:
        return len(self.rows)


def read_table(table: Any) -> RawTable:
    """Return the columns of a file, of several files, of a folder, of a data frame or of rows.

    Args:
        table: A path (CSV, TSV, Parquet, a folder of TensorBoard or MLflow runs), a list of paths,
            a data frame (pandas, polars, pyarrow), a mapping of columns, or a list of rows.

    Raises:
        FileError: If a file cannot be read.
        ArgumentError: If there is no table in it.
    """
    if isinstance(table, str | Path):
        return _from_path(Path(table))
    if isinstance(table, RawTable):
        return table
    if isinstance(table, Mapping):
        return _from_columns(table, "the columns")
    if _is_list_of(table, (str, Path)):
        return _from_paths(list(map(Path, table)))
    if _is_list_of(table, (Mapping,)):
        return _from_columns(_columns_of(table), "the rows")
    frame = _frame_columns(table)
    if frame is not None:
        return _from_columns(frame, "the data frame")
    raise ArgumentError(
        "compare_records: this is not a table",
        got=type(table).__name__,
        allowed="a path, a list of paths, a data frame, a mapping of columns, or a list of rows",
    )


def _is_list_of(values: Any, kinds: tuple[type, ...]) -> bool:
    """Return whether ``values`` is a list with entries of some types only."""
    if isinstance(values, str | bytes) or not isinstance(values, Sequence) or not values:
        return False
    return all(isinstance(value, kinds) for value in values)


def _from_path(path: Path) -> RawTable:
    """Read one file or folder."""
    try:
        if path.is_dir():
            return _from_folder(path)
        if not path.is_file():
            raise FileError("stats: there is no such file", got=str(path))
        if path.stat().st_size > LARGEST:
            raise FileError(
                "stats: the file is too large",
                got=str(path),
                allowed=f"{LARGEST:,} bytes",
            )
    except (OSError, ValueError) as problem:
        if isinstance(problem, FileError):
            raise
        raise FileError("stats: the file cannot be read", got=f"{path}: {problem}") from problem
    if path.suffix.lower() in (".parquet", ".pq"):
        return _from_columns(_parquet(path), path.name)
    if path.suffix.lower() in DATABASES:
        return _named(read_mlflow(path), path.name, ("Runs of an MLflow data base.",))
    if path.name.startswith(EVENTS):
        return _named(read_event_files(path.parent, [path]), path.name, ())
    return _from_text(path)


def _from_paths(paths: Sequence[Path]) -> RawTable:
    """Read several files as one table; columns that a file lacks are empty in its rows."""
    if len(paths) == 1:
        return _from_path(paths[0])
    exported = list(map(_from_path, paths))
    columns: dict[str, list[Any]] = {}
    rows: list[str] = []
    notes: dict[str, None] = {}
    for path, table in zip(paths, exported, strict=True):
        for name in table.columns:
            columns.setdefault(name, [None] * len(rows))
        for name, column in columns.items():
            column.extend(table.columns.get(name, [None] * len(table)))
        for row in table.rows:
            rows.append(f"{path.name}, {row}")
        notes.update(dict.fromkeys(table.notes))
    return RawTable(
        columns=columns,
        source=f"{len(paths)} files",
        rows=rows,
        decimal_comma=any(table.decimal_comma for table in exported),
        notes=tuple(notes),
    )


def _run_of_export(path: Path, table: RawTable) -> RawTable:
    """Return a scalar that TensorBoard exported (one run a file) with the run's name as a column.

    Such a file has the columns Wall time, Step and Value. Its name is ``run-NAME-tag-TAG.csv``.
    """
    values = {name.lower(): column for name, column in table.columns.items()}
    if set(values) != {"wall time", "step", "value"}:
        return table
    stem = path.stem
    run, _, tag = stem.removeprefix("run-").partition("-tag-")
    columns = {
        "run name": [run or stem] * len(table),
        "step": values["step"],
        tag or "value": values["value"],
    }
    note = "Files of TensorBoard: the run is the name of the file."
    return RawTable(columns, table.source, table.rows, table.decimal_comma, (*table.notes, note))


def _from_folder(path: Path) -> RawTable:
    """Read a folder of MLflow or TensorBoard runs."""
    if is_mlflow_folder(path):
        return _named(read_mlflow(path), f"{path}", ("Runs of an MLflow folder.",))
    if (path / "mlflow.db").is_file():
        return _from_path(path / "mlflow.db")
    runs = read_event_files(path)
    if not runs:
        raise FileError(
            "stats: the folder has no runs of TensorBoard or MLflow",
            got=str(path),
            fix="name a CSV or Parquet file, or the folder that the runs were logged to",
        )
    return _named(runs, str(path), ("Event files of TensorBoard: the last value of each run.",))


def _named(rows: Sequence[Mapping[str, Any]], source: str, notes: Sequence[str]) -> RawTable:
    """Return rows whose first entry names the run."""
    labels = [f"run {row.get('run name')}" for row in rows]
    return RawTable(_columns_of(rows), source, labels, notes=tuple(notes))


def _from_text(path: Path) -> RawTable:
    """Read a text file with a header line."""
    text = _decoded(path)
    if text.startswith("{"):
        raise ArgumentError(
            "stats: this file is JSON, and no table of runs",
            got=str(path),
            allowed="CSV, TSV or Parquet; a study is read by gatewise.write_page and `report`",
        )
    if "\0" in text[:10_000]:
        raise FileError("stats: this is not a text file", got=str(path))
    lines = text.splitlines()
    header = next((line for line in lines if line.strip()), "")
    if not header:
        raise ArgumentError("stats: the file is empty", got=str(path))
    delimiter = max(DELIMITERS, key=header.count)
    try:
        rows = list(csv.reader(lines, delimiter=delimiter))
    except csv.Error as problem:
        raise FileError("stats: the file is not a table", got=f"{path}: {problem}") from problem
    numbered = [(number, row) for number, row in enumerate(rows, 1) if any(map(str.strip, row))]
    names = list(map(str.strip, numbered[0][1]))
    _check_names(names, str(path))
    columns: dict[str, list[Any]] = {name: [] for name in names}
    labels = []
    for number, row in numbered[1:]:
        if len(row) > len(names) and any(map(str.strip, row[len(names) :])):
            raise ArgumentError(
                f"stats: {path.name}, row {number} has {len(row)} cells",
                got=row[:8],
                allowed=f"{len(names)}, as in the header",
            )
        for place, name in enumerate(names):
            columns[name].append(row[place].strip() if place < len(row) else None)
        labels.append(f"row {number}")
    table = RawTable(columns, path.name, labels, decimal_comma=delimiter == ";")
    return _run_of_export(path, table)


def _decoded(path: Path) -> str:
    """Return the text of a file in UTF-8, or in the encodings that spreadsheets write."""
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise FileError("stats: the file cannot be read", got=f"{path}: {problem}") from problem
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16", errors="replace")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def _parquet(path: Path) -> Mapping[str, Sequence[Any]]:
    """Return the columns of a Parquet file."""
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as problem:
        raise MissingExtraError(
            "stats: Parquet files need pyarrow", fix=install_extra("tables")
        ) from problem
    try:
        return parquet.read_table(path).to_pydict()
    except (ArrowException, OSError, ValueError) as problem:
        text = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        raise FileError(
            "stats: the Parquet file cannot be read", got=f"{path}: {text}"
        ) from problem


def _columns_of(rows: Sequence[Mapping[Any, Any]]) -> dict[Any, list[Any]]:
    """Return the columns of rows; what a row lacks is None."""
    columns: dict[Any, list[Any]] = {}
    for place, row in enumerate(rows):
        for name in row:
            columns.setdefault(name, [None] * place)
        for name, column in columns.items():
            column.append(row.get(name))
    return columns


def _from_columns(columns: Mapping[Any, Any], source: str) -> RawTable:
    """Read a mapping of columns; one that is not named by text gets its text as a name."""
    named: dict[str, list[Any]] = {}
    _check_names(list(map(str, columns)), source)
    for name, values in columns.items():
        listed = _as_list(values)
        if listed is None:
            raise ArgumentError(
                f"compare_records: column {name!r} is not a list", got=type(values).__name__
            )
        named[str(name)] = list(map(_plain, listed))
    lengths = set(map(len, named.values()))
    if len(lengths) != 1:
        raise ArgumentError(
            "compare_records: the columns differ in length",
            got={name: len(values) for name, values in named.items()},
        )
    count = lengths.pop()
    if count * len(named) > MOST_CELLS:
        raise ArgumentError(
            "compare_records: the table is too large", got=f"{count * len(named):,} cells"
        )
    return RawTable(named, source, [f"row {row}" for row in range(1, count + 1)])


def _check_names(names: Sequence[str], source: str) -> None:
    """Raise if two columns have one name, or there is none."""
    double = sorted({name for name in names if name and names.count(name) > 1})
    if not names or double:
        raise ArgumentError(
            f"stats: {source} has two columns with one name"
            if double
            else f"stats: {source}: no columns",
            got=double or list(names),
        )


def _frame_columns(frame: Any) -> Mapping[Any, Any] | None:
    """Return the columns of a data frame of pandas, polars or pyarrow; None for other objects."""
    with suppress(AttributeError):  # pandas alone has an index
        frame = frame.reset_index() if any(frame.index.names) else frame
    for name, options in FRAMES:
        try:
            columns = getattr(frame, name)(**options)
        except (AttributeError, TypeError, ValueError):
            continue
        if isinstance(columns, Mapping):
            return columns
    return None


def _as_list(values: Any) -> list[Any] | None:
    """Return the values of a column; None if it is not a list of any form."""
    if isinstance(values, str | bytes | Mapping):
        return None
    try:
        if hasattr(values, "tolist"):
            return values.tolist()
        return list(values)
    except (TypeError, ValueError):
        return None


def _plain(value: Any) -> Any:
    """Return a cell as text, a number or None."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if hasattr(value, "item"):
        try:
            return _plain(value.item())
        except (ValueError, TypeError, RuntimeError):
            return str(value)
    return str(value)


def text_of(value: Any) -> str:
    """Return a cell as a label: whole numbers without a decimal point, None as nothing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value).strip()


def distinct(values: Iterable[Any]) -> list[str]:
    """Return the labels of a column without repetition, in order."""
    return [label for label in dict.fromkeys(map(text_of, values)) if label]
