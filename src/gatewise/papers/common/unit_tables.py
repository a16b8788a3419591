"""Experiments that compare units in one small network on all of CIFAR-10.

They answer questions for which a paper has no table. Nothing in them is smaller than in a paper, so
that they have no scale ``full``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gatewise.papers.common.experiment import CellValues
from gatewise.papers.common.records import Claim, Findings, Numbers, Panel, row
from gatewise.papers.common.training import (
    Table,
    TableTraining,
    at_end,
    curve_lines,
    table_curves,
    training_cells,
)
from gatewise.studies import FunctionCell

MODEL = "fast_cifar"
WIDTHS = [8, 32, 32]
REDUCED = (
    "fast_cifar of widths 8-32-32 on all of CIFAR-10, 8 epochs, rates of the recipe, not tuned"
)
DESK = TableTraining(
    "cifar10",
    "fast_cifar",
    # Batches of 256, four to a step, fit the cache of a processor.
    ("batch = 256", "accumulate = 4"),
    model_options={"widths": WIDTHS},
    evaluate_every=2,
)
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
    """

    arms: Mapping[str, Mapping[str, Any]]
    reduced: str = REDUCED
    training: TableTraining = field(default_factory=lambda: DESK)


def unit_runs(settings: UnitTableSettings, seeds: tuple[int, ...]) -> Table:
    """Return the configurations of every arm, one per seed."""
    table = {}
    for name, chosen in settings.arms.items():
        options = dict(chosen)
        unit = options.pop("unit")
        table[name] = [settings.training.config(MODEL, seed, unit, **options) for seed in seeds]
    return table


def unit_cells(settings: UnitTableSettings, seeds: tuple[int, ...]) -> list[FunctionCell]:
    """Return one training per arm and seed."""
    return training_cells(unit_runs(settings, seeds))


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
    curves = table_curves(unit_runs(values.settings, values.seeds), values)
    test = at_end(curves, "test")
    rows = []
    for name, losses in at_end(curves, "loss").items():
        rows.append(row(f"test accuracy, {name}", test[name]))
        rows.append(row(f"training loss of the last epoch, {name}", losses))
    panels = [Panel("training", "epochs", "loss", curve_lines(curves, "loss"))]
    return Findings(panels, rows, claims(test), notes)
