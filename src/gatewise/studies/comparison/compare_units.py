"""Compare units in a model of the user: put in by surgery, trained alike, tested pair by pair."""

import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gatewise.errors import ArgumentError
from gatewise.studies.comparison.choices import Choices, optimiser_changes, user_recipe
from gatewise.studies.comparison.comparison_driver import ComparisonDriver, UserStudy
from gatewise.studies.comparison.user_data import UserData, read_data
from gatewise.studies.comparison.user_models import (
    Factory,
    UnitRequest,
    UserModel,
    read_units,
    user_model,
    variants,
)
from gatewise.studies.comparison.user_objective import EvaluateFunction, StepFunction
from gatewise.studies.older import (
    MOST_SEEDS,
    SEEDS,
    RunOptions,
    StudyFolder,
    StudyResult,
    Tune,
)
from gatewise.train import Pace, Patience, Recipe, check, device_of, find_device

MOST_LETTERS = 1000  # of a title or a name


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
    tune: Any = "quick",
    margin: float | None = None,
    seeds: int | Sequence[int] = SEEDS,
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
    on: str = "here",
    workers: int = 0,
    gpus_per_cell: float = 0.0,
    shard: str | None = None,
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
        validation: further examples, in any form of ``data``, to choose learning rates and to
            stop early by. Without them, parts of the training set are held out in turn.
        tune: ``"quick"`` or ``"full"`` to choose the learning rate of every unit before it is
            compared, False for the recipe's rate, or a table such as ``{"lr": [0.01, 0.1]}``.
        margin: the largest difference of the metric that does not matter to you. Units within it
            are called equivalent.
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
        on: ``"here"`` for this process; ``"ray"``, ``"ray:HOST:PORT"`` or ``"ray://HOST:PORT"`` for
            a cluster, to which model, data and functions are sent. ``"local"`` is ``"here"``:
            functions of the user cannot be sent to other processes without Ray.
        workers: runs at once on a cluster; 0 for as many as it has room for.
        gpus_per_cell: graphics processors for each run on a cluster.
        shard: ``"i/n"`` if this is one of n calls in the same folder ``out``.
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
    _check_text("title", title)
    _check_text("name", name)
    folder = _folder(out)
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
    options = RunOptions(
        on="here" if on == "local" else on,
        workers=workers,
        device=str(place),
        gpus_per_cell=gpus_per_cell,
        shard=shard,
        retry_failed=retry_failed,
        pace=_pace(pace),
    )
    chosen_tune, why = _tune(tune, examples)
    subject = user_model(model, examples, chosen, choices, name=name, example=example)
    study = UserStudy(
        title=title or f"Units in {subject.name}",
        seeds=tuple(seed_list),
        baseline=base,
        margin=_margin(margin),
        match=str(surgery.get("match") or "none"),
        tune=chosen_tune,
        why_untuned=why,
        patience=_patience(patience, subject),
        evaluate_every=_positive("evaluate_every", evaluate_every),
        device=place,
    )
    if progress:
        _print_plan(subject, study)
    built = variants(subject, labelled, surgery)
    with ExitStack() as stack:
        if folder is None:
            folder = StudyFolder(stack.enter_context(tempfile.TemporaryDirectory("gatewise-")))
        driver = ComparisonDriver(subject, built, study, folder, options, progress=progress)
        result = driver.run()
    if result is None:
        raise KeyboardInterrupt("stopped; with the same folder as out, the same call resumes")
    return result


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


def _check_text(what: str, value: Any) -> None:
    """Raise an error for a name that is not a short text; None is none."""
    if value is not None and (not isinstance(value, str) or len(value) > MOST_LETTERS):
        raise ArgumentError(
            f"{what}: a text is needed",
            got=value,
            allowed=f"at most {MOST_LETTERS} letters",
        )


def _folder(out: Any) -> StudyFolder | None:
    """Return the folder to keep, or raise an error; None if there is none."""
    if out is None:
        return None
    if not isinstance(out, str | Path) or not str(out) or "\0" in str(out):
        raise ArgumentError("out: the path of a folder is needed", got=out)
    return StudyFolder(out)


def _place(device: Any, model: Any) -> torch.device:
    """Return the device to train on: the one that is named, or where the model is."""
    if device is None:
        if isinstance(model, nn.Module):
            return device_of(model)
        return torch.device("cpu")
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
        "mode": training.mode,
        "epochs": _positive("patience", epochs),
    }
    return check(Patience, table, "patience")


def _tune(tune: Any, data: UserData) -> tuple[Tune, str]:
    """Return how rates are chosen, and why they are not although that was asked for."""
    if isinstance(tune, bool):
        tune = "quick" if tune else "none"
    if isinstance(tune, str):
        tune = {"mode": tune}
    if not isinstance(tune, Mapping):
        raise ArgumentError(
            "tune: not understood",
            got=tune,
            allowed="'quick', 'full', False, or a table",
        )
    chosen = check(Tune, tune, "tune")
    if chosen.mode == "none" or not data.not_tunable:
        return chosen, ""
    return Tune(mode="none"), data.not_tunable


def _margin(margin: Any) -> float | None:
    """Return the margin, or raise an error."""
    if margin is None:
        return None
    is_number = isinstance(margin, int | float) and not isinstance(margin, bool)
    if not is_number or not 0 < margin <= 1e9:
        raise ArgumentError("margin: a positive number is needed", got=margin)
    return float(margin)


def _positive(name: str, value: Any) -> int:
    """Return a whole number from 1 to a million, or raise an error."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1_000_000:
        raise ArgumentError(f"{name}: a number of epochs is needed", got=value, allowed="1 or more")
    return value


def _pace(pace: Any) -> Pace:
    """Return the pace, or raise an error."""
    if pace is None:
        return Pace()
    if not isinstance(pace, Pace):
        raise ArgumentError("pace: a gatewise.train.Pace is needed", got=type(pace).__name__)
    return pace


def _print_plan(model: UserModel, study: UserStudy) -> None:
    """Print what was recognised."""
    training = model.training
    better = "higher" if training.mode == "max" else "lower"
    print(
        f"task: {training.task}; judged by {training.metric} ({better} is better)", file=sys.stderr
    )
    if model.data.unpaired:
        print(f"batches are not paired: {model.data.unpaired}", file=sys.stderr)
    if study.why_untuned:
        print(f"learning rates are not tuned: {study.why_untuned}", file=sys.stderr)
