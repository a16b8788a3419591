"""Train the networks of a table: one cell per network and seed, kept as curves over epochs.

Every network of a table has the same data, recipe and batches, and the same initial weights if
shapes agree, so that networks are compared seed by seed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from torch import nn

from gatewise.data import DETECTION, SEGMENTATION
from gatewise.studies import CellCall, FunctionCell, plain_config
from gatewise.train import (
    Recipe,
    Result,
    RunConfig,
    build_model,
    find_recipe,
    records,
    run_config,
    task_of,
    train,
)
from gatewise_papers.common.data_notes import data_of
from gatewise_papers.common.experiment import CellValues
from gatewise_papers.common.records import Line, Numbers, column, line
from gatewise_papers.common.sequential_run import Run

Alter: TypeAlias = Callable[[nn.Module], object]  # changes a network before it is trained
Curve: TypeAlias = dict[str, list[float | None]]  # by epoch: "loss", "train" and "test" accuracy
Curves: TypeAlias = dict[str, list[Curve]]  # one for each seed
# Options of CIFAR-100 at the scale ``desk``: its images may be in another order than published. The
# record has the digest of the content.
IN_ANY_ORDER: dict[str, Any] = {"published": False}
METRICS = {"loss": "train_loss", "train": "train_accuracy", "test": "test_accuracy"}
# Of dense prediction, besides the others.
DENSE_METRICS = {
    SEGMENTATION: {"iou": "test_iou"},
    DETECTION: {
        "map": "test_map",
        "ap50": "test_ap50",
        "ap75": "test_ap75",
        "ap_small": "test_ap_small",
        "ap_medium": "test_ap_medium",
        "ap_large": "test_ap_large",
    },
}


@dataclass(frozen=True)
class TableTraining:
    """What the networks of a table are trained on, and how; plain values, kept in the results."""

    data: str
    recipe: str  # its name
    changes: tuple[str, ...] = ()  # lines of the recipe that are changed
    data_options: dict[str, Any] = field(default_factory=dict)
    model_options: dict[str, Any] = field(default_factory=dict)
    evaluate_every: int = 1  # epochs; the last is always evaluated

    def config(
        self,
        model: str,
        seed: int,
        unit: str | Mapping[str, Any] | None = None,
        *,
        changes: Sequence[str] = (),
        **options: Any,
    ) -> RunConfig:
        """Return the run of one network.

        Args:
            model: its name.
            seed: of the run.
            unit: of the network.
            changes: lines of the recipe, after those of the table.
            options: of the network, after those of the table.
        """
        return run_config(
            model=model,
            unit=unit,
            model_options=self.model_options | options,
            data=self.data,
            data_options=self.data_options,
            recipe=self.changed_recipe(changes),
            seed=seed,
            evaluate_every=self.evaluate_every,
        )

    def changed_recipe(self, changes: Sequence[str] = ()) -> Recipe:
        """Return the recipe with the changes of the table and then ``changes``."""
        return find_recipe(self.recipe, changes=[*self.changes, *changes])


Table: TypeAlias = Mapping[str, Sequence[RunConfig]]  # by network, one configuration per seed


def training_cells(table: Table) -> list[FunctionCell]:
    """Return one cell per network and seed."""
    cells = []
    for name, configs in table.items():
        for config in configs:
            cells.append(FunctionCell(_cell_name(name, config), train_cell, plain_config(config)))
    return cells


def train_cell(cell: CellCall) -> Curve:
    """Train the configuration in the cell's settings and return its curves."""
    config = run_config(**cell.settings)
    cell.train(config, data=data_of(config))
    return _curve(config, cell.folder / "run")


def table_curves(table: Table, values: CellValues) -> Curves:
    """Return the curves that :func:`training_cells` measured."""
    curves: Curves = {}
    for name, configs in table.items():
        curves[name] = [values[_cell_name(name, config)] for config in configs]
    return curves


def train_all(run: Run, table: Table, alter: Mapping[str, Alter] | None = None) -> Curves:
    """Train every network of the table in this process.

    Args:
        run: of an experiment of the older form.
        table: configurations by network.
        alter: functions that change a network before it is trained, by its name.
    """
    alters = dict(alter or {})
    curves: Curves = {}
    for name, configs in table.items():
        curves[name] = []
        for config in configs:
            curve = run.cell(
                _cell_name(name, config),
                lambda config=config, name=name: train_once(config, alters.get(name)),
            )
            curves[name].append(curve)
    return curves


def train_once(config: RunConfig, alter: Alter | None = None) -> Curve:
    """Train in a temporary folder and return the curves.

    Args:
        config: the run.
        alter: changes the network before it is trained.

    Returns:
        By epoch; None if it was not evaluated, and from the epoch on in which it diverged.
    """
    options: dict[str, Any] = {}
    if alter is not None:
        options["network"] = lambda: _altered(config, alter)
    with TemporaryDirectory() as folder:
        fit(config, Path(folder, "run"), **options)
        return _curve(config, Path(folder, "run"))


def fit(config: RunConfig, folder: Path, **options: Any) -> Result:
    """Train in ``folder``, or resume there.

    Args:
        config: the run.
        folder: of the run.
        options: of :func:`gatewise.train.train`.

    Raises:
        KeyboardInterrupt: if stopped, so that an unfinished cell gets no record.
    """
    result = train(config, folder, **{"data": data_of(config), **options})
    if result is None:
        raise KeyboardInterrupt
    return result


def curve_lines(curves: Curves, part: str) -> list[Line]:
    """Return mean and spread over seeds of one part of the curves, by epoch."""
    lines = []
    for name, seeds in curves.items():
        values = column(seeds, part)
        lines.append(line(name, range(1, len(values[0]) + 1), values))
    return lines


def at_end(curves: Curves, part: str) -> dict[str, Numbers]:
    """Return the values of the last epoch, by seed."""
    return {name: [curve[part][-1] for curve in seeds] for name, seeds in curves.items()}


def _cell_name(name: str, config: RunConfig) -> str:
    """Return the name of a cell, unique in a table."""
    return f"{name}, seed {config.seed}"


def _curve(config: RunConfig, folder: Path) -> Curve:
    """Read the curves of a run; epochs after a divergence are None."""
    epochs = records(folder)
    missing: list[float | None] = [None] * (config.recipe.total_epochs - len(epochs))
    curve: Curve = {}
    for short, name in (METRICS | DENSE_METRICS.get(task_of(config), {})).items():
        curve[short] = [epoch.get(name) for epoch in epochs] + missing
    return curve


def _altered(config: RunConfig, alter: Alter) -> nn.Module:
    """Build the network of a run and change it."""
    data = data_of(config)
    network = build_model(config, classes=data.classes, shape=data.shape)
    alter(network)
    return network
