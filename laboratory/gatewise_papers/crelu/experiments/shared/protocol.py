"""How Tables 1 and 2 measure errors.

"Single" is measured by a hold-out, "Average" and "Vote" by folds; the small scales run once.
"""

import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gatewise.studies import CellCall, FunctionCell, plain_config
from gatewise.train import run_config
from gatewise_papers.common import (
    CellValues,
    Line,
    Numbers,
    Panel,
    Row,
    Table,
    column,
    data_of,
    line,
    row,
)
from gatewise_papers.crelu.experiments.shared.held_out_runs import single, ten_folds
from gatewise_papers.crelu.experiments.shared.training import (
    CIFAR,
    CifarSettings,
    Form,
    configuration,
    errors,
    trainings,
)

AVERAGE_SPREAD = "average's standard"  # error, of the mean over folds
ERRORS = ("train", "test", "average", AVERAGE_SPREAD, "vote")
LETTERS = 70  # in a line below a plot
# By data set and form: for each seed its errors by name.
ErrorCells = dict[tuple[str, str], list[dict[str, float | None]]]


@dataclass(frozen=True)
class ErrorSettings(CifarSettings):
    """Sizes, and how errors are measured; the defaults are the paper's."""

    hold_out: int = 5000  # images, for "Single"; 0: one run of all epochs on all images
    folds: int = 10  # for "Average" and "Vote"; 0: neither
    data: tuple[str, ...] = tuple(CIFAR)

    def measures(self, form: str) -> dict[str, int]:
        """Return what is measured on the trained networks of a form, with its size.

        Args:
            form: its name.
        """
        return {}


@dataclass(frozen=True)
class ErrorTable:
    """The networks of a table of errors, and the cells that measure them.

    Attributes:
        forms: by name.
        model: the network.
        function: runs a cell and returns its errors, and measurements of its network if the
            settings have any. None: :func:`error_cell`.
    """

    forms: Mapping[str, Form]
    model: str = "convpool_cnn"
    function: Callable[[CellCall], dict[str, Any]] | None = None

    def cells(self, settings: ErrorSettings, seeds: tuple[int, ...]) -> list[FunctionCell]:
        """Return one cell for every data set, form and seed."""
        cells = []
        for data in settings.data:
            for form in self.forms:
                for seed in seeds:
                    config = configuration(settings, self.forms[form], data, seed, self.model)
                    chosen: dict[str, Any] = {
                        "config": plain_config(config),
                        "hold_out": settings.hold_out,
                        "folds": settings.folds,
                    }
                    measures = settings.measures(form)
                    if measures:
                        chosen["measures"] = measures
                    function = self.function or error_cell
                    cells.append(FunctionCell(cell_name(data, form, seed), function, chosen))
        return cells

    def errors(self, values: CellValues) -> ErrorCells:
        """Return the measured errors."""
        cells: ErrorCells = {}
        for data in values.settings.data:
            for form in self.forms:
                cells[data, form] = []
                for seed in values.seeds:
                    value = values[cell_name(data, form, seed)]
                    measured = {name: value[name] for name in ERRORS if name in value}
                    cells[data, form].append(measured)
        return cells

    def networks(self, values: CellValues) -> dict[str, dict[str, Any]]:
        """Return the errors and measurements of the networks that were measured, by cell."""
        networks = {}
        for data in values.settings.data:
            for form in self.forms:
                if not values.settings.measures(form):
                    continue
                for seed in values.seeds:
                    name = cell_name(data, form, seed)
                    networks[name] = values[name]
        return networks

    def trainings(self, settings: ErrorSettings, seeds: tuple[int, ...]) -> Table:
        """Return all runs, by data set and form.

        Args:
            settings: how errors are measured. A hold-out is two runs of at most all epochs.
            seeds: of every form.
        """
        runs = (2 if settings.hold_out else 1) + settings.folds
        table = trainings(settings, seeds, self.forms, settings.data, self.model)
        return {name: configs * runs for name, configs in table.items()}


def cell_name(data: str, form: str, seed: int) -> str:
    """Return the name of the run of one form and seed at its chosen rate."""
    return f"{CIFAR[data]}, {form}, seed {seed}"


def error_cell(cell: CellCall) -> dict[str, float | None]:
    """Return errors in per cent by name: train and test, and with folds average and vote.

    Args:
        cell: its settings have the configuration, and how many images and folds are held out.
    """
    config = run_config(**cell.settings["config"])
    held, parts = cell.settings["hold_out"], cell.settings["folds"]
    data = data_of(config)
    measured: dict[str, float | None]
    if held:
        found = single(config, cell.folder / "single", examples=held, data=data)
        measured = {"train": 100 * found.train_error, "test": 100 * found.test_error}
    else:
        result = cell.train(config, name="run", data=data)
        measured = errors(config, cell.folder / "run", result)
    if parts:
        folds = ten_folds(config, cell.folder / "folds", folds=parts, data=data)
        measured |= {
            "average": 100 * folds.average,
            AVERAGE_SPREAD: 100 * folds.standard_error,
            "vote": 100 * folds.vote,
        }
    return measured


def errors_of(cells: ErrorCells, data: str, form: str, name: str = "test") -> Numbers:
    """Return one error of one form by seed."""
    return column(cells[data, form], name)


def error_panel(data: str, forms: Iterable[str], cells: ErrorCells) -> Panel:
    """Return the plot of train and test errors of the forms on one data set."""
    names = list(forms)
    places = list(range(1, len(names) + 1))
    lines: list[Line] = []
    for error in ("train", "test"):
        by_form = [errors_of(cells, data, form, error) for form in names]
        lines.append(line(f"{error} error", places, list(zip(*by_form, strict=True))))
    legend = "; ".join(f"{place} {name}" for place, name in zip(places, names, strict=True))
    return Panel(CIFAR[data], textwrap.fill(legend, LETTERS), "error, %", lines)


def error_rows(
    settings: ErrorSettings,
    cells: ErrorCells,
    printed: Mapping[tuple[str, str], Mapping[str, float]],
) -> list[Row]:
    """Return a row for each error, with the paper's if the classes are the paper's.

    Args:
        settings: which classes there are.
        cells: measured errors.
        printed: the paper's errors.
    """
    rows: list[Row] = []
    for (data, form), seeds in cells.items():
        same_task = data == "cifar10" or not settings.superclasses
        for name in seeds[0]:
            theirs = printed.get((data, form), {}).get(name) if same_task else None
            values = errors_of(cells, data, form, name)
            rows.append(row(f"{CIFAR[data]}, {form}: {name} error, %", values, published=theirs))
    return rows
