"""How far a study is, asked from outside.

Done, running, failed, waiting, and the time that is left.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gatewise.studies.engine.folder import CELLS, TUNING, StudyFolder, is_alive

ENDS = ("finished", "diverged", "failed")
PLACE = ("key", "unit", "backbone", "data", "recipe", "seed")


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
    failed: tuple[Mapping[str, Any], ...]
    running: tuple[Mapping[str, Any], ...]
    waiting: int
    driver: Mapping[str, Any] | None  # who is at work; None if nobody is
    rate: float | None  # cells a second since that one began
    seconds_left: float | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def status(folder: str | Path) -> Status:
    """The state of the study in ``folder``; nothing is touched."""
    place = StudyFolder(folder)
    content, events = place.read(), place.journal.read()
    driver = place.driver()
    driver = driver if is_alive(driver) else None
    now = _of_this_driver(events)
    began = now[0] if now else {}
    stage = began.get("stage", CELLS) if driver or not content["cells"] else CELLS
    cells: Sequence[Mapping[str, Any]] = content["cells"] if stage == CELLS else []
    keys = [cell["key"] for cell in cells] or sorted(
        {event["key"] for event in now if "key" in event}
    )
    records = [
        record for record in (place.record(key, stage) for key in keys) if record is not None
    ]
    done = {record["key"] for record in records}
    running = [event for event in _open(now) if event["key"] not in done] if driver else []
    total = len(cells) or began.get("total", 0)
    by_key = {cell["key"]: cell for cell in cells}
    rate = _rate(now, driver)
    left = total - len(done)
    return Status(
        name=content["name"],
        title=content["title"],
        stage="tuning" if stage == TUNING else CELLS,
        total=total,
        finished=_count(records, "finished"),
        diverged=_count(records, "diverged"),
        failed=tuple(
            _brief(record) | {"reason": record["reason"]}
            for record in records
            if _is_failed(record)
        ),
        running=tuple(
            _brief(by_key.get(event["key"], event)) | {"since": event["time"]} for event in running
        ),
        waiting=left - len(running),
        driver=driver,
        rate=rate,
        seconds_left=left / rate if rate and driver else 0.0 if not left else None,
    )


def _of_this_driver(events: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """From the last beginning on."""
    last = max(
        (place for place, event in enumerate(events) if event["event"] == "began"), default=None
    )
    return [] if last is None else list(events[last:])


def _open(events: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Beginnings of cells that nothing was said of since."""
    found: dict[str, Mapping[str, Any]] = {}
    for event in events:
        if event["event"] == "started":
            found[event["key"]] = event
        else:
            found.pop(event.get("key", ""), None)
    return list(found.values())


def _rate(events: Sequence[Mapping[str, Any]], driver: Mapping[str, Any] | None) -> float | None:
    ended = [event["time"] for event in events if event["event"] in ENDS]
    if not ended:
        return None
    until = time.time() if driver else ended[-1]
    return len(ended) / max(1e-3, until - events[0]["time"])


def _count(records: Sequence[Mapping[str, Any]], kind: str) -> int:
    return sum(record["status"] == kind for record in records)


def _is_failed(record: Mapping[str, Any]) -> bool:
    return record["status"] == "failed"


def _brief(cell: Mapping[str, Any]) -> dict[str, Any]:
    return {name: cell[name] for name in PLACE if name in cell}
