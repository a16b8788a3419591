"""Where the records of a monitor go: a JSON-lines or CSV file, TensorBoard, or a function."""

import csv
import io
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

from gatewise.analysis.monitoring.site_activity import MonitorRecord
from gatewise.errors import ArgumentError, MissingExtraError, install_extra
from gatewise.files import Journal, write_text
from gatewise.results import plain_values

ALLOWED = (
    "FILE.jsonl, FILE.csv, a folder for TensorBoard, an object with add_scalar, a function of a "
    "record, or a list of these"
)
COLUMNS = (
    "step",
    "site",
    "unit",
    "channels",
    "on_rate",
    "dead",
    "always_off",
    "always_on",
    "dormant",
    "saturated",
)


class Destination(Protocol):
    """Receives every record."""

    def add(self, record: MonitorRecord) -> None:
        """Write one record."""
        ...

    def close(self) -> None:
        """Finish writing."""
        ...


def make_destinations(to: Any) -> list[Destination]:
    """Return the destinations that ``to`` names.

    Args:
        to: A path, a writer, a function, or a list of them.

    Raises:
        ArgumentError: ``to`` is none of these.
        MissingExtraError: TensorBoard is not installed.
    """
    several = to if isinstance(to, list | tuple) else [to]
    return [_destination(one) for one in several]


def _destination(to: Any) -> Destination:
    if isinstance(to, str | Path):
        path = Path(to)
        match path.suffix:
            case ".jsonl":
                return JsonLines(path)
            case ".csv":
                return CsvTable(path)
            case "":
                return Scalars(_summary_writer(path), ours=True)
    elif hasattr(to, "add_scalar"):
        return Scalars(to, ours=False)
    elif callable(to):
        return Caller(to)
    raise ArgumentError("GateMonitor: to is no destination", got=to, allowed=ALLOWED)


class JsonLines:
    """One JSON object for each record, appended: it survives an end of the process.

    Args:
        path: The file. Records are added to an existing one.
    """

    def __init__(self, path: Path) -> None:
        self.journal = Journal(path)

    def add(self, record: MonitorRecord) -> None:
        """Append the record."""
        self.journal.append(plain_values(record, finite=True))

    def close(self) -> None:
        """Every record is on the disk already."""


class CsvTable:
    """One row for each site of each record. The whole file is replaced for each record.

    Args:
        path: The file. An existing one is an error: its rows would be lost.
    """

    def __init__(self, path: Path) -> None:
        if path.exists():
            raise ArgumentError(
                "GateMonitor: the CSV file exists",
                got=str(path),
                fix="another name, or FILE.jsonl, which records are added to",
            )
        self.path = path
        self.rows: list[dict[str, Any]] = []

    def add(self, record: MonitorRecord) -> None:
        """Add the rows and write the file."""
        self.rows += record.rows()
        text = io.StringIO()
        table: csv.DictWriter[str] = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows(self.rows)
        write_text(self.path, text.getvalue())

    def close(self) -> None:
        """The file is whole already."""


class Scalars:
    """The scalars of a TensorBoard writer, or of any object with ``add_scalar``.

    Args:
        writer: The writer.
        ours: Whether to close it at the end.
    """

    def __init__(self, writer: Any, *, ours: bool) -> None:
        self.writer = writer
        self.ours = ours

    def add(self, record: MonitorRecord) -> None:
        """Write a scalar for each number."""
        for tag, value in record.scalars().items():
            self.writer.add_scalar(tag, value, record.step)

    def close(self) -> None:
        """Close a writer that was opened here; write out what another one holds."""
        if self.ours:
            self.writer.close()
        elif hasattr(self.writer, "flush"):
            self.writer.flush()


class Caller:
    """A function of the user that receives each record.

    Args:
        function: The function.
    """

    def __init__(self, function: Callable[[MonitorRecord], object]) -> None:
        self.function = function

    def add(self, record: MonitorRecord) -> None:
        """Pass the record on."""
        self.function(record)

    def close(self) -> None:
        """Nothing to do."""


def close_all(destinations: Iterable[Destination]) -> None:
    """Close every destination."""
    for destination in destinations:
        destination.close()


def _summary_writer(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard.writer import SummaryWriter
    except ImportError as problem:
        raise MissingExtraError(
            "tensorboard is not installed", fix=install_extra("tensorboard")
        ) from problem
    return SummaryWriter(str(folder))
