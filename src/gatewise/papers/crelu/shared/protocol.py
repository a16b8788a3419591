"""How Tables 1 and 2 measure errors.

"Single" by a hold-out, "Average" and "Vote" by folds, or one short run.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from gatewise.papers.common import Line, Panel, Row, Run, data_of, line, row
from gatewise.papers.crelu.shared.training import (
    CIFAR,
    Form,
    Sizes,
    configuration,
    errors,
    first,
    fit,
)
from gatewise.train import RunConfig, single, ten_folds

Cells = Mapping[tuple[str, str], Any]  # by data set and form: for each seed its errors by name


@dataclass(frozen=True)
class Settings(Sizes):
    """Sizes, and how errors are measured; the defaults are the paper's."""

    hold_out: int = 5000  # images, for "Single"; 0: one run of all epochs on all images
    folds: int = 10  # for "Average" and "Vote"; 0: neither


def all_errors(run: Run, forms: Mapping[str, Form], model: str = "convpool_cnn") -> Cells:
    """Of every form on both data sets, a cell for each seed."""

    def of_seed(data: str, form: str, seed: int) -> dict[str, float | None]:
        config = configuration(run.settings, forms[form], data, seed, model)
        return measured_errors(run.settings, config, run.training(f"{data} {form} {seed}"))

    return {
        (data, form): [
            run.cell(
                f"{CIFAR[data]}, {form}, seed {seed}",
                lambda d=data, f=form, s=seed: of_seed(d, f, s),
            )
            for seed in run.seeds
        ]
        for data in CIFAR
        for form in forms
    }


def measured_errors(sizes: Settings, config: RunConfig, folder: Path) -> dict[str, float | None]:
    """Errors in per cent by name: train and test, and with folds average and vote."""
    options: dict[str, Any] = (
        {} if sizes.dropout else {"network": lambda: without_dropout(first(config))}
    )
    if sizes.hold_out:
        done = single(
            config, folder / "single", examples=sizes.hold_out, data=data_of(config), **options
        )
        found: dict[str, float | None] = {
            "train": 100 * done.train_error,
            "test": 100 * done.test_error,
        }
    else:
        found = errors(fit(config, folder / "run", **options))
    if sizes.folds:
        folds = ten_folds(
            config, folder / "folds", folds=sizes.folds, data=data_of(config), **options
        )
        found |= {"average": 100 * folds.average, "vote": 100 * folds.vote}
    return found


def without_dropout(network: nn.Module) -> nn.Module:
    """``network`` with nothing dropped in training."""
    for module in network.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return network


def error_panel(data: str, forms: Iterable[str], found: Cells) -> Panel:
    """Train and test errors of the forms on one data set."""
    names = list(forms)
    places = list(range(1, len(names) + 1))
    lines: list[Line] = []
    for error in ("train", "test"):
        by_form = [[seed[error] for seed in found[data, form]] for form in names]
        lines.append(line(f"{error} error", places, list(zip(*by_form, strict=True))))
    return Panel(f"{CIFAR[data]}: {'; '.join(names)}", "form, in this order", "error, %", lines)


def error_rows(
    sizes: Settings, found: Cells, printed: Mapping[tuple[str, str], Mapping[str, float]]
) -> list[Row]:
    """A row for each error; the paper's beside it where the classes are the paper's."""
    rows: list[Row] = []
    for (data, form), seeds in found.items():
        same_task = data == "cifar10" or not sizes.superclasses
        for name in seeds[0]:
            theirs = printed[data, form].get(name) if same_task else None
            rows.append(
                row(
                    f"{CIFAR[data]}, {form}: {name} error, %",
                    [s[name] for s in seeds],
                    published=theirs,
                )
            )
    return rows
