"""How Tables 1 and 2 measure errors.

"Single" is measured by a hold-out, "Average" and "Vote" by folds; the small scales run once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from gatewise.papers.common import (
    Line,
    Numbers,
    Panel,
    Row,
    Run,
    Table,
    TunedRate,
    column,
    data_of,
    fit,
    line,
    row,
    tuned_rate,
    tuning_runs,
)
from gatewise.papers.crelu.shared.training import (
    CIFAR,
    CifarSettings,
    Form,
    configuration,
    errors,
    initial_network,
    trainings,
)
from gatewise.train import RunConfig, single, ten_folds

RATES = (7.5e-4, 1.5e-3, 3e-3, 6e-3, 1.2e-2)  # to choose from, for Adam
# By data set and form: for each seed its errors by name.
ErrorCells = dict[tuple[str, str], list[dict[str, float | None]]]


@dataclass(frozen=True)
class ErrorSettings(CifarSettings):
    """Sizes, and how errors are measured; the defaults are the paper's."""

    hold_out: int = 5000  # images, for "Single"; 0: one run of all epochs on all images
    folds: int = 10  # for "Average" and "Vote"; 0: neither
    rates: tuple[float, ...] = ()  # of which each form gets its best; none: the recipe's for all

    @property
    def tuning_runs(self) -> float:
        """How many runs the choice of a rate costs for each form and data set."""
        return tuning_runs(self.rates)


def all_errors(
    run: Run, forms: Mapping[str, Form], model: str = "convpool_cnn"
) -> tuple[ErrorCells, tuple[str, ...]]:
    """Measure the errors of every form on both data sets, one cell per seed.

    Args:
        run: its settings and seeds.
        forms: by name.
        model: the network.

    Returns:
        The errors, and notes on the learning rates that were chosen.
    """

    def measure(data: str, form: str, seed: int) -> dict[str, float | None]:
        """Measure one form on one data set with one seed."""
        tuned = rates.get((data, form))
        config = config_of(data, form, seed, tuned.rate if tuned else None)
        return measured_errors(run.settings, config, run.training(f"{data} {form} {seed}"))

    def config_of(data: str, form: str, seed: int, rate: float | None) -> RunConfig:
        """Return the run of one form, at a rate or at that of the settings."""
        settings = run.settings if rate is None else replace(run.settings, lr=rate)
        return configuration(settings, forms[form], data, seed, model)

    rates: dict[tuple[str, str], TunedRate] = {}
    cells: ErrorCells = {}
    for data, title in CIFAR.items():
        for form in forms:
            if run.settings.rates:
                rates[data, form] = tuned_rate(
                    run,
                    f"{title}, {form}",
                    run.settings.rates,
                    lambda rate, seed, data=data, form=form: config_of(data, form, seed, rate),
                    partial(_training_options, run.settings),
                )
            cells[data, form] = []
            for seed in run.seeds:
                cell = run.cell(
                    f"{title}, {form}, seed {seed}",
                    lambda data=data, form=form, seed=seed: measure(data, form, seed),
                )
                cells[data, form].append(cell)
    return cells, _rates_in_words(rates)


def _rates_in_words(rates: Mapping[tuple[str, str], TunedRate]) -> tuple[str, ...]:
    """Return a note on the rates that were chosen."""
    if not rates:
        return ()
    chosen = [f"{CIFAR[data]}, {form} {tuned.words}" for (data, form), tuned in rates.items()]
    return (
        "Each form has its own learning rate, chosen on a tenth of the training images with two "
        f"seeds at a quarter of the epochs: {'; '.join(chosen)}.",
    )


def error_trainings(
    settings: ErrorSettings,
    seeds: tuple[int, ...],
    forms: Mapping[str, Form],
    model: str = "convpool_cnn",
) -> Table:
    """Return the runs that :func:`all_errors` makes, by data set and form.

    Args:
        settings: how errors are measured. A hold-out is two runs of at most all epochs.
        seeds: of every form.
        forms: by name.
        model: the network.
    """
    runs = (2 if settings.hold_out else 1) + settings.folds
    return {
        name: configs * runs
        for name, configs in trainings(settings, seeds, forms, CIFAR, model).items()
    }


def measured_errors(
    settings: ErrorSettings,
    config: RunConfig,
    folder: Path,
) -> dict[str, float | None]:
    """Return errors in per cent by name: train and test, and with folds average and vote.

    Args:
        settings: how errors are measured.
        config: the run.
        folder: of its training; an interrupted one resumes there.
    """
    options = _training_options(settings, config)
    measured: dict[str, float | None]
    if settings.hold_out:
        result = single(config, folder / "single", examples=settings.hold_out, **options)
        measured = {"train": 100 * result.train_error, "test": 100 * result.test_error}
    else:
        measured = errors(fit(config, folder / "run", **options))
    if settings.folds:
        folds = ten_folds(config, folder / "folds", folds=settings.folds, **options)
        measured |= {"average": 100 * folds.average, "vote": 100 * folds.vote}
    return measured


def _training_options(settings: ErrorSettings, config: RunConfig) -> dict[str, Any]:
    """Return the data, and the network if its dropout is switched off."""
    options: dict[str, Any] = {"data": data_of(config)}
    if not settings.dropout:
        options["network"] = lambda: without_dropout(initial_network(config))
    return options


def without_dropout(network: nn.Module) -> nn.Module:
    """Return ``network`` with dropout switched off."""
    for module in network.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return network


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
    return Panel(f"{CIFAR[data]}: {'; '.join(names)}", "form, in this order", "error, %", lines)


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
