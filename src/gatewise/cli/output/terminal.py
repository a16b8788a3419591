"""How commands print: text and tables for people, JSON for programs, errors in one line."""

import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gatewise.errors import ArgumentError, FileError, shorten

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

PIPE_WIDTH = 250  # columns in a pipe, so that each row is one line that can be searched


def console(*, error: bool = False) -> "Console":
    """Return the console for stdout or stderr. It has colour on a terminal without NO_COLOR."""
    from rich.console import Console

    stream = sys.stderr if error else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    return Console(file=stream, width=width, highlight=False, emoji=False, markup=False)


def print_error(message: str) -> None:
    """Print one red line to stderr."""
    from rich.text import Text

    text = Text.assemble(("error: ", "bold red"), (shorten(message, 2000), "red"))
    console(error=True).print(text, soft_wrap=True)


def print_note(message: str) -> None:
    """Print one line to stderr that is not an error."""
    console(error=True).print(message, soft_wrap=True)


def print_rich(*parts: "RenderableType") -> None:
    """Print tables and text to stdout, without the trailing blanks that rich adds to lines."""
    out = console()
    # On a terminal, rich may use the cursor, so its output must not be changed.
    if out.is_terminal:
        return out.print(*parts, sep="\n")
    with out.capture() as captured:
        out.print(*parts, sep="\n")
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def print_json(value: Any) -> None:
    """Print ``value`` as JSON to stdout. Infinity and NaN, which JSON lacks, become strings."""
    print(json.dumps(plain_data(value), indent=2, allow_nan=False))


def plain_data(value: Any) -> Any:
    """Return ``value`` in the types of JSON."""
    if isinstance(value, Mapping):
        return {str(key): plain_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain_data(item) for item in value]
    if isinstance(value, Fraction):
        return value.numerator if value.denominator == 1 else float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    return str(value)


def table(*columns: str, right: Iterable[str] = (), whole: Iterable[str] = ()) -> "Table":
    """Return an empty table in the style of all tables.

    Args:
        *columns: The names of the columns.
        right: The columns to align right.
        whole: The columns whose cells are never broken into lines.
    """
    from rich import box
    from rich.table import Table

    empty = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    for name in columns:
        justify = "right" if name in right else "left"
        empty.add_column(name, justify=justify, overflow="fold", no_wrap=name in whole)
    return empty


@contextmanager
def progress(names: list[str], doing: str) -> Iterator[Iterator[str]]:
    """Yield an iterator over ``names`` that shows a bar if stderr is a terminal."""
    from rich.progress import Progress

    out = console(error=True)
    with Progress(console=out, transient=True, disable=not out.is_terminal) as bar:
        task = bar.add_task(doing, total=len(names))

        def walk() -> Iterator[str]:
            for name in names:
                bar.update(task, description=f"{doing} {name}")
                yield name
                bar.advance(task)

        yield walk()


def check_target(path: Path, suffixes: tuple[str, ...] = ()) -> Path:
    """Return ``path`` if a file can be written there. Checked before a command starts to work.

    Args:
        path: The file.
        suffixes: The allowed endings. Any by default.
    """
    if suffixes and path.suffix.lower() not in suffixes:
        raise ArgumentError(
            "the file name has an unknown ending",
            got=path.name,
            allowed=", ".join(suffixes),
        )
    try:
        return _check_place(path)
    except (OSError, ValueError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(
            "the file cannot be written",
            got=str(path),
            fix="name another file",
        ) from error


def _check_place(path: Path) -> Path:
    """Return ``path`` if its folder exists and can be written to."""
    folder = path.parent
    if path.is_dir():
        raise FileError(
            "this is a folder, not a file",
            got=str(path),
            fix="name a file in that folder",
        )
    if not folder.is_dir():
        raise FileError(
            "the folder to write to does not exist",
            got=str(folder),
            fix="create the folder first, or name another",
        )
    if not os.access(folder, os.W_OK):
        raise FileError(
            "no permission to write to the folder",
            got=str(folder),
            fix="name another folder",
        )
    return path
