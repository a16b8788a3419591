"""Compare units in a model of the user: put in by surgery, trained alike, tested pair by pair."""

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gatewise.errors import ArgumentError, unknown_name
from gatewise.studies.comparison.user_models import (
    Factory,
    UnitRequest,
    UserModel,
    Variant,
    model_digest,
    read_recipe,
    read_units,
    user_model,
    variants,
)
from gatewise.studies.engine import (
    CELLS,
    KEY,
    METRICS,
    MOST_SEEDS,
    Cell,
    CellRunner,
    Event,
    Facts,
    Group,
    InProcess,
    Place,
    RunOptions,
    StudyFolder,
    StudyProgress,
    StudyResult,
    Task,
    group_contents,
    read_study,
    training_content,
)
from gatewise.train import Pace, Recipe, RunConfig, StopSignal, clock, environment, train


def compare(
    model: nn.Module | Factory,
    units: Sequence[UnitRequest],
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
    """Train ``model`` with each of the units, on the same batches and initial weights, and compare.

    Ctrl-C saves and stops. With ``out``, the same call resumes.

    Args:
        model: a module, whose weights every run starts from; or a function that makes one, called
            anew for every seed.
        units: names, or tables such as ``{"name": "crelu", "width": "half", "label": "half"}``
            with options of the unit and of :func:`gatewise.plan`. Nothing is trained if one of
            them cannot be put in.
        data: ``(train, test)``, each a data loader, a torch data set or ``(inputs, labels)``; or a
            data set of gatewise or its name. It is held in memory. What a loader does at random is
            done once.
        seeds: how many, or which. Five seeds are too few to show a difference with the exact
            paired test; six are just enough.
        baseline: the unit that all others are compared with; the unchanged model if not given.
        recipe: its name, or one read by :func:`gatewise.train.read_recipe`.
        epochs: in place of the recipe's.
        metric: ``"test_accuracy"`` or ``"test_loss"``. Regression always uses the loss.
        name: of the model in tables; its class if not given.
        title: of the page.
        out: a folder to keep, from which a later call with the same arguments resumes, and from
            which ``gatewise report`` makes a page. Without it only the result is returned.
        pace: how often checkpoints are written.
        retry_failed: whether to run failed runs of the folder again.
        progress: whether to print a line for each run that has ended.
        **surgery: options of :func:`gatewise.plan` for all units: ``where``, ``width``,
            ``preserve``, ``match``.
    """
    if metric not in METRICS:
        raise unknown_name("metric", metric, METRICS)
    choices, base = read_units(units, baseline)
    subject = user_model(model, data, read_recipe(recipe, epochs), name)
    request = _Request(
        seeds=tuple(_seed_list(seeds)),
        baseline=base,
        metric=metric if subject.data.classes else "test_loss",
        title=title or f"Units in {subject.name}",
        match=str(surgery.get("match") or "none"),
        options=RunOptions(on="here", retry_failed=retry_failed, pace=pace or Pace()),
    )
    job = _Job(subject, variants(subject, choices, surgery), request)
    if out is not None:
        return job.run(StudyFolder(out), progress)
    with tempfile.TemporaryDirectory(prefix="gatewise-") as folder:
        return job.run(StudyFolder(folder), progress)


@dataclass(frozen=True)
class _Request:
    """What is asked of a comparison."""

    seeds: tuple[int, ...]
    baseline: str
    metric: str
    title: str
    match: str
    options: RunOptions


class _Job:
    """All runs of one comparison."""

    def __init__(self, model: UserModel, variants: Sequence[Variant], request: _Request) -> None:
        self.model = model
        self.request = request
        self.variants = {variant.unit.label: variant for variant in variants}
        self.weights = model_digest(model)
        facts = Facts(model.data.classes, model.data.shape)
        self.groups: list[Group] = []
        for variant in variants:
            config = self._config(variant, request.seeds[0])
            self.groups.append(Group(self._place(variant), config, facts, variant.cost))
        self.cells: dict[str, Cell] = {}
        for seed in request.seeds:
            for variant in variants:
                config = self._config(variant, seed)
                key = config.digest[:KEY]
                self.cells[key] = Cell(key, self._place(variant), config)

    def run(self, folder: StudyFolder, progress: bool) -> StudyResult:
        """Run what is missing in the folder, to the end."""
        folder.check(self._name)
        with folder.claimed():
            folder.write(self._content())
            self._execute(folder, progress)
        return read_study(folder.path)

    def _execute(self, folder: StudyFolder, progress: bool) -> None:
        """Run the missing cells in this process."""
        tasks = []
        for cell in self.cells.values():
            cost = self.variants[cell.place.unit].cost
            task = Task(
                cell=cell.to_dict(),
                folder=str((folder.path / CELLS).resolve()),
                cost=cost.to_dict(),
                pace=self.request.options.pace.model_dump(),
            )
            tasks.append(task)
        runner = CellRunner(
            folder,
            self.request.options,
            StopSignal(),
            self._print_progress if progress else None,
            InProcess(self._train),
        )
        if not runner.run(tasks, torch.get_num_threads()):
            raise KeyboardInterrupt("stopped; with the same folder as out, the same call resumes")

    def _train(self, task: Task, stop: StopSignal) -> dict[str, Any] | None:
        """Train one cell and return the fields of its record; None if stopped."""
        cell = self.cells[task.key]
        variant = self.variants[cell.place.unit]
        result = train(
            cell.config,
            task.place,
            data=self.model.data,
            network=lambda: variant.build(self.model, cell.config.seed),
            pace=self.request.options.pace,
            stop=stop,
        )
        return training_content(result, task.place)

    def _print_progress(self, progress: StudyProgress, event: Event | None) -> None:
        """Print a line for each run that has ended."""
        if event is None or event.kind == "started":
            return
        cell = self.cells[event.key]
        left = progress.seconds_left
        time = f", {clock(left)} left" if left else ""
        run = f"{cell.place.unit}, seed {cell.config.seed} {event.kind}"
        ended = progress.done + progress.failed
        print(f"{ended} of {progress.total}: {run}{time}", file=sys.stderr)

    def _place(self, variant: Variant) -> Place:
        """Return the labels of a variant."""
        return Place(variant.unit.label, self.model.name, self.model.data.name, "recipe")

    def _config(self, variant: Variant, seed: int) -> RunConfig:
        """Return the configuration that names a run; its digest is the key of the cell."""
        identity = {
            "model_sha256": self.weights,
            "drawn": self.model.drawn,
            **variant.identity,
        }
        return RunConfig(
            model=self.model.name,
            unit=variant.unit.label,
            model_options=identity,
            data=self.model.data.name,
            data_options={"sha256": self.model.data.digest},
            recipe=Recipe(**self.model.recipe.model_dump(exclude_unset=True)),
            seed=seed,
        )

    @property
    def _name(self) -> str:
        """The name of the folder's study: one model on one data set."""
        data = self.model.data
        return f"{self.model.name} {self.weights[:8]} on {data.name} {data.digest[:8]}"

    def _content(self) -> dict[str, Any]:
        """Return the content of ``study.json``."""
        request = self.request
        data = self.model.data
        units = []
        for variant in self.variants.values():
            units.append({"name": variant.unit.name or "none", "label": variant.unit.label})
        study = {
            "title": request.title,
            "units": units,
            "baseline": request.baseline,
            "seeds": list(request.seeds),
            "backbones": [{"name": self.model.name, "model": self.model.name}],
            "data": [{"name": data.name, "label": data.name}],
            "recipe": self.model.recipe.model_dump(mode="json", exclude_unset=True),
            "match": request.match,
        }
        groups = group_contents(self.groups, request.baseline)
        for group in groups:
            group["receipt"] = self.variants[group["unit"]].receipt
        return {
            "name": self._name,
            "title": request.title,
            "study": study,
            "gatewise": environment()["gatewise"],
            "origin": "gw.compare",
            "baseline": request.baseline,
            "metric": request.metric,
            "match": request.match,
            "threads": torch.get_num_threads(),
            "data_sha256": {data.name: data.digest},
            "tuned": [],
            "groups": groups,
            "cells": [cell.to_dict() for cell in self.cells.values()],
        }


def _seed_list(seeds: int | Sequence[int]) -> list[int]:
    """Return the seeds, or raise an error that says what is allowed."""
    allowed = f"1 to {MOST_SEEDS}, each once"
    message = "seeds: a number of seeds or a list of seeds is needed"
    if isinstance(seeds, bool) or not isinstance(seeds, int | Sequence):
        raise ArgumentError(message, got=seeds, allowed=allowed)
    values = list(range(min(seeds, MOST_SEEDS + 1))) if isinstance(seeds, int) else list(seeds)
    valid = all(type(value) is int and 0 <= value < 2**63 for value in values)
    if not valid or not 1 <= len(values) <= MOST_SEEDS or len(set(values)) < len(values):
        raise ArgumentError(message, got=seeds, allowed=allowed)
    return values
