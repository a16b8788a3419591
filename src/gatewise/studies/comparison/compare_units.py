"""From a model to a table.

Units put into it by surgery, trained alike over seeds, and compared pair by pair.
"""

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gatewise.errors import ArgumentError, FileError, unknown_name
from gatewise.studies.comparison.user_models import (
    Factory,
    OwnModel,
    UnitGiven,
    Variant,
    model_digest,
    own_model,
    read_recipe,
    read_units,
    variants,
)
from gatewise.studies.engine import (
    CELLS,
    KEY,
    METRICS,
    MOST_SEEDS,
    Cell,
    Event,
    Facts,
    Group,
    Place,
    StudyFolder,
    StudyResult,
    Tally,
    Task,
    Watch,
    carry_out,
    group_contents,
    read_study,
)
from gatewise.train import Pace, Recipe, Result, RunConfig, StopSignal, clock, environment, train


def compare(
    model: nn.Module | Factory,
    units: Sequence[UnitGiven],
    data: Any,
    *,
    seeds: int | Sequence[int] = 5,
    baseline: str | None = None,
    recipe: str | Recipe = "adam",
    epochs: int | None = None,
    metric: str = "test_accuracy",
    name: str | None = None,
    title: str = "",
    out: str | Path | None = None,
    pace: Pace | None = None,
    retry_failed: bool = False,
    progress: bool = True,
    **surgery: Any,
) -> StudyResult:
    """Train ``model`` with each of the units in it, on the same batches and from the same weights, and compare.

    Args:
        model: a module, whose weights every run starts from; or a function that makes one, called anew for every seed.
        units: names, or tables such as ``{"name": "crelu", "width": "half", "label": "crelu half"}`` with options of
            the unit and of :func:`gatewise.plan`. Nothing is trained if one of them cannot be put in.
        data: ``(train, test)``, each a data loader, a data set of torch or ``(inputs, labels)``; or a data set of ours
            or its name. Held in memory; what a loader does at random is done once.
        seeds: how many, or which. With five no difference can pass the exact paired test; with six it just can.
        baseline: what all units are compared with: a unit, or the model as it is if not given.
        recipe: by name, or one read by :func:`gatewise.train.read_recipe`. epochs: in place of the recipe's.
        metric: ``"test_accuracy"`` or ``"test_loss"``, which is what there is where labels are numbers.
        name: what tables call the model. out: a folder to keep, from which a later call of the same kind goes on, and
            that ``gatewise report`` makes a page of; without it nothing is kept but what is returned.
        retry_failed: run again what failed before, in a folder that is gone on with.
        surgery: options of :func:`gatewise.plan` for all units: ``where``, ``width``, ``preserve``, ``match``.

    Ctrl-C saves and stops: with ``out``, the same call goes on.
    """
    if metric not in METRICS:
        raise unknown_name("metric", metric, METRICS)
    chosen, base = read_units(units, baseline)
    own = own_model(model, data, read_recipe(recipe, epochs), name)
    made = variants(own, chosen, surgery)
    metric = metric if own.data.classes else "test_loss"
    match = str(surgery.get("match") or "none")
    asked = _Asked(
        tuple(_seeds(seeds)), base, metric, title or f"Units in {own.name}", match, retry_failed
    )
    job = _Job(own, made, asked)
    tell = _say if progress else lambda *_: None
    if out is not None:
        return job.run(StudyFolder(out), pace or Pace(), tell)
    with tempfile.TemporaryDirectory(prefix="gatewise-") as folder:
        return job.run(StudyFolder(folder), pace or Pace(), tell)


@dataclass(frozen=True)
class _Asked:
    """What is asked of a comparison."""

    seeds: tuple[int, ...]
    baseline: str
    metric: str
    title: str
    match: str
    retry_failed: bool


class _Job:
    """All runs of one comparison."""

    def __init__(self, own: OwnModel, made: Sequence[Variant], asked: _Asked) -> None:
        self.own, self.asked, seeds = own, asked, asked.seeds
        self.made = {variant.unit.label: variant for variant in made}
        self.weights = model_digest(own)
        facts = Facts(own.data.classes, own.data.shape)
        self.groups = [
            Group(self._place(each), self._config(each, seeds[0]), facts, each.cost)
            for each in made
        ]
        self.cells = [self._cell(each, seed) for seed in seeds for each in made]

    def run(self, folder: StudyFolder, pace: Pace, tell: Watch) -> StudyResult:
        """What is missing in the folder, to the end."""
        folder.check(self._name)
        with folder.claimed():
            folder.write(self._content())
            self._execute(folder, pace, tell)
        return read_study(folder.path)

    def _execute(self, folder: StudyFolder, pace: Pace, tell: Watch) -> None:
        costs = {group.place: group.cost.to_dict() if group.cost else {} for group in self.groups}
        records = folder.outcomes(
            [cell.key for cell in self.cells], retry_failed=self.asked.retry_failed
        )
        left = [cell for cell in self.cells if records[cell.key] is None]
        tally, stop = Tally.of(records.values()), StopSignal()
        for cell in left:
            task = Task(
                cell.to_dict(),
                str((folder.path / CELLS).resolve()),
                costs[cell.place],
                asdict(pace),
            )

            def note(kind: str, reason: str, key: str = cell.key) -> None:
                tally.count(event := Event(kind, key, "here", reason))
                folder.note(kind, key=key, worker="here")
                tell(tally, event)

            about = f"{cell.place.unit}, seed {cell.config.seed}"
            note("started", about)
            note(self._carried_out(cell, task, stop, pace), about)

    def _carried_out(self, cell: Cell, task: Task, stop: StopSignal, pace: Pace) -> str:
        """How the cell ended."""
        variant = self.made[cell.place.unit]

        def run(stop: StopSignal) -> Result | None:
            def build() -> nn.Module:
                return variant.build(self.own, cell.config.seed)

            return train(
                cell.config, task.place, data=self.own.data, network=build, pace=pace, stop=stop
            )

        outcome = carry_out(task, stop, run)
        if outcome.status == "lost":
            raise FileError(
                "compare: it cannot go on", got=outcome.reason, fix="mend that, and call it again"
            )
        if outcome.status == "stopped":
            raise KeyboardInterrupt("stopped; with the same folder as out, the same call goes on")
        return outcome.status

    def _place(self, variant: Variant) -> Place:
        return Place(variant.unit.label, self.own.name, self.own.data.name, "recipe")

    def _config(self, variant: Variant, seed: int) -> RunConfig:
        identity = {"model_sha256": self.weights, "drawn": self.own.drawn, **variant.identity}
        options = {"sha256": self.own.data.digest}
        recipe = self.own.recipe.model_dump(exclude_unset=True)
        return RunConfig(
            model=self.own.name,
            unit=variant.unit.label,
            model_options=identity,
            data=self.own.data.name,
            data_options=options,
            recipe=Recipe(**recipe),
            seed=seed,
        )

    def _cell(self, variant: Variant, seed: int) -> Cell:
        config = self._config(variant, seed)
        return Cell(config.digest[:KEY], self._place(variant), config)

    @property
    def _name(self) -> str:
        """What the folder of the comparison is known by: one model on one set of data."""
        return (
            f"{self.own.name} {self.weights[:8]} on {self.own.data.name} {self.own.data.digest[:8]}"
        )

    def _content(self) -> dict[str, Any]:
        """What ``study.json`` says."""
        units = [
            {"name": each.unit.name or "none", "label": each.unit.label}
            for each in self.made.values()
        ]
        plain = {
            "title": self.asked.title,
            "units": units,
            "baseline": self.asked.baseline,
            "seeds": list(self.asked.seeds),
            "backbones": [{"name": self.own.name, "model": self.own.name}],
            "data": [{"name": self.own.data.name, "label": self.own.data.name}],
            "recipe": self.own.recipe.model_dump(mode="json", exclude_unset=True),
            "match": self.asked.match,
        }
        groups = group_contents(self.groups, self.asked.baseline)
        for group in groups:
            group["receipt"] = self.made[group["unit"]].receipt
        return {
            "name": self._name,
            "title": self.asked.title,
            "study": plain,
            "gatewise": environment()["gatewise"],
            "origin": "gw.compare",
            "baseline": self.asked.baseline,
            "metric": self.asked.metric,
            "match": self.asked.match,
            "threads": torch.get_num_threads(),
            "data_sha256": {self.own.data.name: self.own.data.digest},
            "tuned": [],
            "groups": groups,
            "cells": [cell.to_dict() for cell in self.cells],
        }


def _seeds(given: int | Sequence[int]) -> list[int]:
    if not isinstance(given, int | Sequence):
        raise ArgumentError(
            "seeds: how many, or a list of them", got=given, allowed=f"1 to {MOST_SEEDS}, each once"
        )
    seeds = list(range(min(given, MOST_SEEDS + 1))) if isinstance(given, int) else list(given)
    wrong = isinstance(given, bool) or any(
        type(each) is not int or not 0 <= each < 2**63 for each in seeds
    )
    if wrong or not 1 <= len(seeds) <= MOST_SEEDS or len(set(seeds)) < len(seeds):
        raise ArgumentError(
            "seeds: how many, or a list of them", got=given, allowed=f"1 to {MOST_SEEDS}, each once"
        )
    return seeds


def _say(tally: Tally, event: Event | None) -> None:
    """A line for each run that has ended."""
    if event is None or event.kind == "started":
        return
    left = tally.seconds_left
    time = f", {clock(left)} left" if left else ""
    print(
        f"{tally.done + tally.failed} of {tally.total}: {event.reason} {event.kind}{time}",
        file=sys.stderr,
    )
