"""Record runs of other training loops as cells of a study.

Note [A study that grows]. Such a study is not planned. Every recorder adds its cell to
``study.json`` when its run begins, under the lock of the folder, and writes the cell's record when
the run ends. A run can be recorded again only if the first one did not finish.
"""

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gatewise.errors import ArgumentError, HeldError
from gatewise.files import digest, make_folder, write_record
from gatewise.graph import parameter_count
from gatewise.studies.older import CELLS, FORMAT, KEY, METRICS, RECORD, StudyFolder
from gatewise.train import environment, tensors_digest

# Seconds to wait for another recorder, which holds the folder for a moment only.
PATIENCE = 60.0
NAME = "recorded"  # in place of the name of a planned study
LABELS = ("unit", "backbone", "data", "recipe")


class Recorder:
    """Records one run as a cell: call :meth:`start`, :meth:`epoch` after each epoch, :meth:`end`.

    Args:
        folder: of the whole study; runs of all units and seeds share it.
        unit: label of the unit in this run.
        seed: of this run.
        baseline: the unit that others are compared with.
        backbone: label of the network. Runs are compared if backbone, data and recipe agree.
        data: label of the data set.
        recipe: label of the way of training.
        metric: ``"test_accuracy"``, ``"test_loss"`` or ``"test_bits_per_byte"``: the metric
            compared, by the name that :meth:`epoch` is given.
        title: of the page.
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
        if metric not in METRICS:
            raise ArgumentError(
                "metric is not known",
                got=metric,
                allowed=" or ".join(METRICS),
            )
        self.folder = StudyFolder(folder)
        self.metric = metric
        self.baseline = baseline
        self.title = title
        key = digest(json.dumps([place, seed], sort_keys=True).encode())[:KEY]
        self.cell = {"key": key, **place, "seed": seed, "config": {}}
        self.curve: list[dict[str, float | None]] = []
        self.begun: float | None = None

    def start(self, network: nn.Module) -> None:
        """Add the cell to the study. Call this before training begins.

        Raises:
            ArgumentError: if the run is already recorded, or the study has another baseline or
                metric.
        """
        self.curve = []
        self.begun = time.monotonic()
        self.begun_process = time.process_time()
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
        """Keep the numbers of an epoch.

        Args:
            epoch: its number.
            metrics: ``train_loss``, ``test_loss``, ``test_accuracy`` (0 to 1), and any others.
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
                    f"recorder: {name} must be a share",
                    got=number,
                    allowed="0 to 1",
                    fix="divide it by 100",
                )
            line[str(name)] = number if math.isfinite(number) else None
        self.curve.append(line)

    def end(self, network: nn.Module, *, problem: str | None = None) -> None:
        """Write the record of the run.

        Args:
            network: after training; its weights are digested.
            problem: why the run failed, if it did.
        """
        begun = self._check_started()
        last = self.curve[-1] if self.curve else {}
        reason = problem
        if reason is None and last.get(self.metric) is None:
            metrics = ", ".join(last) or "nothing"
            reason = f"no finite {self.metric} was recorded, only: {metrics}"
        weights = {name: tensor.cpu() for name, tensor in network.state_dict().items()}
        record = {
            "format": FORMAT,
            **{name: value for name, value in self.cell.items() if name != "config"},
            "status": "finished" if reason is None else "failed",
            "reason": reason,
            "metrics": last or None,
            "best": self._best(),
            "curve": self.curve,
            "seconds": round(time.monotonic() - begun, 3),
            "process_seconds": round(time.process_time() - self.begun_process, 3),
            "environment": environment(),
            "weights_sha256": tensors_digest(weights),
            "parameters": parameter_count(network),
            "flops": None,
            "saved_bytes": None,
        }
        place = self.folder.path / CELLS / self.cell["key"]
        make_folder(place)
        write_record(place / RECORD, record)

    def _best(self) -> dict[str, float | None] | None:
        """Return the epoch with the lowest test loss."""
        best = None
        lowest = math.inf
        for line in self.curve:
            loss = line.get("test_loss")
            if loss is not None and loss < lowest:
                best = line
                lowest = loss
        return best

    def _check_started(self) -> float:
        """Return when the run began; raise if it has not."""
        if self.begun is None:
            raise ArgumentError(
                "recorder: the run has not begun",
                got=self._name,
                fix="call start(network) first",
            )
        return self.begun

    def _check_agrees(self, before: Mapping[str, Any]) -> None:
        """Raise if the study has another baseline or metric."""
        for name, value in (("baseline", self.baseline), ("metric", self.metric)):
            if before and before.get(name) != value:
                raise ArgumentError(
                    f"recorder: the study in {self.folder.path} has another {name}",
                    got=value,
                    allowed=before.get(name),
                )

    @property
    def _name(self) -> str:
        """The run in words."""
        return f"{self.cell['unit']} in {self.cell['backbone']}, seed {self.cell['seed']}"

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Hold the folder for the block, after waiting for other recorders."""
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
        """Return the new content of ``study.json``."""
        key = self.cell["key"]
        cells = [cell for cell in before.get("cells", []) if cell["key"] != key]
        cells.append(self.cell)
        groups = [other for other in before.get("groups", []) if _place(other) != _place(group)]
        groups.append(group)
        study = {
            "title": self.title,
            "units": [{"name": unit, "label": unit} for unit in _distinct(cells, "unit")],
            "baseline": self.baseline,
            "seeds": sorted({cell["seed"] for cell in cells}),
            "match": "none",
            "recipe": {},
            "backbones": [{"name": name, "model": name} for name in _distinct(cells, "backbone")],
            "data": [{"name": name, "label": name} for name in _distinct(cells, "data")],
        }
        return {
            "name": NAME,
            "title": self.title or before.get("title", ""),
            "study": study,
            "gatewise": environment()["gatewise"],
            "origin": "recorder",
            "baseline": self.baseline,
            "metric": self.metric,
            "match": "none",
            "threads": torch.get_num_threads(),
            "data_sha256": {},
            "tuned": [],
            "groups": groups,
            "cells": cells,
        }


def _place(group: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the labels of a group."""
    return tuple(group[name] for name in LABELS)


def _distinct(cells: Sequence[Mapping[str, Any]], label: str) -> list[Any]:
    """Return the different labels in their order."""
    return list(dict.fromkeys(cell[label] for cell in cells))
