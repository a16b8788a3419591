"""How Tables 1 and 2 measure errors.

"Single" is measured by a hold-out, "Average" and "Vote" by folds; the small scales run once.
"""

import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from gatewise.studies import CellCall, FunctionCell, plain_config
from gatewise.train import Result, RunConfig, run_config
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
    network_name,
    row,
    training_cells,
)
from gatewise_papers.crelu.experiments.shared.held_out_runs import single, ten_folds
from gatewise_papers.crelu.experiments.shared.training import (
    CIFAR,
    CifarSettings,
    Form,
    errors,
    trained_network,
    trainings,
)

AVERAGE_SPREAD = "average's standard"  # error, of the mean over folds
ERRORS = ("train", "test", "average", AVERAGE_SPREAD, "vote")
LETTERS = 70  # in a line below a plot
# By data set and form: for each seed its errors by name.
ErrorCells = dict[tuple[str, str], list[dict[str, float | None]]]
# By data set, for each seed: the errors of a network, and a measurement of it.
ByData = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class ErrorSettings(CifarSettings):
    """How Tables 1 and 2 measure errors; the defaults are the paper's."""

    hold_out: int = 5000
    folds: int = 10


# What is measured on the trained networks of a form, by name: a function and its size.
Measurements = Mapping[str, tuple[Callable[[nn.Module, RunConfig, int], Any], int]]


@dataclass(frozen=True)
class ErrorTable:
    """The networks of a table of errors, and the cells that measure them.

    Attributes:
        forms: by name.
        model: the network.
        measures: takes the settings and a form and returns what is measured on its networks.
    """

    forms: Mapping[str, Form]
    model: str = "convpool_cnn"
    measures: Callable[[Any, str], Measurements] = lambda settings, form: {}

    def cells(self, settings: CifarSettings, seeds: tuple[int, ...]) -> list[FunctionCell]:
        """Return the cells of every data set, form and seed."""
        if settings.networks_of:
            return []
        table = self._networks(settings, seeds)
        if settings.hold_out or settings.folds:
            return self._protocol_cells(settings, table)
        groups = [[f"{CIFAR[data]}, {form}" for form in self.forms] for data in settings.data]
        if not settings.until:
            groups = [[name] for group in groups for name in group]
        measures = {}
        for data in settings.data:
            for form in self.forms:
                measures[f"{CIFAR[data]}, {form}"] = self.measures(settings, form)
        measure = partial(measured_network, measures)
        return training_cells(table, groups=groups, until=settings.until, measure=measure)

    def errors(self, values: CellValues) -> ErrorCells:
        """Return the measured errors."""
        networks = values.networks
        cells: ErrorCells = {}
        for data in values.settings.data:
            for form in self.forms:
                cells[data, form] = []
                for seed in values.seeds:
                    found = networks[cell_name(data, form, seed)]
                    measured = {name: found[name] for name in ERRORS if name in found}
                    cells[data, form].append(measured)
        return cells

    def measurements(self, values: CellValues, form: str, what: str) -> ByData:
        """Return one measurement of the networks of a form, by data set and seed.

        Args:
            values: of the cells, or of the networks that are read.
            form: its name.
            what: the measurement.
        """
        found: ByData = {}
        for data in values.settings.data:
            found[data] = []
            for seed in values.seeds:
                name = cell_name(data, form, seed)
                errors = {part: values.measured(name, part) for part in ("train", "test")}
                found[data].append({"errors": errors, "measured": values.measured(name, what)})
        return found

    def trainings(self, settings: CifarSettings, seeds: tuple[int, ...]) -> Table:
        """Return all runs, by data set and form; none if the networks are those of another table.

        Args:
            settings: how errors are measured. A hold-out is two runs of at most all epochs.
            seeds: of every form.
        """
        if settings.networks_of:
            return {}
        runs = (2 if settings.hold_out else 1) + settings.folds
        table = self._networks(settings, seeds)
        return {name: [*configs] * runs for name, configs in table.items()}

    def _networks(self, settings: CifarSettings, seeds: tuple[int, ...]) -> Table:
        """Return one run per seed of every form on every data set."""
        return trainings(settings, seeds, self.forms, settings.data, self.model)

    def _protocol_cells(self, settings: CifarSettings, table: Table) -> list[FunctionCell]:
        """Return one cell for each network that is measured with a hold-out or folds."""
        cells = []
        for name, configs in table.items():
            for config in configs:
                chosen = {
                    "config": plain_config(config),
                    "hold_out": settings.hold_out,
                    "folds": settings.folds,
                }
                cells.append(FunctionCell(network_name(name, config.seed), error_cell, chosen))
        return cells


def cell_name(data: str, form: str, seed: int) -> str:
    """Return the name of the network of one form and seed."""
    return network_name(f"{CIFAR[data]}, {form}", seed)


def measured_network(
    measures: Mapping[str, Measurements],
    name: str,
    config: RunConfig,
    folder: Path,
    result: Result,
) -> dict[str, Any]:
    """Return errors, and measurements of the trained network unless its training diverged.

    Args:
        measures: by the name of the network.
        name: of the network.
        config: of the run.
        folder: of the run.
        result: of the run.
    """
    measured: dict[str, Any] = errors(config, folder, result)
    if measures[name] and measured["test"] is not None:
        network = trained_network(config, folder)
        for what, (function, size) in measures[name].items():
            measured[what] = function(network, config, size)
    return measured


def error_cell(cell: CellCall) -> dict[str, dict[str, float | None]]:
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
    return {cell.name: measured}


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


def fit_rows(name: str, seeds: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return a row for the train and one for the test error of a network that is measured.

    Args:
        name: of the network.
        seeds: of each seed the errors, and what else was measured.
    """
    errors = [seed["errors"] for seed in seeds]
    return [row(f"{name}: {part} error, %", column(errors, part)) for part in ("train", "test")]


def error_rows(
    settings: CifarSettings,
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
