"""Find out which column of a table is the method, the task, the seed and the value.

Note [Layouts]. A long table has one row per run. A wide table has one column per method, or one
per seed. A table of metrics has one row per run and metric. Logs have one row per step, of which
the last counts. All become :class:`Run` records. What was guessed is kept in ``notes`` and can be
overruled by naming the columns.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gatewise.errors import ArgumentError
from gatewise.studies.records.cell_values import is_numeric, number_of
from gatewise.studies.records.raw_table import RawTable, distinct, text_of
from gatewise.train import bare_metric, metric_mode

METHOD = (
    "method",
    "unit",
    "activation",
    "activation_function",
    "act",
    "nonlinearity",
    "algorithm",
    "algo",
    "variant",
    "approach",
    "treatment",
    "arm",
    "condition",
    "optimizer",
    "model",
    "model_name",
    "config",
    "group",
)
TASK = (
    "task",
    "dataset",
    "data_set",
    "data",
    "benchmark",
    "env",
    "environment",
    "env_id",
    "domain",
    "problem",
    "backbone",
    "network",
    "architecture",
    "arch",
    "recipe",
)
SEED = (
    "seed",
    "random_seed",
    "rng_seed",
    "replicate",
    "replica",
    "rep",
    "repeat",
    "repetition",
    "trial",
    "fold",
    "split",
    "run",
)
STEP = ("step", "global_step", "epoch", "iteration", "iter", "timestep", "trainer_global_step")
RUN_NAME = ("run_name", "name", "mlflow_runname", "run_id", "id")
METRIC_NAME = ("metric", "metric_name", "measure")
VALUE = ("value", "score", "result", "performance", "metric_value")
PREFIXES = ("params.", "metrics.", "tags.", "config.", "config/", "params/", "hparams/", "summary/")
# Part of the data that a metric was measured on, best first.
PARTS = ("test", "", "val", "valid", "validation", "eval", "held", "train")
# How a run's name says its seed: "relu_seed3", "gelu-s0", "swish/7".
SEED_IN_NAME = re.compile(
    r"[\s_/.,\-]*(?:\b|(?<=[_\-/\s.,]))(?:seed|run|rep|trial|fold|s)?[\s_=:\-]*(\d+)$",
    re.IGNORECASE,
)
SEED_COLUMN = re.compile(r"(?:(?:seed|run|rep|trial|fold|s)[\s_=:\-]*)?\d+", re.IGNORECASE)
CHART_COLUMN = re.compile(r"(?P<run>.+) - (?P<metric>[^-]+?)(?P<extra>__MIN|__MAX)?")


@dataclass(frozen=True)
class Choice:
    """The columns that the user named; None where they are to be guessed."""

    method: str | None = None
    task: Sequence[str] | None = None
    seed: str | None = None
    value: Sequence[str] | None = None
    metric: str | None = None


@dataclass(frozen=True)
class Run:
    """One run of a method.

    Attributes:
        method: The method.
        task: The task, the values of all task columns joined; empty if there is none.
        seed: The seed as text; None if there is no seed column.
        value: The result: NaN if the run diverged, None if the cell is empty.
        cell: The cell as it was read.
        step: The step of a log; None if there is none.
        row: Where the run stands in its source.
    """

    method: str
    task: str
    seed: str | None
    value: float | None
    cell: Any
    step: float | None
    row: str


@dataclass(frozen=True)
class RunTable:
    """The runs of a table, and how its columns were read.

    Attributes:
        runs: One per run, the last step only.
        metric: The name of the value.
        columns: Role to the name of its column.
        notes: What was decided, in words.
    """

    runs: Sequence[Run]
    metric: str
    columns: Mapping[str, str]
    notes: Sequence[str] = field(default=())


def read_runs(table: RawTable, choice: Choice) -> RunTable:
    """Return the runs of a table. See Note [Layouts].

    Args:
        table: The columns.
        choice: The columns that the user named.

    Raises:
        ArgumentError: If a named column is not there, or no column can be the method or the value.
    """
    for name in (choice.method, choice.seed, *(choice.task or ()), *(choice.value or ())):
        if name is not None and name not in table.columns:
            raise ArgumentError(
                f"stats: {table.source} has no such column",
                got=name,
                allowed=", ".join(table.columns),
            )
    if len(table) == 0:
        raise ArgumentError(f"stats: {table.source} has no rows", got=list(table.columns))
    table = _without_charts(table)
    table, choice = _one_metric(table, choice)
    reader = _Reader(table, choice)
    return reader.read()


class _Reader:
    """Decides on the role of each column, one after the other.

    Args:
        table: The columns.
        choice: The columns that the user named.
    """

    def __init__(self, table: RawTable, choice: Choice) -> None:
        self.table = table
        self.choice = choice
        self.notes = list(table.notes)
        self.taken: set[str] = set()
        self.seed = self._take(choice.seed or self._known(SEED))
        self.step = self._take(self._known(STEP))
        self.method = self._take(choice.method or self._known(METHOD, several=True))
        tasks = choice.task
        if tasks is None:
            tasks = [name for name in self._all_known(TASK) if len(self._labels(name)) > 1]
        self.tasks = [name for name in tasks if self._take(name)]

    def read(self) -> RunTable:
        """Return the runs of the layout that fits."""
        values = self.choice.value
        if self.method is not None and values is None:
            seeds = [name for name in self._free_numeric() if SEED_COLUMN.fullmatch(name.strip())]
            if len(seeds) >= 2 and self.seed is None:
                return self._wide_seeds(seeds)
        if self.method is None and (values is None or len(values) > 1):
            columns = self._methods_in_columns()
            if columns:
                return self._wide_methods(columns)
        if values is not None and len(values) > 1:
            raise ArgumentError(
                "stats: one value column is needed where another column names the method",
                got=list(values),
                fix=f"name one of them, or no method column ({self.method})",
            )
        return self._long()

    def _long(self) -> RunTable:
        """Read one run per row."""
        value = self.choice.value[0] if self.choice.value else self._guess_value()
        self.taken.add(value)
        methods: Sequence[str]
        seeds = list(map(text_of, self.table.columns[self.seed])) if self.seed else None
        if self.method is None:
            methods, seeds = self._from_names(seeds)
        else:
            methods = list(map(text_of, self.table.columns[self.method]))
        runs = []
        for place, row in enumerate(self.table.rows):
            cell = self.table.columns[value][place]
            runs.append(
                self._run(methods[place], seeds[place] if seeds else None, cell, place, row, value)
            )
        columns = {"method": str(self.method), "value": value}
        return self._finish(runs, self.choice.metric or _clean(value), columns)

    def _wide_methods(self, columns: Sequence[str]) -> RunTable:
        """Read one method per column."""
        runs = []
        for place, row in enumerate(self.table.rows):
            seed = text_of(self.table.columns[self.seed][place]) if self.seed else None
            for name in columns:
                cell = self.table.columns[name][place]
                # Without a seed column a row is one seed only if it is one task: see `_finish`.
                runs.append(self._run(name, seed, cell, place, row, name))
        self.notes.append(f"Wide table: every column is a method ({len(columns)} columns).")
        roles = {"method": "the columns", "value": "their cells"}
        return self._finish(runs, self.choice.metric or "value", roles)

    def _wide_seeds(self, columns: Sequence[str]) -> RunTable:
        """Read one seed per column."""
        runs = []
        methods = self.table.columns[self.method or ""]
        for place, row in enumerate(self.table.rows):
            for name in columns:
                cell = self.table.columns[name][place]
                method = text_of(methods[place])
                runs.append(self._run(method, name.strip(), cell, place, row, name))
        self.notes.append(f"Wide table: every column is a seed ({len(columns)} columns).")
        roles = {"method": self.method or "", "seed": "the columns", "value": "their cells"}
        return self._finish(runs, self.choice.metric or "value", roles)

    def _run(
        self,
        method: str,
        seed: str | None,
        cell: Any,
        place: int,
        row: str,
        column: str,
    ) -> Run:
        """Return the run of one cell, or raise if the cell is not a number."""
        where = f"stats: {self.table.source}, {row}"
        if not method:
            raise ArgumentError(f"{where}: the method is empty", got=f"column {self.method!r}")
        try:
            value = number_of(cell, decimal_comma=self.table.decimal_comma)
        except ValueError:
            raise ArgumentError(
                f"{where}, column {column!r}: not a number",
                got=cell,
                allowed="a number, nan for a run that diverged, or nothing",
            ) from None
        task = " · ".join(text_of(self.table.columns[name][place]) for name in self.tasks)
        step = None
        if self.step is not None:
            step = _step(self.table.columns[self.step][place])
        return Run(method, task, seed or None, value, cell, step, row)

    def _finish(self, runs: Sequence[Run], metric: str, columns: dict[str, str]) -> RunTable:
        """Return the last step of every run, and the roles of all columns."""
        if self.tasks:
            columns["task"] = ", ".join(self.tasks)
        if self.seed is not None:
            columns.setdefault("seed", self.seed)
        kept, dropped = _last_steps(runs)
        if dropped:
            self.notes.append(
                f"Only the last {self.step} of each run counts: {dropped:,} rows left out."
            )
        kept = [run for run in kept if run.value is not None or self.step is None]
        return RunTable(kept, metric, columns, tuple(self.notes))

    def _from_names(self, seeds: Sequence[str] | None) -> tuple[list[str], list[str] | None]:
        """Return methods and seeds from the names of runs."""
        name = self._known(RUN_NAME) or self._text_column() or self._known(METHOD)
        if name is None:
            raise ArgumentError(
                f"stats: no column of {self.table.source} names the method",
                got=", ".join(self.table.columns),
                fix="name it: method=COLUMN (--method COLUMN)",
            )
        self.taken.add(name)
        self.method = name
        labels = list(map(text_of, self.table.columns[name]))
        if _clean(name) in METHOD:
            return labels, None if seeds is None else list(seeds)
        methods: list[str] = []
        named_seeds: list[str] = []
        for label in labels:
            method, seed = _split_name(label)
            methods.append(method)
            named_seeds.append(seed)
        if seeds is not None:
            return methods, list(seeds)
        if not any(named_seeds):
            return labels, None
        self.notes.append(
            f"Method and seed are read from the run names in column {name!r}: "
            f"{labels[0]!r} is method {methods[0]!r}, seed {named_seeds[0]!r}."
        )
        return methods, named_seeds

    def _guess_value(self) -> str:
        """Return the column of the result, or raise if there is none or several."""
        candidates = self._free_numeric()
        if not candidates:
            free = [name for name in self.table.columns if name not in self.taken]
            metrics = [name for name in free if _direction(name) is not None]
            if metrics:  # some cell is no number; whoever reads the column names its row
                return min(metrics, key=_part_rank)
            raise ArgumentError(
                f"stats: no column of {self.table.source} has the result of a run",
                got=", ".join(self.table.columns),
                fix="name it: value=COLUMN (--value COLUMN)",
            )
        if self.choice.metric in candidates:
            return str(self.choice.metric)
        metrics = [name for name in candidates if _direction(name) is not None]
        if metrics:
            best = min(metrics, key=_part_rank)
            metrics.remove(best)
            if metrics:
                self.notes.append(
                    f"Judged: {best!r}. Not judged: {', '.join(map(repr, metrics))}; "
                    "name one with --value to judge it instead."
                )
            return best
        named = _with_role(candidates, VALUE)
        if named:
            return named[0]
        varied = [name for name in candidates if len(distinct(self.table.columns[name])) > 1]
        if len(varied) == 1:
            return varied[0]
        raise ArgumentError(
            f"stats: it is not clear which column of {self.table.source} is the result",
            got=", ".join(candidates),
            fix="name it: value=COLUMN (--value COLUMN)",
        )

    def _methods_in_columns(self) -> list[str]:
        """Return the columns of a wide table with one method each; empty if it is not one."""
        if self.choice.value is not None:
            return list(self.choice.value)
        if self._known(RUN_NAME) or self._text_column():
            return []
        columns = [name for name in self._free_numeric() if _clean(name) not in VALUE]
        if any(_direction(name) is not None for name in columns):
            return []
        return columns if len(columns) >= 2 else []

    def _text_column(self) -> str | None:
        """Return the one column of labels that repeat; None if there is none or several."""
        columns = []
        for name in self.table.columns:
            if name in self.taken or self._is_numeric(name):
                continue
            labels = len(self._labels(name))
            if 2 <= labels <= len(self.table) / 2:
                columns.append(name)
        return columns[0] if len(columns) == 1 else None

    def _known(self, names: Sequence[str], *, several: bool = False) -> str | None:
        """Return the free column with the first of some usual names.

        Args:
            names: The names, best first.
            several: Whether the column must hold two different labels.
        """
        for name in self._all_known(names):
            if not several or len(self._labels(name)) > 1:
                return name
        return None

    def _all_known(self, names: Sequence[str]) -> list[str]:
        """Return the free columns with usual names, best first."""
        found = []
        for wanted in names:
            for name in self.table.columns:
                if name not in self.taken and _clean(name) == wanted:
                    found.append(name)
        return found

    def _labels(self, name: str) -> list[str]:
        return distinct(self.table.columns[name])

    def _is_numeric(self, name: str) -> bool:
        return is_numeric(self.table.columns[name], decimal_comma=self.table.decimal_comma)

    def _free_numeric(self) -> list[str]:
        """Return the columns of numbers that have no role yet."""
        return [
            name for name in self.table.columns if name not in self.taken and self._is_numeric(name)
        ]

    def _take(self, name: str | None) -> str | None:
        if name is not None:
            self.taken.add(name)
        return name


def _without_charts(table: RawTable) -> RawTable:
    """Turn the export of a W&B chart (one column per run) into one row per run and step."""
    charts = {}
    for name in table.columns:
        match = CHART_COLUMN.fullmatch(name)
        if match:
            charts[name] = match
    steps = [name for name in table.columns if name not in charts]
    if len(charts) < 2 or len(steps) != 1 or _clean(steps[0]) not in STEP:
        return table
    metrics = {match["metric"] for match in charts.values()}
    if len(metrics) != 1:
        return table
    metric = metrics.pop()
    columns: dict[str, list[Any]] = {"run name": [], "step": [], metric: []}
    rows = []
    for name, match in charts.items():
        if match["extra"]:
            continue
        for place, row in enumerate(table.rows):
            cell = table.columns[name][place]
            if text_of(cell):
                columns["run name"].append(match["run"])
                columns["step"].append(table.columns[steps[0]][place])
                columns[metric].append(cell)
                rows.append(row)
    note = "Chart of W&B: every column is a run."
    return replace(table, columns=columns, rows=rows, notes=(*table.notes, note))


def _one_metric(table: RawTable, choice: Choice) -> tuple[RawTable, Choice]:
    """Keep the rows of one metric where a column names the metric of each row."""
    names = _with_role(table.columns, METRIC_NAME)
    values = _with_role(table.columns, VALUE)
    if len(names) != 1 or len(values) != 1 or choice.value is not None:
        return table, choice
    labels = list(map(text_of, table.columns[names[0]]))
    metrics = distinct(labels)
    if len(metrics) < 1 or is_numeric(table.columns[names[0]]):
        return table, choice
    metric = choice.metric or min(metrics, key=_part_rank)
    if metric not in metrics:
        raise ArgumentError(
            f"stats: {table.source} has no such metric",
            got=metric,
            allowed=", ".join(metrics),
        )
    kept = [place for place, label in enumerate(labels) if label == metric]
    columns = {}
    for name, cells in table.columns.items():
        if name != names[0]:
            columns[name] = [cells[place] for place in kept]
    notes = list(table.notes)
    if len(metrics) > 1:
        metrics.remove(metric)
        others = ", ".join(map(repr, metrics))
        notes.append(f"Judged: {metric!r}. Not judged: {others}; name one with --metric.")
    rows = [table.rows[place] for place in kept]
    table = replace(table, columns=columns, rows=rows, notes=tuple(notes))
    return table, replace(choice, metric=metric, value=(values[0],))


def _last_steps(runs: Sequence[Run]) -> tuple[list[Run], int]:
    """Return the runs without all but the last step of a log, and how many rows were left out."""
    last: dict[tuple[str, str, str | None], Run] = {}
    for run in runs:
        if run.step is None:
            return list(runs), 0
        # In a log, an empty cell is a step at which the metric was not measured.
        if run.value is None:
            continue
        key = (run.method, run.task, run.seed)
        if key not in last or run.step >= (last[key].step or 0.0):
            last[key] = run
    return list(last.values()), len(runs) - len(last)


def _step(cell: Any) -> float | None:
    """Return a step as a number; None if it is not one."""
    try:
        step = number_of(cell)
    except ValueError:
        return None
    if step is not None and math.isfinite(step):
        return step
    return None


def _split_name(label: str) -> tuple[str, str]:
    """Return method and seed of a run's name; the seed is empty if it has none."""
    match = SEED_IN_NAME.search(label)
    if match is None or not label[: match.start()]:
        return label, ""
    return label[: match.start()], match[1]


def _with_role(names: Iterable[str], role: Sequence[str]) -> list[str]:
    """Return the columns whose name is usual for a role."""
    return [name for name in names if _clean(name) in role]


def _clean(name: str) -> str:
    """Return the name of a column without the prefix of its tool, in lower case."""
    bare = name.strip()
    for prefix in PREFIXES:
        if bare.lower().startswith(prefix):
            bare = bare[len(prefix) :]
    return re.sub(r"[^0-9a-z]+", "_", bare.lower()).strip("_")


def _direction(name: str) -> str | None:
    """Return the direction of a metric with a usual name; None for other names."""
    try:
        return metric_mode(_clean(name))
    except ArgumentError:
        return None


def _part_rank(name: str) -> int:
    """Return how much a metric tells: that of test data comes first."""
    clean = _clean(name)
    bare = bare_metric(clean)
    part = clean.removesuffix(bare).strip("_")
    if part in PARTS:
        return PARTS.index(part)
    return len(PARTS)
