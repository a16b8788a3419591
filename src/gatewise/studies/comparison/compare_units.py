"""Compare units in a model of the user: put in by surgery, trained alike, tested pair by pair."""

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gatewise.errors import ArgumentError
from gatewise.studies.comparison.choices import Choices, optimiser_changes, user_recipe
from gatewise.studies.comparison.user_data import read_data
from gatewise.studies.comparison.user_models import (
    Factory,
    UnitRequest,
    UserModel,
    Variant,
    model_digest,
    read_units,
    user_model,
    variants,
)
from gatewise.studies.comparison.user_objective import EvaluateFunction, StepFunction
from gatewise.studies.engine import (
    CELLS,
    KEY,
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
from gatewise.train import (
    Pace,
    Patience,
    Recipe,
    RunConfig,
    StopSignal,
    check,
    clock,
    describe_device,
    device_of,
    environment,
    find_device,
    metric_mode,
    train,
)


def compare(
    model: nn.Module | Factory,
    units: Sequence[UnitRequest],
    data: Any,
    *,
    step: StepFunction | None = None,
    evaluate: EvaluateFunction | None = None,
    task: str | None = None,
    loss: Any = None,
    class_weights: Any = None,
    ignore_index: int = -100,
    metric: str | None = None,
    metrics: Sequence[str] = (),
    mode: str | None = None,
    validation: Any = None,
    seeds: int | Sequence[int] = 5,
    baseline: Any = None,
    recipe: str | Recipe = "adam",
    epochs: int | None = None,
    optimiser: Any = None,
    lr: float | None = None,
    accumulate: int | None = None,
    clip: float | None = None,
    precision: str | None = None,
    channels_last: bool | None = None,
    patience: int | None = None,
    evaluate_every: int = 1,
    device: str | None = None,
    example: Any = None,
    name: str | None = None,
    title: str = "",
    out: str | Path | None = None,
    pace: Pace | None = None,
    retry_failed: bool = False,
    progress: bool = True,
    **surgery: Any,
) -> StudyResult:
    """Train ``model`` with each of the units, on the same batches and initial weights, and compare.

    The task (classification, regression, a language model, ...) is recognised from the model's
    outputs and the targets, or it is named, or ``step`` and ``evaluate`` say what to do. Ctrl-C
    saves and stops. With ``out``, the same call resumes.

    Args:
        model: a module, whose weights every run starts from; or a function that makes one, called
            anew for every seed.
        units: names, ``nn.Module`` classes or instances, functions that make one, functions of one
            tensor, or tables such as ``{"name": "crelu", "width": "half", "label": "half"}`` and
            ``{"unit": MyUnit, "label": "mine"}`` with options of the unit and of
            :func:`gatewise.plan`. Nothing is trained if one of them cannot be put in.
        data: ``(train, test)``, each a data loader, a torch data set, ``(inputs, targets)``, a
            mapping of tensors, or a list of batches; or a data set of gatewise or its name. A
            loader's random changes are drawn anew in every epoch, the same ones for every unit.
        step: takes the model and a batch and returns the loss.
        evaluate: takes the model and a loader and returns metrics by name. It may also return
            ``"per_example"``: whether each example is right.
        task: ``"classification"``, ``"binary"``, ``"multi-label"``, ``"regression"``,
            ``"language-modelling"``, ``"token-classification"``, ``"segmentation"`` or
            ``"model-loss"``, if it cannot be recognised.
        loss: ``"cross_entropy"``, ``"bce"``, ``"mse"``, ``"l1"``, ``"smooth_l1"``, ``"huber"``, or
            a function of outputs and targets.
        class_weights: one number for each class, in the loss.
        ignore_index: the target that does not count.
        metric: the judged one; the first that is returned by default. Those that the task does not
            have are computed by torchmetrics, if it is installed.
        metrics: others to record.
        mode: ``"max"`` or ``"min"``, for a metric whose direction is not known.
        validation: further examples, in any form of ``data``, to stop early by.
        seeds: how many, or which.
        baseline: the unit that all others are compared with; the unchanged model if not given.
        recipe: its name, or one read by :func:`gatewise.train.read_recipe`.
        epochs: in place of the recipe's.
        optimiser: in place of the recipe's: a name of ``torch.optim``, a table such as
            ``{"name": "sgd", "momentum": 0.9}``, or a function of parameters and learning rate.
        lr: the learning rate, in place of the recipe's.
        accumulate: batches whose gradients make one step.
        clip: the largest norm of the gradient.
        precision: ``"float32"``, ``"bfloat16"`` or ``"float16"``.
        channels_last: whether images and convolutions have that layout.
        patience: epochs without a better value on ``validation`` after which a run ends. The
            weights of the best epoch are tested.
        evaluate_every: epochs between two evaluations; the last epoch always has one.
        device: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"`` or ``"auto"``; where the model is, by
            default.
        example: arguments of one call of the model, if ``step`` makes them from the batch: a
            tensor, a tuple, or a mapping of keyword arguments.
        name: of the model in tables; its class if not given.
        title: of the page.
        out: a folder to keep, from which a later call with the same arguments resumes, and from
            which ``gatewise report`` makes a page. Without it only the result is returned.
        pace: how often checkpoints are written.
        retry_failed: whether to run failed runs of the folder again.
        progress: whether to print the recognised task, and a line for each run that has ended.
        **surgery: options of :func:`gatewise.plan` for all units: ``where``, ``width``,
            ``preserve``, ``match``.
    """
    if "optimizer" in surgery:
        optimiser = surgery.pop("optimizer")
    choices = Choices(
        step=step,
        evaluate=evaluate,
        task=task,
        loss=loss,
        weights=class_weights,
        ignored=ignore_index,
        metric=metric,
        metrics=metrics,
        mode=mode,
        optimiser=optimiser,
    )
    seed_list = _seed_list(seeds)
    labelled, base = read_units(units, baseline)
    changes = {
        "optimiser": optimiser_changes(optimiser, lr),
        "accumulate": accumulate,
        "clip": clip,
        "precision": precision,
        "channels_last": channels_last,
    }
    chosen = user_recipe(recipe, epochs, changes)
    examples = read_data(data, chosen, validation)
    place = _place(device, model)
    subject = user_model(model, examples, chosen, choices, name=name, example=example)
    request = _Request(
        seeds=tuple(seed_list),
        baseline=base,
        title=title or f"Units in {subject.name}",
        match=str(surgery.get("match") or "none"),
        patience=_patience(patience, subject),
        evaluate_every=evaluate_every,
        device=place,
        options=RunOptions(on="here", retry_failed=retry_failed, pace=pace or Pace()),
    )
    if progress:
        _print_plan(subject)
    job = _Job(subject, variants(subject, labelled, surgery), request)
    if out is not None:
        return job.run(StudyFolder(out), progress)
    with tempfile.TemporaryDirectory(prefix="gatewise-") as folder:
        return job.run(StudyFolder(folder), progress)


@dataclass(frozen=True)
class _Request:
    """What is asked of a comparison."""

    seeds: tuple[int, ...]
    baseline: str
    title: str
    match: str
    patience: Patience | None
    evaluate_every: int
    device: torch.device
    options: RunOptions


class _Job:
    """All runs of one comparison."""

    def __init__(self, model: UserModel, variants: Sequence[Variant], request: _Request) -> None:
        self.model = model
        self.request = request
        self.variants = {variant.unit.label: variant for variant in variants}
        self.weights = model_digest(model)
        facts = Facts(0, (0, 0, 0))  # only networks of the catalogue are built from them
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
            setup=lambda device: self.model.setup(variant, cell.config, device),
            device=self.request.device,
            pace=self.request.options.pace,
            stop=stop,
        )
        content = training_content(result, task.place)
        if content is not None:
            content["device"] = describe_device(self.request.device)
            content["paired"] = not self.model.data.unpaired
        return content

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
            "training_sha256": self.model.training.identity,
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
            patience=self.request.patience,
            evaluate_every=self.request.evaluate_every,
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
            variant = self.variants[group["unit"]]
            group["receipt"] = variant.receipt
            group["checked"] = variant.checked
        return {
            "name": self._name,
            "title": request.title,
            "study": study,
            "gatewise": environment()["gatewise"],
            "origin": "gw.compare",
            "baseline": request.baseline,
            "metric": f"test_{self.model.training.metric}",
            "mode": self.model.training.mode,
            "margin": None,
            "task": self.model.training.task,
            "device": describe_device(request.device),
            "batches": {"paired": not data.unpaired, "why": data.unpaired},
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


def _place(device: Any, model: Any) -> torch.device:
    """Return the device to train on: the one that is named, or where the model is."""
    if device is None:
        return device_of(model) if isinstance(model, nn.Module) else torch.device("cpu")
    return find_device(device)


def _patience(epochs: Any, model: UserModel) -> Patience | None:
    """Return the rule that ends runs early, or raise an error."""
    if epochs is None:
        return None
    if model.data.validation is None:
        raise ArgumentError(
            "patience: it needs examples that are neither trained on nor tested on",
            got="validation=None",
            fix="give validation=",
        )
    training = model.training
    table = {
        "metric": f"val_{training.metric}",
        "mode": metric_mode(training.metric, training.mode),
        "epochs": epochs,
    }
    return check(Patience, table, "patience")


def _print_plan(model: UserModel) -> None:
    """Print what was recognised."""
    training = model.training
    better = "higher" if training.mode == "max" else "lower"
    print(
        f"task: {training.task}; judged by {training.metric} ({better} is better)", file=sys.stderr
    )
    if model.data.unpaired:
        print(f"batches are not paired: {model.data.unpaired}", file=sys.stderr)
