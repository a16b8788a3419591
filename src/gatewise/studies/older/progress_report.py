"""How far a study is, read from its folder: done, running, failed, waiting, and the time left.

Note [What is read]. ``study.json``, the beginning of every record, the whole records of the first
``MOST_NAMED`` cells that failed, and the end of the journal back to the last summary of every
driver at work. So the time grows with the number of cells, and not with the length of their curves
or of the journal.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gatewise.errors import DamagedFileError
from gatewise.studies.older.folder import CELLS, DAMAGED, TUNING, StudyFolder
from gatewise.studies.older.runner import ENDS

LABELS = ("key", "name", "unit", "backbone", "data", "recipe", "lr", "role", "seed")
SUMMARIES = ("began", "summary")
MOST_NAMED = 1000  # cells that failed or are damaged; the others are only counted
Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Status:
    """Counts of cells; ``running``, ``failed`` and ``damaged`` name them.

    ``stage`` is "tuning" while learning rates are chosen. Of many failed or damaged cells only the
    first are named; ``failed_count`` and ``damaged_count`` have all.
    """

    name: str
    title: str
    stage: str
    total: int
    finished: int
    diverged: int
    failed: tuple[Fields, ...]
    failed_count: int
    damaged: tuple[Fields, ...]  # records that cannot be read
    damaged_count: int
    running: tuple[Fields, ...]
    waiting: int
    driver: Fields | None  # the process at work; None if there is none
    drivers: tuple[Fields, ...]  # all of them, if there are several
    rate: float | None  # cells per second since those processes began
    seconds_left: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def status(folder: str | Path) -> Status:
    """Return the state of the study in ``folder``, which is not changed."""
    study = StudyFolder(folder)
    content = study.read()
    drivers = study.drivers()
    events = _recent_events(study, set(drivers))
    last = next((event for event in reversed(events) if event["event"] in SUMMARIES), {})
    stage = last.get("stage", CELLS) if drivers or not content["cells"] else CELLS
    if stage == CELLS:
        counts = _count_records(study, {cell["key"]: cell for cell in content["cells"]})
    else:
        counts = _count_events(events)
    running = []
    for key, since in _open_cells(events, set(drivers)).items():
        if key in counts.waiting:
            running.append(counts.waiting[key] | {"since": since})
    left = counts.total - counts.finished - counts.diverged - counts.failed_count
    rate = _rate(events, set(drivers))
    return Status(
        name=content["name"],
        title=content["title"],
        stage="tuning" if stage == TUNING else CELLS,
        total=counts.total,
        finished=counts.finished,
        diverged=counts.diverged,
        failed=tuple(counts.failed),
        failed_count=counts.failed_count,
        damaged=tuple(counts.damaged),
        damaged_count=counts.damaged_count,
        running=tuple(running),
        waiting=left - len(running),
        driver=next(iter(drivers.values()), None),
        drivers=tuple(drivers.values()),
        rate=rate,
        seconds_left=left / rate if rate and drivers else 0.0 if not left else None,
    )


@dataclass
class _Counts:
    """How many cells have ended, and how."""

    total: int = 0
    finished: int = 0
    diverged: int = 0
    failed_count: int = 0
    damaged_count: int = 0
    failed: list[Fields] = field(default_factory=list)
    damaged: list[Fields] = field(default_factory=list)
    # Labels of the cells that have not ended.
    waiting: dict[str, dict[str, Any]] = field(default_factory=dict)


def _count_records(study: StudyFolder, cells: Mapping[str, Fields]) -> _Counts:
    """Count the records of planned cells."""
    statuses = study.statuses(cells)
    numbers = Counter(statuses.values())
    counts = _Counts(
        total=len(cells),
        finished=numbers["finished"],
        diverged=numbers["diverged"],
        failed_count=numbers["failed"],
        damaged_count=numbers[DAMAGED],
    )
    for key, cell in cells.items():
        if statuses.get(key, DAMAGED) == DAMAGED:
            counts.waiting[key] = _labels(cell)
    bad = [key for key, status in statuses.items() if status in ("failed", DAMAGED)]
    records = study.records(bad[:MOST_NAMED])
    for record in records.readable.values():
        counts.failed.append(_labels(record) | {"reason": record["reason"]})
    for key, problem in records.damaged.items():
        counts.damaged.append({"key": key, "reason": str(problem)})
    return counts


def _count_events(events: Sequence[Fields]) -> _Counts:
    """Count the cells of a stage that is not planned in ``study.json``, by the journal."""
    counts = _Counts()
    for event in events:
        kind = event["event"]
        if kind in SUMMARIES:
            counts = _Counts(event["total"], event["done"], failed_count=event["failed"])
            for key in event.get("running", ()):
                counts.waiting[key] = {"key": key}
        elif kind == "started":
            counts.waiting[event["key"]] = {"key": event["key"]}
        elif kind in ENDS:
            counts.waiting.pop(event["key"], None)
            counts.finished += kind == "finished"
            counts.diverged += kind == "diverged"
            counts.failed_count += kind == "failed"
            if kind == "failed":
                counts.failed.append({"key": event["key"], "reason": event["reason"]})
    return counts


def _recent_events(study: StudyFolder, drivers: set[str]) -> Sequence[Fields]:
    """Return the events since the last summary of every driver at work, or of any driver."""

    def is_enough(events: Sequence[Fields]) -> bool:
        """Return whether every driver has a summary in the events."""
        owners = {event.get("driver", "") for event in events if event["event"] in SUMMARIES}
        return drivers <= owners if drivers else bool(owners)

    try:
        return study.journal.read_back(is_enough)
    except DamagedFileError:  # nothing is decided by it, and the next driver begins a new one
        return []


def _by_driver(events: Sequence[Fields], drivers: set[str]) -> dict[str, list[Fields]]:
    """Return the events of every driver at work since its last summary, which is the first."""
    of_driver: dict[str, list[Fields]] = {}
    for event in events:
        name = event.get("driver", "")
        if event["event"] in SUMMARIES:
            of_driver[name] = [event]
        elif name in of_driver:
            of_driver[name].append(event)
    return {name: own for name, own in of_driver.items() if name in drivers}


def _open_cells(events: Sequence[Fields], drivers: set[str]) -> dict[str, float]:
    """Return the cells that drivers at work have started and not ended, with their starts."""
    starts: dict[str, float] = {}
    for summary, *later in _by_driver(events, drivers).values():
        running = dict(summary.get("running", {}))
        for event in later:
            if event["event"] == "started":
                running[event["key"]] = event["time"]
            else:
                running.pop(event.get("key", ""), None)
        starts |= running
    return starts


def _rate(events: Sequence[Fields], drivers: set[str]) -> float | None:
    """Return cells per second of the drivers at work, or of the last one; None if none ended."""
    names = drivers or {event.get("driver", "") for event in events[-1:]}
    rate = 0.0
    for summary, *later in _by_driver(events, names).values():
        ends = [event["time"] for event in later if event["event"] in ENDS]
        count = summary.get("ended", 0) + len(ends)
        until = time.time() if drivers else (ends or [summary["time"]])[-1]
        if count:
            rate += count / max(1e-3, until - summary.get("began", summary["time"]))
    return rate or None


def _labels(cell: Fields) -> dict[str, Any]:
    """Return the labels of a cell."""
    return {name: cell[name] for name in LABELS if name in cell}
