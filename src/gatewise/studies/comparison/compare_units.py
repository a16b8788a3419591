"""Compare units in a model of the user: every unit at the same learning rates with the same seeds.

Note [One path]. The command line, the presets and :func:`compare` do the same: units are put into
a model by :func:`gatewise.plan`, and cells of unit x learning rate x seed run on the engine until
the rule asks for no more.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from gatewise.checks import check_count, check_number
from gatewise.errors import ArgumentError, unknown_name
from gatewise.studies.answer import ComparisonResult
from gatewise.studies.comparison.choices import Choices, make_recipe
from gatewise.studies.comparison.costs import CostEstimate, seconds_of
from gatewise.studies.comparison.learning_rates import RATES, rate_grid
from gatewise.studies.comparison.sources import ArraySource
from gatewise.studies.comparison.study import ComparisonStudy, Subject
from gatewise.studies.comparison.user_data import UserData, read_data
from gatewise.studies.comparison.user_models import (
    BuiltIn,
    Factory,
    UnitRequest,
    model_digest,
    read_units,
    user_model,
    variants,
)
from gatewise.studies.comparison.user_objective import EvaluateFunction, StepFunction
from gatewise.studies.engine import (
    DONE,
    KEY,
    Progress,
    Record,
    Running,
    StudyFile,
    export_study,
    import_study,
    read_records,
    run,
    sorted_records,
)
from gatewise.train import Recipe, clock, find_device
from gatewise.words import joined, plural

SEEDS = 8
MOST_SEEDS = 1000
RECORDS = "study.jsonl"
EXPORT_SECONDS = 300
FEWER = ((4, 8), (5, 5), (1, 8))  # rates and seeds of smaller plans whose cost is named


def compare(
    model: nn.Module | Factory,
    units: Sequence[UnitRequest],
    data: Any,
    *,
    rates: int | Sequence[float] = RATES,
    seeds: int = SEEDS,
    step: StepFunction | None = None,
    evaluate: EvaluateFunction | None = None,
    metric: str | None = None,
    metrics: Sequence[str] = (),
    mode: str | None = None,
    validation: Any = None,
    baseline: Any = None,
    recipe: str | Recipe | Mapping[str, Any] | None = None,
    epochs: int | None = None,
    margin: float | None = None,
    device: str | None = "auto",
    workers: int = 1,
    out: str | Path | None = None,
    dry_run: bool = False,
    progress: bool = True,
    **unknown: Any,
) -> ComparisonResult | CostEstimate:
    """Train ``model`` with each unit at the same learning rates with the same seeds, and compare.

    A unit is better if it is better both at the fitted peak of its rate curve and at the best rate
    that was tried. Nothing is tuned. The task (classification, regression, a language model, ...)
    is recognised from the model's outputs and the targets, or ``step`` and ``evaluate`` say what to
    do. The cost is printed first. Ctrl-C saves and stops. With ``out``, the same call resumes.

    Args:
        model: a module, whose weights every run starts from; or a function that makes one, called
            anew for every seed.
        units: names, ``nn.Module`` classes or instances, functions that make one, functions of one
            tensor, or tables such as ``{"name": "crelu", "width": "half", "label": "half"}`` and
            ``{"unit": MyUnit, "label": "mine"}`` with options of the unit and of
            :func:`gatewise.plan`. Widths are matched so that every unit has as many parameters as
            the model, where that is possible; ``"match": "none"`` keeps them. A unit that is
            refused at a site is left out, with the reason.
        data: ``(train, test)``, each a data loader, a torch data set, ``(inputs, targets)``, a
            mapping of tensors, or a list of batches; or a data set of gatewise or its name. A
            loader's random changes are drawn anew in every epoch, the same ones for every unit.
        rates: how many learning rates, half a decade apart around the recipe's: 4 or more, or 1 for
            a comparison at one rate; or at least 4 rates at equal ratios.
        seeds: of every unit and rate, which all have the same ones.
        step: takes the model and a batch and returns the loss.
        evaluate: takes the model and a loader and returns metrics by name.
        metric: the judged one; the first that is returned by default. Those that the task does not
            have are computed by torchmetrics, if it is installed.
        metrics: others to record. They are not judged.
        mode: ``"max"`` or ``"min"``, for a metric whose direction is not known.
        validation: further examples, in any form of ``data``, by which the best rate is placed. Its
            value is then read from the test set.
        baseline: the unit that all others are compared with; the unchanged model, which is called
            ``original``, if not given.
        recipe: its name, a table that changes one (``{"base": "adam", "batch": 32}``), or one read
            by :func:`gatewise.train.read_recipe`.
        epochs: in place of the recipe's.
        margin: the largest difference of the metric that does not matter to you. Units within it
            are called equivalent.
        device: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"`` or ``"auto"``.
        workers: runs at once, in processes of this machine.
        out: a folder to keep, from which a later call with the same arguments resumes, and from
            which ``gatewise report`` makes a page. Without it only the result is returned.
        dry_run: whether to return the cost, and train nothing.
        progress: whether to print the cost, and a line for each run that has ended.
        **unknown: refused.

    Returns:
        The result, or with ``dry_run`` its cost.

    Raises:
        ArgumentError: for an argument that is not allowed, or if nothing is left to compare.
        KeyboardInterrupt: if stopped.
    """
    if unknown:
        raise _unknown_argument(next(iter(unknown)))
    choices = Choices(step=step, evaluate=evaluate, metric=metric, metrics=metrics, mode=mode)
    folder = _folder(out)
    study = plan_comparison(
        {"": model},
        units,
        data,
        choices=choices,
        rates=rates,
        seeds=seeds,
        validation=validation,
        baseline=baseline,
        recipe=recipe,
        epochs=epochs,
        margin=margin,
        device=device,
    )
    say = partial(print, file=sys.stderr, flush=True) if progress else _say_nothing
    if progress or dry_run:
        estimate = estimate_cost(study, workers)
        for line in describe(study, estimate):
            say(line)
        if dry_run:
            return estimate
    with tempfile.TemporaryDirectory("gatewise-") as temporary:
        result = run_comparison(study, folder or temporary, Running(workers=workers), say=say)
    if result is None:
        raise KeyboardInterrupt("stopped; with the same folder as out, the same call resumes")
    return result


def plan_comparison(
    models: Mapping[str, nn.Module | Factory],
    units: Sequence[UnitRequest],
    data: Any,
    *,
    choices: Choices | None = None,
    rates: Any = RATES,
    seeds: Any = SEEDS,
    validation: Any = None,
    baseline: Any = None,
    recipe: Any = None,
    epochs: int | None = None,
    margin: float | None = None,
    device: str | None = "auto",
    title: str = "",
    name: str = "",
) -> ComparisonStudy:
    """Return the plan of a comparison, after putting every unit into every model once.

    Args:
        models: by their names in tables; an empty name for that of the class.
        units: as :func:`compare` takes them, like the other arguments.
        data: to train and test on.
        choices: of metric, step and evaluation.
        rates: of learning.
        seeds: how many.
        validation: by which the best rate is placed.
        baseline: that all units are compared with.
        recipe: of the training.
        epochs: in place of the recipe's.
        margin: that does not matter.
        device: to train on.
        title: of the page.
        name: of the study.
    """
    count = check_count("compare", "seeds", seeds, least=2, most=MOST_SEEDS)
    chosen = make_recipe(recipe, epochs)
    grid = rate_grid(rates, chosen.optimiser.lr)
    labelled, base = read_units(units, baseline)
    place = find_device(device)
    if margin is not None:
        margin = check_number("compare", "margin", margin, above=0, most=1e9)
    examples = read_data(data, chosen, validation)
    subjects = {}
    for label, source in models.items():
        if isinstance(source, BuiltIn):
            source = source.fitting(examples)
        subject = user_model(source, examples, chosen, choices, name=label or None)
        built, left = variants(subject, labelled, base)
        by_label = {variant.unit.label: variant for variant in built}
        subjects[subject.name] = Subject(subject, model_digest(subject), by_label, left)
    first = next(iter(subjects.values())).model
    return ComparisonStudy(
        name=name or f"{first.name} on {first.data.name}",
        title=title or f"Units in {', '.join(subjects)}",
        subjects=subjects,
        baseline=base,
        grid=grid,
        seeds=count,
        margin=margin,
        chance=_chance(first.training.metric, examples),
        device=place,
    )


def estimate_cost(study: ComparisonStudy, workers: int = 1) -> CostEstimate:
    """Return how many runs a comparison takes and for how long, from a few training steps."""
    seconds = 0.0
    for subject in study.subjects.values():
        for unit in study.units:
            seconds += seconds_of(subject.model, subject.variants[unit], study.device)
    arms = len(study.units) * len(study.subjects)
    return CostEstimate(arms, study.grid.count, study.seeds, seconds / arms, max(1, workers))


def describe(study: ComparisonStudy, estimate: CostEstimate) -> list[str]:
    """Return what is going to be done, in lines."""
    training = study.first.model.training
    better = "higher" if training.mode == "max" else "lower"
    recipe = study.first.model.recipe
    rates = ", ".join(f"{rate:g}" for rate in study.grid.rates)
    lines = [
        f"recipe: {recipe.optimiser.name}, {plural(recipe.epochs, 'epoch')} in batches of "
        f"{recipe.batch}; learning rates around {study.grid.center:g}",
        f"task: {training.task}; judged by {training.metric} ({better} is better)",
        f"{len(study.units)} units x {study.grid.count} learning rates ({rates}) x "
        f"{study.seeds} seeds: {estimate.words}",
    ]
    fewer = estimate.fewer_words(FEWER)
    if fewer:
        lines.append(f"with fewer: {fewer}")
    for subject in study.subjects.values():
        where = f" in {subject.model.name}" if len(study.subjects) > 1 else ""
        for unit, variant in subject.variants.items():
            if variant.matched:
                lines.append(f"{unit}{where}: {variant.matched}")
        if subject.as_written:
            name = subject.model.name
            lines.append(f"left as it is in {name}: {joined(subject.as_written)}")
        for left in subject.left_out:
            lines.append(f"left out of {subject.model.name}: {left.unit}: {left.reason}")
    if study.first.model.data.unpaired:
        lines.append(f"batches are not paired: {study.first.model.data.unpaired}")
    return lines


def run_comparison(
    study: ComparisonStudy,
    folder: str | Path,
    running: Running,
    *,
    say: Callable[[str], None] = lambda _: None,
    watch: Callable[[Progress], None] | None = None,
    stop: Any = None,
) -> ComparisonResult | None:
    """Run a comparison, or go on with it; None if it was stopped.

    The records are exported to ``study.jsonl`` every few minutes and at the end. In a folder that
    has this file and no database, its runs are taken as done.

    Args:
        study: the plan.
        folder: of the study; records of shards that were run there are joined.
        running: how cells are run.
        say: told a line for each run that has ended.
        watch: told all that happens.
        stop: ends the run early if a stop is asked for.
    """
    shard = running.part
    folder = Path(folder)
    name = "study.sqlite" if shard is None else f"study-{shard[0]}-of-{shard[1]}.sqlite"
    file = StudyFile(folder / name)
    kept = folder / RECORDS if shard is None else None
    study = replace(study, shard=shard)
    before = _header_before(file, kept)
    if before:
        _check_folder(folder, before, study)
        study = replace(study, plans=_plans_before(before, study))
    if kept is not None:
        _join(file, kept)
    header = study.header()
    lines = _Printed(study, say)
    exported = time.monotonic()

    def tell(event: Progress) -> None:
        """Say a line, and write the records every few minutes, so that they outlive the file."""
        nonlocal exported
        lines(event)
        if kept is not None and time.monotonic() - exported > EXPORT_SECONDS:
            export_study(kept, header, file.records())
            exported = time.monotonic()
        if watch is not None:
            watch(event)

    records = run(
        file.path,
        study.wanted,
        study.work,
        header=header,
        running=running,
        watch=tell,
        stop=stop,
    )
    if kept is not None:
        export_study(kept, header, file.records())
    return None if records is None else _result(header, records)


def read_study(path: str | Path) -> ComparisonResult:
    """Read a comparison from its folder, its database or its export; shards are joined.

    Args:
        path: of the file or folder.
    """
    return _result(*read_records(path))


def _result(header: Mapping[str, Any], records: Mapping[str, Record]) -> ComparisonResult:
    """Return the result of records by key."""
    keyed = {key: {KEY: key, **record} for key, record in records.items()}
    return ComparisonResult(header, sorted_records(keyed))


class _Printed:
    """Says a line for each run that has ended."""

    def __init__(self, study: ComparisonStudy, say: Callable[[str], None]) -> None:
        self.study = study
        self.say = say
        self.began = time.monotonic()
        self.ended_now = 0

    def __call__(self, event: Progress) -> None:
        labels = event.cell.labels
        run_words = f"{labels['unit']}, rate {labels['rate']:.3g}, seed {labels['seed']}"
        if len(self.study.subjects) > 1:
            run_words = f"{labels['model']}, {run_words}"
        if event.event == "died":
            self.say(f"{run_words}: its process died")
        if event.record is None:
            return
        self.ended_now += 1
        spent = time.monotonic() - self.began
        left = spent / self.ended_now * (event.asked - event.ended)
        time_words = f", {clock(left)} left" if left else ""
        status, error = event.record["status"], event.record["error"]
        words = f"{status} ({error})" if error else status
        if status == DONE:
            words = f"{self.study.first.model.training.metric} {event.record['value']:.4g}"
        self.say(f"{event.ended} of {event.asked}: {run_words}: {words}{time_words}")


def _join(file: StudyFile, kept: Path) -> None:
    """Take the records of shards that were run in the same folder; without a database, of a file.

    Args:
        file: of the study.
        kept: the records that were exported.
    """
    others = [StudyFile(path).records() for path in kept.parent.glob("study-*-of-*.sqlite")]
    if kept.exists() and not file.path.exists():
        others.append(import_study(kept)[1])
    for found in others:
        with file.driven():
            file.prepare()
            file.take(found)


def _header_before(file: StudyFile, kept: Path | None) -> dict[str, Any]:
    """Return what the study in the folder says about itself; empty if there is none."""
    if file.path.exists():
        return file.header() if file.has_header() else {}
    return import_study(kept)[0] if kept is not None and kept.exists() else {}


def _check_folder(folder: Path, before: Mapping[str, Any], study: ComparisonStudy) -> None:
    """Raise if the folder holds a comparison of other models or on other data."""
    for name in ("models", "model_sha256", "data_sha256"):
        found, wanted = (
            header["models"] if name == "models" else header.get("settings", {}).get(name)
            for header in (before, study.header())
        )
        if found != wanted:
            what = {"model_sha256": "weights", "data_sha256": "data"}.get(name, name)
            raise ArgumentError(
                f"out: {folder} belongs to another study, with other {what}",
                got=wanted,
                allowed=found,
                fix="choose another folder",
            )
    now = [unit["label"] for unit in study.header()["units"]]
    refused = [left["unit"] for left in study.header()["left_out"]]
    dropped = [
        unit["label"]
        for unit in before.get("units", [])
        if unit["label"] not in [*now, *refused, study.baseline]
    ]
    if dropped:
        raise ArgumentError(
            f"out: {folder} has a comparison with more units; leaving some out after their runs "
            "would make the others look more certain",
            got=", ".join(now),
            allowed=f"also {', '.join(dropped)}",
            fix=f"name {', '.join(dropped)} too, or choose another folder",
        )


def _plans_before(before: Mapping[str, Any], study: ComparisonStudy) -> list[int]:
    """Return the numbers of seeds that were planned before in this folder."""
    plans = before.get("settings", {}).get("plans") or []
    return plans[:-1] if plans and plans[-1] == study.seeds else plans


def _chance(metric: str, data: UserData) -> float | None:
    """Return what the best constant prediction reaches, where that is known."""
    targets = []
    for source in (data.train, data.test):
        content = source.content if isinstance(source, ArraySource) else None
        target = content[-1] if isinstance(content, tuple) and len(content) > 1 else None
        if not isinstance(target, Tensor) or target.dim() != 1:
            return None
        targets.append(target)
    train, test = targets
    if not test.is_floating_point():
        share = float((test == train.mode().values).double().mean())
        return {"accuracy": share, "error": 1 - share}.get(metric)
    squares = (test.double() - train.double().mean()).square()
    return float(squares.mean()) if metric == "mse" else None


def _unknown_argument(name: str) -> Exception:
    """Return the error of an argument that there is not, naming the nearest."""
    import inspect

    known = [key for key in inspect.signature(compare).parameters if key != "unknown"]
    return unknown_name("argument of compare", name, known)


def _folder(out: Any) -> Path | None:
    """Return the folder to keep, or raise an error; None if there is none."""
    if out is None:
        return None
    if not isinstance(out, str | Path) or not str(out) or "\0" in str(out):
        raise ArgumentError("out: the path of a folder is needed", got=out)
    return Path(out)


def _say_nothing(line: str) -> None:
    """Print nothing."""
