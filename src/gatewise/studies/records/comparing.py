"""Compare runs that were made elsewhere, with the statistics and the page of a study."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from gatewise.errors import ArgumentError
from gatewise.stats import check_number, check_whole
from gatewise.studies.older import StudyResult
from gatewise.studies.records.cell_values import step_of
from gatewise.studies.records.columns import Choice, Run, RunTable, read_runs
from gatewise.studies.records.raw_table import read_table
from gatewise.train import metric_mode
from gatewise.words import plural

ORIGIN = "table"
TASK = "all runs"  # in place of the task where there is none
BASELINES = ("baseline", "relu", "control", "vanilla", "default")
FEWEST_TASKS = 3


def compare_records(
    table: Any,
    *,
    method: str | None = None,
    task: str | Sequence[str] | None = None,
    seed: str | None = None,
    value: str | Sequence[str] | None = None,
    metric: str | None = None,
    mode: str | None = None,
    baseline: str | None = None,
    margin: float | None = None,
    paired: bool | None = None,
    examples: int | None = None,
    title: str = "",
) -> StudyResult:
    """Compare runs that were made elsewhere: any table with methods, seeds and results.

    The statistics are those of a study: one interval per method decides, corrected for the number
    of methods. Runs are paired by seed where the seeds of two methods overlap. Otherwise they are
    tested as separate groups.

    Args:
        table: A path (CSV, TSV, Parquet, a folder of TensorBoard or MLflow runs), a list of paths,
            a data frame (pandas, polars, pyarrow), a mapping of columns, or a list of rows. Long
            and wide tables and exports of W&B, TensorBoard and MLflow are recognised.
        method: The column of the method. Guessed if not given, like the others.
        task: The column or columns of the task. Methods are compared within a task.
        seed: The column of the seed.
        value: The column of the result; or several, one per method.
        metric: The name of the result, or which one if a column names the metric of each row.
        mode: ``"max"`` if higher is better, ``"min"`` if lower is. Needed for metrics whose
            direction is not known by their name.
        baseline: The method that others are compared with. By default one that is called
            baseline or relu, else the first.
        margin: Differences smaller than this count as equivalent.
        paired: False to ignore that seeds are equal.
        examples: Test examples that an accuracy was counted on. By default values are taken to
            be as fine as their digits.
        title: Of the page.

    Returns:
        The result, as of a study. ``print(result)`` shows the tables, ``result.compare(data=TASK)``
        is one comparison, and ``result.content["study"]`` says how the table was read.

    Raises:
        ArgumentError: If the table cannot be understood; the message names file, row and column.
        FileError: If a file cannot be read.

    Example:
        >>> import gatewise as gw
        >>> runs = {
        ...     "method": ["relu"] * 4 + ["gelu"] * 4,
        ...     "seed": [0, 1, 2, 3] * 2,
        ...     "accuracy": [0.90, 0.91, 0.89, 0.90, 0.93, 0.94, 0.91, 0.93],
        ... }
        >>> gw.compare_records(runs).compare()["gelu"].verdict
        'better'
    """
    _check_options(paired=paired, metric=metric, title=title, baseline=baseline)
    if margin is not None:
        check_number(margin, "stats: margin", above=0)
    if examples is not None:
        check_whole(examples, "stats: examples", least=1)
    choice = Choice(
        method=_column(method, "method"),
        task=_columns(task, "task"),
        seed=_column(seed, "seed"),
        value=_columns(value, "value"),
        metric=metric,
    )
    raw = read_table(table)
    runs = read_runs(raw, choice)
    direction = metric_mode(runs.metric, mode)
    notes = list(runs.notes)
    kept = _tasks_as_seeds(_present(runs.runs, notes), notes)
    methods = list(dict.fromkeys(run.method for run in kept))
    if len(methods) < 2:
        raise ArgumentError(
            f"stats: {raw.source} has one method only, so there is nothing to compare",
            got=methods,
            fix="name the column of the method: method=COLUMN (--method COLUMN)",
        )
    chosen = _baseline(methods, baseline)
    numbered = _numbered_seeds(kept, paired, notes)
    content = {
        "name": "stats",
        "gatewise": _version(),
        "title": title or f"{raw.source}: {runs.metric.replace('_', ' ')}",
        "origin": ORIGIN,
        "study": {"source": raw.source, "columns": dict(runs.columns), "notes": notes},
        "baseline": chosen,
        "metric": runs.metric,
        "mode": direction,
        "margin": margin,
        "paired": paired,
        "resolution": _resolution(kept, examples),
        "tuning": {"mode": "none", "why": "", "groups": []},
        "groups": [],
        "cells": [],
    }
    return _result(content, kept, numbered, chosen, runs)


def _version() -> str:
    """Return the version of this library; empty if it is not installed."""
    try:
        return version("gatewise")
    except PackageNotFoundError:
        return ""


def _result(
    content: dict[str, Any],
    runs: Sequence[Run],
    seeds: Sequence[int],
    baseline: str,
    table: RunTable,
) -> StudyResult:
    """Return the runs as a study that has no folder.

    Args:
        content: What stands above the runs.
        runs: One per run.
        seeds: The seed of each run as a number.
        baseline: Its runs come first.
        table: How the runs were read.
    """
    order = sorted(range(len(runs)), key=lambda place: runs[place].method != baseline)
    records = []
    for place in order:
        run = runs[place]
        diverged = run.value is None or math.isnan(run.value)
        cell = {
            "key": f"run-{place + 1}",
            "unit": run.method,
            "backbone": TASK,
            "data": run.task or TASK,
            "recipe": "as given",
            "seed": seeds[place],
            "lr": None,
            "role": "final",
        }
        content["cells"].append({**cell, "config": {}})
        reason = f"{table.metric} is {run.cell!r} in {run.row}" if diverged else None
        record = {
            **cell,
            "status": "diverged" if diverged else "finished",
            "reason": reason,
            "metrics": None if diverged else {table.metric: run.value},
            "seed_label": run.seed,
            "row": run.row,
            "seconds": None,
        }
        records.append(record)
    return StudyResult("", content, tuple(records))


def _present(runs: Sequence[Run], notes: list[str]) -> list[Run]:
    """Return the runs that have a result, and note what was left out and what diverged."""
    present = []
    diverged: Counter[str] = Counter()
    for run in runs:
        if run.value is None:
            continue
        present.append(run)
        if math.isnan(run.value):
            diverged[run.method] += 1
    missing = len(runs) - len(present)
    if missing:
        notes.append(
            f"{plural(missing, 'row')} without a value left out. Write nan for a run that diverged."
        )
    if diverged:
        names = ", ".join(f"{count} of {name}" for name, count in diverged.items())
        notes.append(f"Diverged runs (nan or inf) are results: {names}.")
    return present


def _tasks_as_seeds(runs: Sequence[Run], notes: list[str]) -> list[Run]:
    """Take tasks as the pairs where every method has one run per task and there is no seed.

    One run cannot be compared within its task. Over tasks like these, methods can be.
    """
    places: Counter[tuple[str, str]] = Counter()
    tasks = set()
    seeded = False
    for run in runs:
        places[run.method, run.task] += 1
        tasks.add(run.task)
        seeded = seeded or run.seed is not None
    if seeded or len(tasks) < FEWEST_TASKS or max(places.values(), default=0) > 1:
        return list(runs)
    notes.append(
        f"One run per method and task: the {len(tasks)} tasks are the pairs, so what is shown "
        "holds for tasks like these."
    )
    return [replace(run, task="", seed=run.task) for run in runs]


def _baseline(methods: Sequence[str], baseline: str | None) -> str:
    """Return the method that others are compared with."""
    if baseline is not None:
        if baseline not in methods:
            raise ArgumentError(
                "stats: the baseline is not a method of the table",
                got=baseline,
                allowed=", ".join(methods),
            )
        return baseline
    for name in BASELINES:
        for candidate in methods:
            if candidate.lower() == name:
                return candidate
    return methods[0]


def _numbered_seeds(runs: Sequence[Run], paired: bool | None, notes: list[str]) -> list[int]:
    """Return the seed of every run as a number; runs that are not paired share none.

    Runs are paired by seed if every run has one and no method has two runs with one seed in a
    task. The order of rows never pairs.
    """
    seeds = [run.seed for run in runs]
    repeated = _repeated(runs)
    if paired is False:
        notes.append("Not paired, as asked: tested as separate groups (Welch's t).")
    elif repeated:
        method, task, seed = repeated
        place = f" on {task}" if task else ""
        notes.append(
            f"Not paired: {method}{place} has several runs with seed {seed}. "
            "Tested as separate groups (Welch's t)."
        )
    elif None in seeds:
        reason = "seeds are missing" if any(seeds) else "no column has seeds"
        notes.append(f"Not paired: {reason}. Tested as separate groups (Welch's t).")
    else:
        notes.append(_pairing_note(runs))
        return _seed_numbers(list(map(str, seeds)))
    return list(range(len(runs)))


def _repeated(runs: Sequence[Run]) -> tuple[str, str, str] | None:
    """Return method, task and seed of which there are two runs; None if there are none."""
    known = set()
    for run in runs:
        if run.seed is not None:
            key = (run.method, run.task, run.seed)
            if key in known:
                return key
            known.add(key)
    return None


def _pairing_note(runs: Sequence[Run]) -> str:
    """Say how many seeds the methods have in common."""
    seeds: dict[str, dict[str, set[str]]] = {}
    for run in runs:
        seeds.setdefault(run.task, {}).setdefault(run.method, set()).add(run.seed or "")
    shared = [len(set.intersection(*methods.values())) for methods in seeds.values()]
    if max(shared) == 0 and not any(map(_some_share, seeds.values())):
        return "No two methods share a seed: their runs are compared as separate groups."
    if max(shared) == 0:
        return "No seed is shared by all methods: every method is compared by the seeds it shares."
    few, many = min(shared), max(shared)
    count = plural(many, "seed") if few == many else f"{few} to {many} seeds"
    return f"Paired by seed: all methods have {count} in common."


def _some_share(seeds: Mapping[str, set[str]]) -> bool:
    """Return whether any two methods have a seed in common."""
    return sum(map(len, seeds.values())) > len(set().union(*seeds.values()))


def _seed_numbers(labels: Sequence[str]) -> list[int]:
    """Return seeds as numbers: their own where all are whole numbers, else their places."""
    if all(label.isascii() and label.isdigit() and len(label) < 18 for label in labels):
        numbers = list(map(int, labels))
        if len(set(numbers)) == len(set(labels)):
            return numbers
    places = {label: place for place, label in enumerate(dict.fromkeys(labels))}
    return [places[label] for label in labels]


def _resolution(runs: Sequence[Run], examples: int | None) -> float:
    """Return the smallest step of the values, by the test examples or by their digits."""
    finite = [run for run in runs if run.value is not None and math.isfinite(run.value)]
    if examples is not None:
        largest = max((abs(run.value or 0.0) for run in finite), default=0.0)
        return (1.0 if largest <= 1 else 100.0) / examples
    return step_of([run.cell for run in finite])


def _check_options(*, paired: object, metric: object, title: object, baseline: object) -> None:
    """Raise if an option has the wrong type."""
    if not (paired is None or isinstance(paired, bool)):
        raise ArgumentError("stats: paired is not True, False or None", got=paired)
    options: Mapping[str, object] = {"metric": metric, "title": title, "baseline": baseline}
    for name, option in options.items():
        if option is not None and not isinstance(option, str):
            raise ArgumentError(f"stats: {name} must be text", got=option)


def _column(name: Any, role: str) -> str | None:
    """Return the name of one column, or raise."""
    if name is None or isinstance(name, str):
        return name
    raise ArgumentError(f"stats: {role} must be the name of a column", got=name)


def _columns(names: Any, role: str) -> list[str] | None:
    """Return the names of columns: one, or a list of them."""
    if names is None:
        return None
    if isinstance(names, str):
        return [names]
    if isinstance(names, Sequence) and names and all(isinstance(name, str) for name in names):
        return list(names)
    raise ArgumentError(f"stats: {role} must be the name of a column or a list of names", got=names)
