"""How far a study is, read from its folder: done, running, failed, waiting, and the time left."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gatewise.studies.engine.folder import CELLS, TUNING, StudyFolder, is_alive
from gatewise.studies.engine.runner import ENDS

LABELS = ("key", "name", "unit", "backbone", "data", "recipe", "seed")
Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Status:
    """Counts of cells; ``running`` and ``failed`` name them.

    ``stage`` is "tuning" while learning rates are chosen.
    """

    name: str
    title: str
    stage: str
    total: int
    finished: int
    diverged: int
    failed: tuple[Fields, ...]
    running: tuple[Fields, ...]
    waiting: int
    driver: Fields | None  # the process at work; None if there is none
    rate: float | None  # cells per second since that process began
    seconds_left: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def status(folder: str | Path) -> Status:
    """Return the state of the study in ``folder``, which is not changed."""
    study = StudyFolder(folder)
    content = study.read()
    driver = study.driver()
    if not is_alive(driver):
        driver = None
    events = _events_of_last_driver(study.journal.read())
    began = events[0] if events else {}
    stage = began.get("stage", CELLS) if driver or not content["cells"] else CELLS
    cells = {cell["key"]: cell for cell in content["cells"]} if stage == CELLS else {}
    keys = list(cells) or sorted({event["key"] for event in events if "key" in event})
    records: dict[str, Fields] = {}
    for key in keys:
        record = study.record(key, stage)
        if record is not None:
            records[key] = record
    running = []
    if driver:
        for event in _open_cells(events):
            if event["key"] not in records:
                labels = _labels(cells.get(event["key"], event))
                running.append(labels | {"since": event["time"]})
    failed = []
    for record in records.values():
        if record["status"] == "failed":
            failed.append(_labels(record) | {"reason": record["reason"]})
    statuses = [record["status"] for record in records.values()]
    total = len(cells) or began.get("total", 0)
    left = total - len(records)
    rate = _rate(events, driver)
    return Status(
        name=content["name"],
        title=content["title"],
        stage="tuning" if stage == TUNING else CELLS,
        total=total,
        finished=statuses.count("finished"),
        diverged=statuses.count("diverged"),
        failed=tuple(failed),
        running=tuple(running),
        waiting=left - len(running),
        driver=driver,
        rate=rate,
        seconds_left=left / rate if rate and driver else 0.0 if not left else None,
    )


def _events_of_last_driver(events: Sequence[Fields]) -> Sequence[Fields]:
    """Return the events from the last beginning on."""
    beginnings = [place for place, event in enumerate(events) if event["event"] == "began"]
    return events[beginnings[-1] :] if beginnings else []


def _open_cells(events: Sequence[Fields]) -> list[Fields]:
    """Return the starts of cells that have no later event."""
    starts: dict[str, Fields] = {}
    for event in events:
        if event["event"] == "started":
            starts[event["key"]] = event
        else:
            starts.pop(event.get("key", ""), None)
    return list(starts.values())


def _rate(events: Sequence[Fields], driver: Fields | None) -> float | None:
    """Return cells per second; None if no cell has ended."""
    ends = [event["time"] for event in events if event["event"] in ENDS]
    if not ends:
        return None
    until = time.time() if driver else ends[-1]
    return len(ends) / max(1e-3, until - events[0]["time"])


def _labels(cell: Fields) -> dict[str, Any]:
    """Return the labels of a cell."""
    return {name: cell[name] for name in LABELS if name in cell}
