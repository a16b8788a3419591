"""Compare runs that were made elsewhere, by the rule of a study."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gatewise.checks import check_count, check_flag, check_number, is_sequence
from gatewise.errors import ArgumentError
from gatewise.stats import FEWEST_RATES, equal_ratios, mean
from gatewise.studies.answer import ComparisonResult
from gatewise.studies.records.cell_values import step_of
from gatewise.studies.records.raw_table import read_table
from gatewise.studies.records.roles import Choice, Run, names_of, read_runs
from gatewise.train import SHARES, bare_metric, metric_mode
from gatewise.words import joined, plural, rate

ORIGIN = "table"
# Records of a study, and what its header says about seeds, rates and pairs.
Layout = tuple[list[dict[str, Any]], dict[str, Any]]
TASK = "all runs"  # in place of the task where there is none
BASELINES = ("baseline", "original", "relu", "control", "vanilla", "default")
FEWEST_TASKS = 3


def compare_records(
    table: Any,
    *,
    method: str | None = None,
    task: str | Sequence[str] | None = None,
    rate: str | None = None,
    seed: str | None = None,
    value: str | Sequence[str] | None = None,
    average: str | Sequence[str] | None = None,
    metric: str | None = None,
    mode: str | None = None,
    baseline: str | None = None,
    margin: float | None = None,
    paired: bool | None = None,
    examples: int | None = None,
    title: str = "",
) -> ComparisonResult:
    """Compare runs that were made elsewhere: any table with methods, seeds and results.

    With a column of at least four learning rates at equal ratios, the rule is that of
    :func:`gatewise.compare`. With other rates, methods are compared at each rate that all of them
    have. Without rates, one interval per method decides: paired by seed where seeds overlap, else
    Welch's. All intervals are corrected for the number of comparisons.

    Args:
        table: A path (CSV, TSV, Parquet, a folder of TensorBoard or MLflow runs), a list of paths,
            a data frame (pandas, polars, pyarrow), a mapping of columns, or a list of rows.
        method: The column of the method. Found by its usual names if not given, like the others.
        task: The column or columns of the task. Methods are compared within a task.
        rate: The column of the learning rate.
        seed: The column of the seed.
        value: The column of the result; or several, one per method.
        average: Columns whose rows are averaged for each seed, for example a fold.
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
        The comparison, as of a study. ``print(result)`` shows the tables, ``result["gelu"]`` is one
        row, ``result.rows(TASK)`` the rows of a task, and ``result.header.notes`` says how the
        table was read.

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
        >>> gw.compare_records(runs)["gelu"].verdict
        'better'
    """
    if paired is not None:
        check_flag("stats", "paired", paired)
    if margin is not None:
        check_number("stats", "margin", margin, above=0)
    if examples is not None:
        check_count("stats", "examples", examples, least=1)
    choice = Choice(
        method=_text(method, "method"),
        task=_columns(task, "task"),
        rate=_text(rate, "rate"),
        seed=_text(seed, "seed"),
        value=_columns(value, "value"),
        metric=_text(metric, "metric"),
        average=_columns(average, "average") or (),
    )
    raw = read_table(table)
    read = read_runs(raw, choice)
    notes = list(read.notes)
    kept = _tasks_as_seeds(_present(read.runs, notes), notes)
    methods = names_of(kept)
    if len(methods) < 2:
        raise ArgumentError(
            f"stats: {raw.source} has one method only, so there is nothing to compare",
            got=methods,
            fix="name the column of the method: method=COLUMN",
        )
    records, facts = _layout(kept, methods, paired, notes)
    is_share = _is_share(read.metric, kept)
    header = {
        "format": "gatewise study",
        "name": "stats",
        "title": _text(title, "title") or f"{raw.source}: {read.metric.replace('_', ' ')}",
        "origin": ORIGIN,
        "metric": {
            "name": read.metric,
            "higher_is_better": metric_mode(read.metric, mode) == "max",
            "unit": "%" if is_share else "",
            "scale": 100.0 if is_share else 1.0,
            "step": _resolution(kept, examples),
        },
        "models": list(dict.fromkeys(record["model"] for record in records)),
        "baseline": _baseline(methods, _text(baseline, "baseline")),
        "units": [{"name": name, "label": name} for name in methods],
        "margin": None if margin is None else float(margin),
        **facts,
        "notes": notes,
        "settings": {"source": raw.source, "columns": dict(read.columns), "rows": len(read.runs)},
    }
    return ComparisonResult(header, records)


def _layout(
    runs: Sequence[Run],
    methods: Sequence[str],
    paired: bool | None,
    notes: list[str],
) -> Layout:
    """Return the records: on a grid of learning rates, at single rates, or without rates."""
    rates = sorted({run.rate for run in runs if run.rate is not None})
    own = {method: {run.rate for run in runs if run.method == method} for method in methods}
    if len(rates) < 2 or all(len(found) == 1 for found in own.values()):
        if len(rates) > 1:
            notes.append("Every method has one learning rate of its own, so rates are no axis.")
        return _without_rates(runs, paired, notes)
    if any(run.seed is None for run in runs) or paired is False:
        raise ArgumentError(
            "stats: a table with several learning rates needs a seed for every run",
            got=f"{len(rates)} learning rates",
            fix="name the column: seed=COLUMN",
        )
    if len(rates) >= FEWEST_RATES:
        ratio, fits = equal_ratios(rates)
        if fits:
            return _on_grid(runs, methods, rates, ratio, notes)
    return _at_single_rates(runs, methods, rates, notes)


def _on_grid(
    runs: Sequence[Run],
    methods: Sequence[str],
    rates: Sequence[float],
    ratio: float,
    notes: list[str],
) -> Layout:
    """Return records on a grid of learning rates."""
    seeds = _shared_seeds(runs, methods, notes)
    places = {seed: place for place, seed in enumerate(seeds)}
    records = []
    for run in _averaged(runs):
        if run.seed in places and run.rate is not None:
            step = 2 * rates.index(run.rate) - (len(rates) - 1)
            records.append(_record(run, run.task or TASK, step, places[run.seed]))
    notes.append(f"{len(rates)} learning rates at equal ratios, {plural(len(seeds), 'seed')}.")
    grid = {"center": math.sqrt(rates[0] * rates[-1]), "ratio": ratio, "count": len(rates)}
    return records, {"seeds": len(seeds), "rates": grid}


def _at_single_rates(
    runs: Sequence[Run],
    methods: Sequence[str],
    rates: Sequence[float],
    notes: list[str],
) -> Layout:
    """Return records of one comparison for each rate that all methods have."""
    shared = []
    for value in rates:
        having = {run.method for run in runs if run.rate == value and run.value is not None}
        if len(having) == len(methods):
            shared.append(value)
    if not shared:
        raise ArgumentError(
            "stats: the methods have no learning rate in common",
            got=joined([rate(value) for value in rates], most=8),
            fix="run all methods at the same rates, or leave the column out of the table",
        )
    comparisons = len(shared) * (len(methods) - 1)
    notes.append(
        f"The learning rates are no grid of at least {FEWEST_RATES} at equal ratios. Methods are "
        f"compared at each rate that all have ({joined([rate(value) for value in shared], most=8)})"
        f", corrected for {comparisons} comparisons."
    )
    averaged = [run for run in _averaged(runs) if run.rate in shared]
    averaged.sort(key=lambda run: run.rate or 0.0)
    places = _seed_places(averaged)
    records = []
    for run in averaged:
        task = f"{run.task}, " if run.task else ""
        model = f"{task}rate {rate(run.rate or 0.0)}"
        records.append(_record(run, model, 0, places[run.seed or ""]))
    return records, {"seeds": len(places), "comparisons": comparisons}


def _without_rates(runs: Sequence[Run], paired: bool | None, notes: list[str]) -> Layout:
    """Return records of a table without learning rates."""
    seedless = [run for run in runs if run.seed is None]
    if paired is False or seedless:
        reason = "no column has seeds" if len(seedless) == len(runs) else "seeds are missing"
        reason = "as asked" if paired is False else reason
        notes.append(f"Not paired: {reason}. Tested as separate groups (Welch's t).")
        counts: Counter[tuple[str, str]] = Counter()
        records = []
        for run in runs:
            key = (run.method, run.task)
            records.append(_record(run, run.task or TASK, 0, counts[key]))
            counts[key] += 1
        return records, {"seeds": max(counts.values()), "paired": False}
    averaged = _averaged(runs)
    places = _seed_places(averaged)
    records = [_record(run, run.task or TASK, 0, places[run.seed or ""]) for run in averaged]
    notes.append(_pairing_note(averaged))
    return records, {"seeds": len(places)}


def _record(run: Run, model: str, step: int, seed: int) -> dict[str, Any]:
    """Return a run as a record."""
    diverged = run.value is None or math.isnan(run.value)
    return {
        "model": model,
        "unit": run.method,
        "step": step,
        "rate": run.rate,
        "seed": seed,
        "status": "diverged" if diverged else "done",
        "value": None if diverged else run.value,
        "error": f"{run.cell!r} in {run.row}" if diverged else None,
        "seed_label": run.seed,
    }


def _averaged(runs: Sequence[Run]) -> list[Run]:
    """Return one run per method, task, rate and seed: the mean of repeated rows.

    A mean over rows of which one diverged has diverged.
    """
    groups: dict[Any, list[Run]] = {}
    for run in runs:
        groups.setdefault((run.method, run.task, run.rate, run.seed), []).append(run)
    averaged = []
    for rows in groups.values():
        values = [math.nan if row.value is None else row.value for row in rows]
        averaged.append(rows[0] if len(rows) == 1 else replace(rows[0], value=mean(values)))
    return averaged


def _shared_seeds(runs: Sequence[Run], methods: Sequence[str], notes: list[str]) -> list[str]:
    """Return the seeds that every method has at some rate, in every task that it is in."""
    seeds: dict[tuple[str, str], dict[str, None]] = {}
    for run in runs:
        seeds.setdefault((run.method, run.task), {})[run.seed or ""] = None
    everywhere = [set(found) for found in seeds.values()]
    known = list(dict.fromkeys(run.seed or "" for run in runs))
    shared = [seed for seed in known if all(seed in found for found in everywhere)]
    if not shared:
        raise ArgumentError(
            "stats: no seed is shared by all methods",
            got=joined(list(methods), most=8),
            fix="run all methods with the same seeds",
        )
    if len(shared) < len(known):
        left_out = [seed for seed in known if seed not in shared]
        notes.append(f"Seeds that not all methods have are left out: {joined(left_out, most=8)}.")
    return sorted(shared, key=_seed_order)


def _seed_places(runs: Sequence[Run]) -> dict[str, int]:
    """Return the place of every seed."""
    seeds = sorted({run.seed or "" for run in runs}, key=_seed_order)
    return {seed: place for place, seed in enumerate(seeds)}


def _seed_order(seed: str) -> tuple[int, int, str]:
    """Return what seeds are sorted by: numbers first, by their size."""
    is_number = seed.isascii() and seed.isdigit() and len(seed) < 18
    return (0, int(seed), "") if is_number else (1, 0, seed)


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
    places = Counter((run.method, run.task) for run in runs)
    tasks = {run.task for run in runs}
    seeded = any(run.seed is not None for run in runs)
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


def _pairing_note(runs: Sequence[Run]) -> str:
    """Say how many seeds the methods have in common."""
    seeds: dict[str, dict[str, set[str]]] = {}
    for run in runs:
        seeds.setdefault(run.task, {}).setdefault(run.method, set()).add(run.seed or "")
    shared = [len(set.intersection(*methods.values())) for methods in seeds.values()]
    few, many = min(shared), max(shared)
    if many == 0:
        return "No seed is shared by all methods: every method is compared by the seeds it shares."
    count = plural(many, "seed") if few == many else f"{few} to {many} seeds"
    return f"Paired by seed: all methods have {count} in common."


def _resolution(runs: Sequence[Run], examples: int | None) -> float:
    """Return the smallest step of the values, by the test examples or by their digits."""
    finite = [run for run in runs if run.value is not None and math.isfinite(run.value)]
    if examples is not None:
        largest = max((abs(run.value or 0.0) for run in finite), default=0.0)
        return (1.0 if largest <= 1 else 100.0) / examples
    return step_of([run.cell for run in finite])


def _is_share(metric: str, runs: Sequence[Run]) -> bool:
    """Return whether a metric is a share of 1."""
    values = [run.value for run in runs if run.value is not None and math.isfinite(run.value)]
    return bare_metric(metric) in SHARES and all(0 <= value <= 1 for value in values)


def _text(value: Any, name: str) -> str | None:
    """Return a text, for example the name of one column, or raise."""
    if value is None or isinstance(value, str):
        return value
    raise ArgumentError(f"stats: {name} must be text", got=value)


def _columns(names: Any, role: str) -> Sequence[str] | None:
    """Return the names of columns: one, or a list of them."""
    if names is None or isinstance(names, str):
        return names if names is None else [names]
    if is_sequence(names) and names and all(isinstance(name, str) for name in names):
        return names
    raise ArgumentError(f"stats: {role} must be the name of a column or a list of names", got=names)
