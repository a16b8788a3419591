"""Runs of other training loops, recorded as the cells of a study.

One table and page for whatever trained them.

Note [A study that grows]. Nobody plans such a study: every recorder adds its cell to ``study.json``
when its run begins, under the lock of the folder, and writes the cell's record when the run ends. A
run that was recorded before is recorded again only when the first was not finished.
"""

import json
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gatewise.errors import ArgumentError, HeldError
from gatewise.files import digest, make_folder, write_record
from gatewise.graph import parameter_count
from gatewise.studies.engine import CELLS, FORMAT, KEY, RECORD, StudyFolder
from gatewise.train import environment, tensors_digest

PATIENCE = 60.0  # seconds to wait for another recorder, which holds the folder for moments only
LABELS = ("unit", "backbone", "data", "recipe")


class Recorder:
    """One run as a cell: begun with its network, told its metrics after each epoch, and ended.

    Args: folder: of the whole study; runs of all units and seeds share it. unit, seed: what this
        run is of. baseline: the unit that others are compared with. backbone, data, recipe: what
        tables call the rest; runs are compared where these agree. metric: ``"test_accuracy"`` or
        ``"test_loss"``: what is compared, by the names that :meth:`epoch` is given.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        unit: str,
        seed: int,
        baseline: str = "relu",
        backbone: str = "model",
        data: str = "data",
        recipe: str = "recipe",
        metric: str = "test_accuracy",
        title: str = "",
    ) -> None:
        place = {"unit": unit, "backbone": backbone, "data": data, "recipe": recipe}
        for name, value in {**place, "baseline": baseline}.items():
            if not isinstance(value, str) or not 1 <= len(value) <= 100:
                raise ArgumentError(f"{name}: a name of 1 to 100 letters is needed", got=value)
        if type(seed) is not int or not 0 <= seed < 2**63:
            raise ArgumentError("seed: a whole number from 0 is needed", got=seed)
        if metric not in ("test_accuracy", "test_loss"):
            raise ArgumentError(
                "metric is not known", got=metric, allowed="test_accuracy or test_loss"
            )
        self.folder, self.metric, self.baseline, self.title = (
            StudyFolder(folder),
            metric,
            baseline,
            title,
        )
        key = digest(json.dumps([place, seed], sort_keys=True).encode())[:KEY]
        self.cell = {"key": key, **place, "seed": seed, "config": {}}
        self.curve: list[dict[str, float | None]] = []
        self.begun: float | None = None

    def start(self, network: nn.Module) -> None:
        """The run begins."""
        self.curve = []
        self.begun, self.worked = time.monotonic(), time.process_time()
        group = {
            **{name: self.cell[name] for name in LABELS},
            "parameters": parameter_count(network),
            "flops": None,
            "saved_bytes": None,
            "matched": {},
            "unequal": [],
        }
        with self._held():
            record = self.folder.record(self.cell["key"])
            if record is not None and record["status"] == "finished":
                raise ArgumentError(
                    "recorder: this run is recorded already",
                    got=self._name,
                    fix="another folder, seed or label",
                )
            before = self.folder.check(NAME) or {}
            self._check_agrees(before)
            self.folder.write(self._content(before, group))

    def epoch(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Numbers after an epoch: ``train_loss``, ``test_loss``, ``test_accuracy``.

        Others are kept too.
        """
        self._check_started()
        line: dict[str, float | None] = {"epoch": epoch}
        for name, value in metrics.items():
            try:
                number = float(value)
            except (TypeError, ValueError) as problem:
                raise ArgumentError(f"recorder: {name} is not a number", got=value) from problem
            if "accuracy" in str(name) and not number <= 1:
                raise ArgumentError(
                    f"recorder: {name} is a share",
                    got=number,
                    allowed="0 to 1",
                    fix="divide it by 100",
                )
            line[str(name)] = number if math.isfinite(number) else None
        self.curve.append(line)

    def end(self, network: nn.Module, *, problem: str | None = None) -> None:
        """The run has come to its end, or to a ``problem``."""
        begun = self._check_started()
        last = self.curve[-1] if self.curve else {}
        status, reason = "finished", None
        if problem is not None:
            status, reason = "failed", problem
        elif last.get(self.metric) is None:
            status, reason = (
                "failed",
                f"no finite {self.metric} was told: {', '.join(last) or 'nothing'}",
            )
        record = {
            "format": FORMAT,
            **{name: value for name, value in self.cell.items() if name != "config"},
            "status": status,
            "reason": reason,
            "metrics": last or None,
            "best": self._best(),
            "curve": self.curve,
            "seconds": round(time.monotonic() - begun, 3),
            "process_seconds": round(time.process_time() - self.worked, 3),
            "environment": environment(),
            "weights_sha256": tensors_digest(
                {name: each.cpu() for name, each in network.state_dict().items()}
            ),
            "parameters": parameter_count(network),
            "flops": None,
            "saved_bytes": None,
        }
        place = self.folder.path / CELLS / self.cell["key"]
        make_folder(place)
        write_record(place / RECORD, record)

    def _best(self) -> dict[str, float | None] | None:
        known = [
            (line["test_loss"], line) for line in self.curve if line.get("test_loss") is not None
        ]
        return min(known, key=lambda pair: pair[0] or 0.0, default=(None, None))[1]

    def _check_started(self) -> float:
        if self.begun is None:
            raise ArgumentError(
                "recorder: the run has not begun", got=self._name, fix="call start(network) first"
            )
        return self.begun

    def _check_agrees(self, before: Mapping[str, Any]) -> None:
        for name, mine in (("baseline", self.baseline), ("metric", self.metric)):
            if before and before.get(name) != mine:
                raise ArgumentError(
                    f"recorder: the study in {self.folder.path} has another {name}",
                    got=mine,
                    allowed=before.get(name),
                )

    @property
    def _name(self) -> str:
        return f"{self.cell['unit']} in {self.cell['backbone']}, seed {self.cell['seed']}"

    @contextmanager
    def _held(self) -> Iterator[None]:
        until = time.monotonic() + PATIENCE
        self.folder.check(NAME)
        while True:
            try:
                with self.folder.claimed():
                    yield
                    return
            except HeldError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def _content(self, before: Mapping[str, Any], group: dict[str, Any]) -> dict[str, Any]:
        """What ``study.json`` says from now on."""
        cells = [each for each in before.get("cells", []) if each["key"] != self.cell["key"]] + [
            self.cell
        ]
        places = [each for each in before.get("groups", []) if _place(each) != _place(group)] + [
            group
        ]
        units = list(dict.fromkeys(each["unit"] for each in cells))
        plain = {
            "title": self.title,
            "units": [{"name": each, "label": each} for each in units],
            "baseline": self.baseline,
            "seeds": sorted({each["seed"] for each in cells}),
            "match": "none",
            "recipe": {},
            "backbones": [
                {"name": each, "model": each}
                for each in dict.fromkeys(c["backbone"] for c in cells)
            ],
            "data": [
                {"name": each, "label": each} for each in dict.fromkeys(c["data"] for c in cells)
            ],
        }
        return {
            "name": NAME,
            "title": self.title or before.get("title", ""),
            "study": plain,
            "gatewise": environment()["gatewise"],
            "origin": "recorder",
            "baseline": self.baseline,
            "metric": self.metric,
            "match": "none",
            "threads": torch.get_num_threads(),
            "data_sha256": {},
            "tuned": [],
            "groups": places,
            "cells": cells,
        }


NAME = "recorded"  # in place of the name of a planned study


def _place(group: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(group[name] for name in LABELS)
