"""Find the columns of a table by their usual names: method, task, rate, seed and result.

Note [Columns without a role]. Rows of one method, task, rate and seed must not count as independent
runs. Rows that differ in a fold or an episode are averaged. Rows that differ in any other column
are refused until the user says what the column is.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gatewise.errors import ArgumentError
from gatewise.studies.records.cell_values import number_of
from gatewise.studies.records.raw_table import RawTable, distinct, text_of
from gatewise.train import bare_metric, metric_mode
from gatewise.words import joined

# Names of columns that are recognised, best first. Other columns are named by the user.
METHOD = ("method", "unit", "activation", "act", "algorithm", "variant", "optimizer", "model")
TASK = ("task", "dataset", "data_set", "env", "environment", "backbone", "network", "model")
RATE = ("lr", "learning_rate", "rate")
SEED = ("seed", "random_seed", "trial", "run")
REPEATED = ("fold", "split", "episode", "repeat")
STEP = ("step", "global_step", "epoch", "iteration", "trainer_global_step")
RUN_NAME = ("run_name", "name", "mlflow_runname", "run_id")
MOST_METHODS = 8  # whose columns an error lists
METRIC_NAME = "metric"
VALUE = ("value", "score", "result")
PREFIXES = ("params.", "metrics.", "tags.", "config.", "config/", "params/", "hparams/", "summary/")
# Part of the data that a metric was measured on, best first.
PARTS = ("test", "", "val", "valid", "validation", "eval", "held", "train")
# How a run's name says its seed: "relu_seed3", "gelu-s0", "swish/7".
SEED_IN_NAME = re.compile(r"[\s_/.-]+(?:seed|s)?[\s_=-]*(\d+)$", re.IGNORECASE)


@dataclass(frozen=True)
class Choice:
    """The columns that the user named; None where they are found by their names."""

    method: str | None = None
    task: Sequence[str] | None = None
    rate: str | None = None
    seed: str | None = None
    value: Sequence[str] | None = None
    metric: str | None = None
    average: Sequence[str] = ()


@dataclass(frozen=True)
class Run:
    """One run of a method.

    Attributes:
        method: The method.
        task: The values of all task columns joined; empty if there is none.
        rate: The learning rate; None if there is no such column.
        seed: The seed as text; None if there is no seed column.
        value: The result: NaN if the run diverged, None if the cell is empty.
        cell: The cell as it was read.
        row: Where the run stands in its source.
    """

    method: str
    task: str
    rate: float | None
    seed: str | None
    value: float | None
    cell: Any
    row: str


@dataclass(frozen=True)
class RunTable:
    """The runs of a table, and how its columns were read.

    Attributes:
        runs: One per run.
        metric: The name of the value.
        columns: Role to the name of its column.
        notes: What was decided, in words.
    """

    runs: Sequence[Run]
    metric: str
    columns: Mapping[str, str]
    notes: Sequence[str] = field(default=())


def read_runs(table: RawTable, choice: Choice) -> RunTable:
    """Return the runs of a table.

    Args:
        table: The columns.
        choice: The columns that the user named.

    Raises:
        ArgumentError: If a named column is not there, no column can be the method or the value, or
            a column varies without a role.
    """
    named = (choice.method, choice.seed, choice.rate, *(choice.task or ()), *(choice.value or ()))
    for name in (*named, *choice.average):
        if name is not None and name not in table.columns:
            raise ArgumentError(
                f"stats: {table.source} has no such column",
                got=name,
                allowed=", ".join(table.columns),
            )
    if len(table) == 0:
        raise ArgumentError(f"stats: {table.source} has no rows", got=list(table.columns))
    return _Reader(table, choice).read()


class _Reader:
    """Gives each column a role, one after the other.

    Args:
        table: The columns.
        choice: The columns that the user named.
    """

    def __init__(self, table: RawTable, choice: Choice) -> None:
        self.table = table
        self.texts = {name: list(map(text_of, cells)) for name, cells in table.columns.items()}
        self.choice = choice
        self.notes = list(table.notes)
        self.places = list(range(len(table)))
        self.metric = choice.metric
        self.taken: set[str] = set(choice.average)
        self.seed = self._take(choice.seed or self._known(SEED))
        self.rate = self._take(choice.rate or self._known(RATE))
        self.step = self._take(self._known(STEP))
        self.repeated = [*choice.average]
        self.repeated += [name for name in self._all_known(REPEATED) if self._take(name)]
        if self.seed is None and self.repeated and not choice.average:
            # A fold or a repetition is what pairs the runs where nothing else does.
            self.seed = self.repeated.pop(0)
        self.method = self._take(choice.method or self._known(METHOD, several=True))
        tasks = choice.task
        if tasks is None:
            tasks = [name for name in self._all_known(TASK) if len(distinct(self.texts[name])) > 1]
        self.tasks = [name for name in tasks if self._take(name)]

    def read(self) -> RunTable:
        """Return the runs."""
        values = list(self.choice.value or [])
        if len(values) > 1:
            runs = self._one_column_a_method(values)
            columns = {"method": "the columns", "value": "their cells"}
            metric = self.metric or "value"
        else:
            value = values[0] if values else self._one_metric() or self._value_column()
            self.taken.add(value)
            runs = self._one_row_a_run(value)
            columns = {"method": str(self.method), "value": value}
            metric = self.metric or clean_name(value)
            self._check_roles(runs)
        for role, name in (("seed", self.seed), ("rate", self.rate)):
            if name is not None:
                columns[role] = name
        if self.tasks:
            columns["task"] = ", ".join(self.tasks)
        return RunTable(runs, metric, columns, tuple(self.notes))

    def _one_row_a_run(self, value: str) -> list[Run]:
        """Read one run per row; of a log, the last step of each run."""
        methods, seeds = self._methods_and_seeds()
        cells = self.table.columns[value]
        runs: dict[Any, tuple[float, Run, int]] = {}
        for place in self.places:
            run = self._run(methods[place], seeds[place], cells[place], place, value)
            if self.step is None:
                runs[place] = (0.0, run, place)
                continue
            # In a log, an empty cell is a step at which the metric was not measured.
            step = _number(self.table.columns[self.step][place])
            if run.value is None or step is None:
                continue
            repeat = tuple(self.texts[name][place] for name in self.repeated)
            key = (run.method, run.task, run.rate, run.seed, repeat)
            if key not in runs or step >= runs[key][0]:
                runs[key] = (step, run, place)
        kept = list(runs.values())
        if self.step is not None and len(kept) < len(self.places):
            dropped = len(self.places) - len(kept)
            self.notes.append(
                f"Only the last {self.step} of each run counts: {dropped:,} rows left out."
            )
        self.places = [place for _, _, place in kept]
        return [run for _, run, _ in kept]

    def _one_column_a_method(self, names: Sequence[str]) -> list[Run]:
        """Read one method per column."""
        if self.choice.method is not None:
            raise ArgumentError(
                "stats: one value column is needed where another column names the method",
                got=list(names),
                fix="name one value column, or no method column",
            )
        runs = []
        for place in self.places:
            seed = self.texts[self.seed][place] if self.seed else None
            for name in names:
                runs.append(self._run(name, seed, self.table.columns[name][place], place, name))
        self.notes.append(f"Every value column is a method ({len(names)} columns).")
        return runs

    def _run(self, method: str, seed: str | None, cell: Any, place: int, column: str) -> Run:
        """Return the run of one cell, or raise if the cell is not a number."""
        row = self.table.rows[place]
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
        task = " · ".join(self.texts[name][place] for name in self.tasks)
        return Run(method, task, self._rate(place, where), seed or None, value, cell, row)

    def _rate(self, place: int, where: str) -> float | None:
        """Return the learning rate of a row."""
        if self.rate is None:
            return None
        cell = self.table.columns[self.rate][place]
        rate = _number(cell, decimal_comma=self.table.decimal_comma)
        if rate is None or rate <= 0:
            raise ArgumentError(
                f"{where}, column {self.rate!r}: not a learning rate",
                got=cell,
                allowed="a number above 0",
            )
        return rate

    def _methods_and_seeds(self) -> tuple[list[str], list[str | None]]:
        """Return the method and the seed of every row."""
        seeds: list[str | None] = [None] * len(self.table)
        if self.seed is not None:
            seeds = [seed or None for seed in self.texts[self.seed]]
        if self.method is not None:
            return self.texts[self.method], seeds
        name = self._known(RUN_NAME) or self._known(METHOD)
        if name is None:
            raise ArgumentError(
                f"stats: no column of {self.table.source} names the method",
                got=", ".join(self.texts),
                fix="name it: method=COLUMN",
            )
        self.method = self._take(name)
        labels = self.texts[name]
        if clean_name(name) in METHOD or self.seed is not None:
            return labels, seeds
        split = [_split_name(label) for label in labels]
        if any(seed for _, seed in split):
            self.notes.append(
                f"Method and seed are read from the run names in column {name!r}: "
                f"{labels[0]!r} is method {split[0][0]!r}, seed {split[0][1]!r}."
            )
            return [method for method, _ in split], [seed or None for _, seed in split]
        return labels, seeds

    def _value_column(self) -> str:
        """Return the column of the result, or raise if there is none or several."""
        free = [name for name in self.table.columns if name not in self.taken]
        if self.metric in free:
            return str(self.metric)
        metrics = [name for name in free if _direction(name) is not None]
        found = sorted(metrics, key=_part_rank)
        found = found or [name for name in free if clean_name(name) in VALUE]
        if not found and len(free) == 1:
            found = free
        if not found:
            raise ArgumentError(
                f"stats: it is not clear which column of {self.table.source} is the result",
                got=", ".join(free or self.table.columns),
                fix=f"name it: value=COLUMN{self._wide_table(free)}",
            )
        if len(metrics) > 1:
            others = ", ".join(map(repr, found[1:]))
            self.notes.append(
                f"Judged: {found[0]!r}. Not judged: {others}; name one as the value to "
                "judge it instead."
            )
        return found[0]

    def _wide_table(self, names: Sequence[str]) -> str:
        """Return how to read a table with one column of numbers per method, if it may be one."""
        comma = self.table.decimal_comma
        columns = [name for name in names if _are_numbers(self.table.columns[name], comma)]
        if not 1 < len(columns) <= MOST_METHODS:
            return ""
        listed = ", ".join(f'"{name}"' for name in columns)
        return f'; or, if each column is a method, value=[{listed}], mode="max" for a score'

    def _one_metric(self) -> str | None:
        """Keep the rows of one metric where a column names the metric of each row."""
        names = [name for name in self.table.columns if clean_name(name) == METRIC_NAME]
        values = [name for name in self.table.columns if clean_name(name) in VALUE]
        if len(names) != 1 or len(values) != 1:
            return None
        self._take(names[0])
        labels = self.texts[names[0]]
        metrics = distinct(labels)
        metric = self.metric or min(metrics, key=_part_rank, default="")
        if metric not in metrics:
            raise ArgumentError(
                f"stats: {self.table.source} has no such metric",
                got=metric,
                allowed=", ".join(metrics),
            )
        if len(metrics) > 1:
            others = ", ".join(repr(other) for other in metrics if other != metric)
            self.notes.append(
                f"Judged: {metric!r}. Not judged: {others}; name another as the metric."
            )
        self.places = [place for place in self.places if labels[place] == metric]
        self.metric = metric
        return values[0]

    def _check_roles(self, runs: Sequence[Run]) -> None:
        """Raise if rows of one seed differ in a column without a role; note what is averaged."""
        groups: dict[Any, list[int]] = {}
        for run, place in zip(runs, self.places, strict=True):
            if run.seed is not None:
                key = (run.method, run.task, run.rate, run.seed)
                groups.setdefault(key, []).append(place)
        repeated = [places for places in groups.values() if len(places) > 1]
        if not repeated:
            return
        for name, cells in self.texts.items():
            if name in self.taken or not self._is_an_axis(name):
                continue
            if any(len({cells[place] for place in places}) > 1 for places in repeated):
                raise ArgumentError(
                    f"stats: column {name!r} varies between rows of one method and seed, and has "
                    "no role",
                    got=joined(distinct(cells), most=5),
                    fix="say what it is: task=COLUMN (compare within each), rate=COLUMN (a "
                    "learning rate), or average=COLUMN (average over it)",
                )
        most = max(map(len, repeated))
        why = f" over {', '.join(self.repeated)}" if self.repeated else ""
        self.notes.append(
            f"Up to {most} rows of one method and seed are averaged{why}: they are not independent."
        )

    def _is_an_axis(self, name: str) -> bool:
        """Return whether a column without a role can be a setting: its values recur."""
        if _direction(name) is not None or clean_name(name) in RUN_NAME:
            return False
        count = len(distinct(self.texts[name][place] for place in self.places))
        return 1 < count <= max(2, len(self.places) // 3)

    def _known(self, names: Sequence[str], *, several: bool = False) -> str | None:
        """Return the free column with the first of some usual names.

        Args:
            names: The names, best first.
            several: Whether the column must hold two different labels.
        """
        found = self._all_known(names)
        if several:
            found = [name for name in found if len(distinct(self.texts[name])) > 1]
        return found[0] if found else None

    def _all_known(self, names: Sequence[str]) -> list[str]:
        """Return the free columns with usual names, best first."""
        free = [name for name in self.texts if name not in self.taken]
        found = [name for name in free if clean_name(name) in names]
        return sorted(found, key=lambda name: names.index(clean_name(name)))

    def _take(self, name: str | None) -> str | None:
        if name is not None:
            self.taken.add(name)
        return name


def clean_name(name: str) -> str:
    """Return the name of a column without the prefix of its tool, in lower case.

    Args:
        name: Of the column.
    """
    bare = name.strip()
    for prefix in PREFIXES:
        if bare.lower().startswith(prefix):
            bare = bare[len(prefix) :]
    return re.sub(r"[^0-9a-z]+", "_", bare.lower()).strip("_")


def _number(cell: Any, *, decimal_comma: bool = False) -> float | None:
    """Return a cell as a finite number; None if it is not one."""
    try:
        value = number_of(cell, decimal_comma=decimal_comma)
    except ValueError:
        return None
    return value if value is not None and math.isfinite(value) else None


def _are_numbers(cells: Sequence[Any], decimal_comma: bool) -> bool:
    """Return whether all cells are numbers, nan or empty."""
    try:
        for cell in cells:
            number_of(cell, decimal_comma=decimal_comma)
    except ValueError:
        return False
    return True


def _split_name(label: str) -> tuple[str, str]:
    """Return method and seed of a run's name; the seed is empty if it has none."""
    match = SEED_IN_NAME.search(label)
    return (label[: match.start()], match[1]) if match and match.start() else (label, "")


def _direction(name: str) -> str | None:
    """Return the direction of a metric with a usual name; None for other names."""
    try:
        return metric_mode(clean_name(name))
    except ArgumentError:
        return None


def _part_rank(name: str) -> int:
    """Return how much a metric tells: that of test data comes first."""
    clean = clean_name(name)
    part = clean.removesuffix(bare_metric(clean)).strip("_")
    return PARTS.index(part) if part in PARTS else len(PARTS)


def names_of(runs: Iterable[Run]) -> list[str]:
    """Return the methods of runs in their order.

    Args:
        runs: Of a table.
    """
    return list(dict.fromkeys(run.method for run in runs))
