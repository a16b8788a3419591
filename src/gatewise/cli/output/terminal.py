"""What commands print: text for people on a terminal or in a pipe, JSON for programs, errors in one line."""

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

PIPE_WIDTH = 250  # in a pipe a row is one line, however long, so that it can be searched


def console(*, error: bool = False) -> "Console":
    """Where to print. Colour only on a terminal and without NO_COLOR; rich reads both."""
    from rich.console import Console

    stream = sys.stderr if error else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    return Console(file=stream, width=width, highlight=False, emoji=False, markup=False)


def print_error(message: str) -> None:
    """One red line on stderr."""
    from rich.text import Text

    text = Text.assemble(("error: ", "bold red"), (shorten(message, 2000), "red"))
    console(error=True).print(text, soft_wrap=True)


def print_note(message: str) -> None:
    """One line on stderr that is not an error."""
    console(error=True).print(message, soft_wrap=True)


def print_rich(*parts: "RenderableType") -> None:
    """Tables and text on stdout, without the blanks that rich pads lines with when they go to a file."""
    out = console()
    if out.is_terminal:
        return out.print(*parts, sep="\n")
    with out.capture() as captured:
        out.print(*parts, sep="\n")
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def print_json(value: Any) -> None:
    """``value`` as JSON on stdout, and nothing else.

    What JSON cannot say (inf, nan) is said as a string.
    """
    print(json.dumps(plain_data(value), indent=2, allow_nan=False))


def plain_data(value: Any) -> Any:
    """``value`` in the types JSON has."""
    if isinstance(value, Mapping):
        return {str(k): plain_data(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain_data(v) for v in value]
    if isinstance(value, Fraction):
        return value.numerator if value.denominator == 1 else float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)


def table(*columns: str, right: Iterable[str] = (), whole: Iterable[str] = ()) -> "Table":
    """An empty table in the style of all our tables.

    Columns in ``whole`` are never broken into lines.
    """
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    for name in columns:
        made.add_column(
            name,
            justify="right" if name in right else "left",
            overflow="fold",
            no_wrap=name in whole,
        )
    return made


@contextmanager
def progress(names: list[str], doing: str) -> Iterator[Iterator[str]]:
    """``names`` one by one, with a bar on stderr where that is a terminal."""
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
    """``path`` if a file can be written there; said before the work is done, not after."""
    if suffixes and path.suffix.lower() not in suffixes:
        raise ArgumentError(
            "the file's ending says how to write it", got=path.name, allowed=", ".join(suffixes)
        )
    try:
        return _check_place(path)
    except (OSError, ValueError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(
            "the file cannot be written", got=str(path), fix="name another file"
        ) from error


def _check_place(path: Path) -> Path:
    folder = path.parent
    if path.is_dir():
        raise FileError(
            "a folder is where the file should go", got=str(path), fix="name a file in that folder"
        )
    if not folder.is_dir():
        raise FileError(
            "there is no such folder to write to",
            got=str(folder),
            fix="make the folder first, or name another",
        )
    if not os.access(folder, os.W_OK):
        raise FileError(
            "the folder may not be written to", got=str(folder), fix="name a folder of your own"
        )
    return path
