"""Train the networks of a table: cells of one or several networks with one seed.

Every network of a table has the same data, recipe and batches, and the same initial weights if
shapes agree, so that networks are compared seed by seed.

Note [Fitted networks]. Some tables are about networks that fit their training data. There the
networks of one seed are a group and one cell. The first one is trained until its train error is
low enough, or for all epochs of its recipe. The others are then trained for as many epochs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from torch import nn

from gatewise.data import DETECTION, SEGMENTATION
from gatewise.devices import describe_processor
from gatewise.errors import ArgumentError
from gatewise.studies import CellCall, FunctionCell, plain, plain_config
from gatewise.train import (
    Recipe,
    Result,
    RunConfig,
    build_model,
    find_device,
    find_recipe,
    records,
    resolve_precision,
    run_config,
    task_of,
)
from gatewise_papers.common.data_notes import data_of
from gatewise_papers.common.experiment import CellValues
from gatewise_papers.common.records import Line, Numbers, Panel, column, line

Alter: TypeAlias = Callable[[nn.Module], object]  # changes a network before it is trained
Curve: TypeAlias = dict[str, list[float | None]]  # by epoch: "loss", "train" and "test" accuracy
Curves: TypeAlias = dict[str, list[Curve]]  # one for each seed
# Takes the name of a network, the configuration, the folder and the result of its run, and returns
# what is kept.
Measure: TypeAlias = Callable[[str, RunConfig, Path, Result], Mapping[str, Any]]
# Options of CIFAR-100: its images may be in another order than published. The record has the digest
# of the content.
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


def depends_on(settings: Any, seeds: tuple[int, ...]) -> dict[str, Any]:
    """Return settings of a cell that depends on all settings and seeds of the run.

    Args:
        settings: of the scale.
        seeds: of the run.
    """
    return {"settings": plain(asdict(settings)), "seeds": list(seeds)}


def run_curve(name: str, config: RunConfig, folder: Path, result: Result) -> Curve:
    """Return the curves of a run; epochs after a divergence are None.

    Args:
        name: of the network.
        config: of the run.
        folder: of the run.
        result: of the run.
    """
    epochs = records(folder)
    lost = 0 if result.status == "finished" else config.recipe.total_epochs - len(epochs)
    missing: list[float | None] = [None] * lost
    curve: Curve = {}
    for short, metric in (METRICS | DENSE_METRICS.get(task_of(config), {})).items():
        curve[short] = [epoch.get(metric) for epoch in epochs] + missing
    return curve


def training_cells(
    table: Table,
    *,
    groups: Sequence[Sequence[str]] | None = None,
    until: float = 0.0,
    measure: Measure = run_curve,
    alter: Mapping[str, Alter] | None = None,
) -> list[FunctionCell]:
    """Return the trainings of a table, one seed after another.

    Every finished seed is thus a complete row. The value of a cell has the measurements of its
    networks by :func:`network_name`.

    Args:
        table: configurations by network, one per seed.
        groups: names of networks that are one cell; each network is one if not given.
        until: the train error at which the first network of a group ends, see Note [Fitted
            networks]; 0 to train all networks for all epochs.
        measure: what is kept of a run.
        alter: functions that change a network before it is trained, by its name.
    """
    function = partial(train_group, measure=measure, alter=alter or {})
    groups = groups or [[name] for name in table]
    cells = []
    for place in range(len(next(iter(table.values())))):
        for group in groups:
            configs = {name: plain_config(table[name][place]) for name in group}
            seed = table[group[0]][place].seed
            more = f" and {len(group) - 1} more" if len(group) > 1 else ""
            cells.append(
                FunctionCell(
                    f"{group[0]}{more}, seed {seed}",
                    function,
                    {"configs": configs, "until": until},
                )
            )
    return cells


def cells_of(
    trainings: Callable[[Any, tuple[int, ...]], Table],
) -> Callable[[Any, tuple[int, ...]], list[FunctionCell]]:
    """Return the cells of an experiment that makes one training per network and seed.

    Args:
        trainings: takes the settings and the seeds and returns the table.
    """
    return lambda settings, seeds: training_cells(trainings(settings, seeds))


def train_group(cell: CellCall, *, measure: Measure, alter: Mapping[str, Alter]) -> dict[str, Any]:
    """Train the networks of one seed and return their measurements.

    Args:
        cell: its settings have the configurations, and the train error that ends the first.
        measure: what is kept of a run.
        alter: changes networks, by name.
    """
    until = cell.settings["until"]
    epochs = 0
    measured = {}
    for place, (name, content) in enumerate(cell.settings["configs"].items()):
        config = run_config(**content)
        if until:
            config = shortened(config, epochs) if epochs else _until(config, until)
        options: dict[str, Any] = {"data": data_of(config)}
        if name in alter:
            options["network"] = partial(_altered, config, alter[name])
        result = cell.train(config, f"run-{place}", **options)
        is_whole = result.status == "finished"
        epochs = epochs or (result.epochs if is_whole else config.recipe.total_epochs)
        found = measure(name, config, cell.folder / f"run-{place}", result)
        precision = resolve_precision(config.recipe.precision, find_device())
        machine = f"{describe_processor()}, {precision}"
        measured[network_name(name, config.seed)] = {**found, "machine": machine}
    return measured


def shortened(config: RunConfig, epochs: int) -> RunConfig:
    """Return a run that ends after some epochs, which are those of the longer run.

    Args:
        config: the longer run.
        epochs: how many.
    """
    recipe = config.recipe.model_dump(exclude_unset=True)
    schedule = dict(recipe.get("schedule", {}))
    if config.recipe.schedule.name not in ("constant", "step"):
        raise ArgumentError(
            "a run with this schedule cannot be shortened",
            got=config.recipe.schedule.name,
            allowed="constant or step",
        )
    if "at" in schedule:
        schedule["at"] = [at for at in schedule["at"] if at < epochs]
        if not schedule["at"]:
            schedule = {"name": "constant", "warmup": config.recipe.schedule.warmup}
    recipe |= {"epochs": epochs, "schedule": schedule}
    table = plain_config(config) | {"recipe": recipe, "evaluate_every": epochs}
    return run_config(**table)


def _until(config: RunConfig, error: float) -> RunConfig:
    """Return a run that ends when its train error is low enough."""
    stop = {"metric": "train_error", "below": error}
    return run_config(**plain_config(config) | {"stop": stop})


def network_name(name: str, seed: int) -> str:
    """Return the name of a trained network, unique in a table.

    Args:
        name: of the network in the table.
        seed: of the run.
    """
    return f"{name}, seed {seed}"


def table_curves(table: Table, values: CellValues) -> Curves:
    """Return the curves that :func:`training_cells` measured."""
    found = values.networks
    curves: Curves = {}
    for name, configs in table.items():
        curves[name] = [found[network_name(name, config.seed)] for config in configs]
    return curves


def curve_lines(curves: Curves, part: str) -> list[Line]:
    """Return mean and spread over seeds of one part of the curves, by epoch."""
    lines = []
    for name, seeds in curves.items():
        values = column(seeds, part)
        longest = max(len(each) for each in values)
        values = [[*each, *[None] * (longest - len(each))] for each in values]
        lines.append(line(name, range(1, longest + 1), values))
    return lines


def epoch_panels(curves: Curves, part: str) -> list[Panel]:
    """Return the plots of the training and of the test accuracy over the epochs.

    Args:
        curves: of a table.
        part: what is shown of the training: ``"loss"``, or ``"train"`` for its accuracy.
    """
    label = "loss" if part == "loss" else "accuracy"
    return [
        Panel("training", "epochs", label, curve_lines(curves, part)),
        Panel("test", "epochs", "accuracy", curve_lines(curves, "test")),
    ]


def at_end(curves: Curves, part: str) -> dict[str, Numbers]:
    """Return the values of the last epoch, by seed."""
    return {name: [curve[part][-1] for curve in seeds] for name, seeds in curves.items()}


def _altered(config: RunConfig, alter: Alter) -> nn.Module:
    """Build the network of a run and change it."""
    data = data_of(config)
    network = build_model(config, classes=data.classes, shape=data.shape)
    alter(network)
    return network
