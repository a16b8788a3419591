"""Experiments that compare units in one small network on all of CIFAR-10.

They answer questions for which a paper has no table. Nothing in them is smaller than in a paper, so
that they have no scale ``full``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gatewise.studies import FunctionCell
from gatewise.train import RunConfig
from gatewise_papers.common.experiment import CellValues
from gatewise_papers.common.records import Claim, Findings, Numbers, Panel, row
from gatewise_papers.common.training import (
    Table,
    TableTraining,
    at_end,
    curve_lines,
    table_curves,
    training_cells,
)
from gatewise_papers.common.tuning import (
    ConfigAt,
    TunedRate,
    rates_in_words,
    tuned_rates,
    tuning_cells,
    tuning_runs,
)

MODEL = "fast_cifar"
WIDTHS = [8, 32, 32]
REDUCED = "fast_cifar of widths 8-32-32 on all of CIFAR-10, 4 epochs, batches of 256"
DESK = TableTraining(
    "cifar10",
    "fast_cifar",
    ("epochs = 4", "batch = 256", "ema = 0.0", "optimiser.lr = 0.5"),
    model_options={"widths": WIDTHS},
    evaluate_every=4,
)
RATES = (0.125, 0.25, 0.5, 1.0, 2.0)  # to choose from
TINY = TableTraining(
    "cifar10",
    "fast_cifar",
    ("epochs = 1", "batch = 25"),
    {"train": 25, "test": 25},
    {"widths": WIDTHS},
)


@dataclass(frozen=True)
class UnitTableSettings:
    """Which units are compared, and how they are trained.

    Attributes:
        arms: by name, the unit and options of the network.
        reduced: what is small here.
        training: of every arm.
        rates: learning rates, of which each arm gets its best; none: the recipe's for all.
    """

    arms: Mapping[str, Mapping[str, Any]]
    reduced: str = REDUCED
    training: TableTraining = field(default_factory=lambda: DESK)
    rates: tuple[float, ...] = RATES

    @property
    def tuning_runs(self) -> float:
        """How many runs the choice of a rate costs for each arm."""
        return tuning_runs(self.rates)

    def config(self, arm: str, seed: int, rate: float | None = None) -> RunConfig:
        """Return the run of one arm.

        Args:
            arm: its name.
            seed: of the run.
            rate: the learning rate, if not that of the training.
        """
        options = dict(self.arms[arm])
        unit = options.pop("unit")
        changes = () if rate is None else (f"optimiser.lr = {rate}",)
        return self.training.config(MODEL, seed, unit, changes=changes, **options)


def unit_runs(
    settings: UnitTableSettings,
    seeds: tuple[int, ...],
    rates: Mapping[str, TunedRate] | None = None,
) -> Table:
    """Return the configurations of every arm, one per seed.

    Args:
        settings: the arms.
        seeds: of every arm.
        rates: of the arms; those of the training if not given.
    """
    table = {}
    for arm in settings.arms:
        rate = rates[arm].rate if rates else None
        table[arm] = [settings.config(arm, seed, rate) for seed in seeds]
    return table


def unit_cells(settings: UnitTableSettings, seeds: tuple[int, ...]) -> list[FunctionCell]:
    """Return the runs that choose the learning rates, or all runs if none is chosen."""
    if settings.rates:
        return tuning_cells(_arms(settings), settings.rates)
    return training_cells(unit_runs(settings, seeds))


def tuned_unit_cells(values: CellValues) -> list[FunctionCell]:
    """Return the runs at the chosen learning rates, one per arm and seed."""
    if not values.settings.rates:
        return []
    return training_cells(unit_runs(values.settings, values.seeds, _rates(values)))


def _arms(settings: UnitTableSettings) -> dict[str, ConfigAt]:
    """Return the run of every arm at a rate with a seed."""
    return {
        arm: lambda rate, seed, arm=arm: settings.config(arm, seed, rate) for arm in settings.arms
    }


def _rates(values: CellValues) -> dict[str, TunedRate]:
    """Return the chosen rates; none if none was chosen."""
    settings: UnitTableSettings = values.settings
    return tuned_rates(settings.arms, settings.rates, values)


def unit_findings(
    values: CellValues,
    claims: Callable[[Mapping[str, Numbers]], list[Claim]],
    notes: tuple[str, ...],
) -> Findings:
    """Return accuracies and losses of all arms, and the claims about accuracies.

    Args:
        values: of the cells.
        claims: judges the test accuracies, by arm and seed.
        notes: of the findings.
    """
    rates = _rates(values)
    curves = table_curves(unit_runs(values.settings, values.seeds, rates), values)
    test = at_end(curves, "test")
    rows = []
    for name, losses in at_end(curves, "loss").items():
        rows.append(row(f"test accuracy, {name}", test[name]))
        rows.append(row(f"training loss of the last epoch, {name}", losses))
    panels = [Panel("training", "epochs", "loss", curve_lines(curves, "loss"))]
    return Findings(panels, rows, claims(test), (*notes, *rates_in_words(rates)))
