"""Experiments that compare units in one small network on all of CIFAR, at every rate of a grid.

They answer questions for which a paper has no table of this size. See Note [Claims over rates].
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gatewise.studies import FunctionCell
from gatewise.train import RunConfig
from gatewise_papers.common.claims import finite_mean
from gatewise_papers.common.experiment import CellValues
from gatewise_papers.common.factorial import ByRate, rate_rows
from gatewise_papers.common.records import Claim, Findings, Line, Panel
from gatewise_papers.common.training import (
    Table,
    TableTraining,
    at_end,
    table_curves,
    training_cells,
)

MODEL = "fast_cifar"
WIDTHS = [16, 64, 64]
EPOCHS = 8
RATES = (0.125, 0.25, 0.5, 1.0, 2.0)
UNIT_TABLE_IN_WORDS = (
    "fast_cifar of widths 16-64-64 on all of {}, 8 epochs, at every of the rates 0.125 to 2 by "
    "factors of 2"
)
UNIT_TABLE = TableTraining(
    "cifar10",
    "fast_cifar",
    (f"epochs = {EPOCHS}",),
    model_options={"widths": WIDTHS},
    evaluate_every=EPOCHS,
)
TINY = TableTraining(
    "cifar10",
    "fast_cifar",
    ("epochs = 1", "batch = 25"),
    {"train": 25, "test": 25},
    {"widths": [8, 32, 32]},
)


@dataclass(frozen=True)
class UnitTableSettings:
    """Which units are compared, and how they are trained.

    Attributes:
        arms: by name, the unit and options of the network.
        reduced: what is small here.
        training: of every arm.
        rates: learning rates at which every arm is trained: one, or at least four.
        classes: of the data; a run that diverged counts as a guess.
    """

    arms: Mapping[str, Mapping[str, Any]]
    reduced: str = UNIT_TABLE_IN_WORDS.format("CIFAR-10")
    training: TableTraining = field(default_factory=lambda: UNIT_TABLE)
    rates: tuple[float, ...] = RATES
    classes: int = 10

    def config(self, arm: str, seed: int, rate: float) -> RunConfig:
        """Return the run of one arm.

        Args:
            arm: its name.
            seed: of the run.
            rate: the learning rate.
        """
        options = dict(self.arms[arm])
        unit = options.pop("unit")
        return self.training.config(
            MODEL, seed, unit, changes=(f"optimiser.lr = {rate}",), **options
        )


def unit_runs(settings: UnitTableSettings, seeds: tuple[int, ...]) -> Table:
    """Return the configurations of every arm at every rate, one per seed.

    Args:
        settings: the arms and rates.
        seeds: of every arm.
    """
    table = {}
    for arm in settings.arms:
        for rate in settings.rates:
            table[_name(arm, rate)] = [settings.config(arm, seed, rate) for seed in seeds]
    return table


def unit_cells(settings: UnitTableSettings, seeds: tuple[int, ...]) -> list[FunctionCell]:
    """Return all runs, one seed after another, so that every finished seed is complete.

    Args:
        settings: the arms and rates.
        seeds: of every arm.
    """
    cells = []
    for seed in seeds:
        cells += training_cells(unit_runs(settings, (seed,)))
    return cells


def unit_findings(
    values: CellValues,
    claims: Callable[[Mapping[str, ByRate], float], list[Claim]],
    notes: tuple[str, ...],
) -> Findings:
    """Return accuracies of all arms at all rates, and the claims about them.

    Args:
        values: of the cells.
        claims: judges the test accuracies by arm and rate, given the chance level.
        notes: of the findings.
    """
    settings: UnitTableSettings = values.settings
    test = at_end(table_curves(unit_runs(settings, values.seeds), values), "test")
    accuracies: dict[str, ByRate] = {}
    for arm in settings.arms:
        accuracies[arm] = {rate: test[_name(arm, rate)] for rate in settings.rates}
    chance = 1 / settings.classes
    rows = rate_rows("test accuracy", accuracies, chance)
    return Findings([_panel(accuracies)], rows, claims(accuracies, chance), notes)


def _panel(accuracies: Mapping[str, ByRate]) -> Panel:
    """Return the plot of the curves over the rate."""
    lines = []
    for arm, by_rate in accuracies.items():
        lines.append(Line(arm, list(by_rate), [finite_mean(one) for one in by_rate.values()]))
    return Panel("test", "learning rate", "accuracy", lines, log_x=True)


def _name(arm: str, rate: float) -> str:
    """Return the name of one arm at one rate."""
    return f"{arm}, rate {rate:g}"
