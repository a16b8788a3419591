"""Training for tables: one run of :mod:`gatewise.train` for each cell, kept as curves over its epochs.

Every network of a table has the same data, recipe and batches, and the same first weights where shapes agree, so that
seeds are compared one by one.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from torch import nn

from gatewise.data import DataSet, load
from gatewise.papers.common.experiment import Run
from gatewise.papers.common.records import Line, Numbers
from gatewise.papers.common.statistics import line
from gatewise.train import Recipe, RunConfig, build_model, find_recipe, records, run_config, train

Alter: TypeAlias = Callable[[nn.Module], object]  # changes a network before it is trained
Curve: TypeAlias = dict[str, list[float | None]]  # by epoch: "loss", "train" and "test" accuracy
Curves: TypeAlias = dict[str, list[Curve]]  # one for each seed


@dataclass(frozen=True)
class Training:
    """What the networks of a table are trained on, and how.

    Plain values, which stand in the results.
    """

    data: str
    recipe: str  # its name, and below the lines of it that are changed
    changes: tuple[str, ...] = ()
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
        """The run of one network.

        ``changes`` and ``options`` are its own, after those of the table.
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
        """The recipe as it is used."""
        return find_recipe(self.recipe, changes=[*self.changes, *changes])


def train_all(
    run: Run, table: Mapping[str, Sequence[RunConfig]], alter: Mapping[str, Alter] | None = None
) -> Curves:
    """Train every network of the table, named, once for each of its configurations (one a seed)."""
    alters = dict(alter or {})
    return {
        name: [
            run.cell(
                f"{name}, seed {each.seed}",
                lambda each=each, name=name: train_once(each, alters.get(name)),
            )
            for each in configs
        ]
        for name, configs in table.items()
    }


def train_once(config: RunConfig, alter: Alter | None = None) -> Curve:
    """The curves of one run.

    None where it was not evaluated, and from the epoch on in which it diverged.
    """
    data = data_of(config)
    network = None if alter is None else lambda: _altered(config, data, alter)
    with TemporaryDirectory() as folder:
        if train(config, Path(folder, "run"), data=data, network=network) is None:
            # the run was asked to stop: so is the experiment, and done cells are kept
            raise KeyboardInterrupt
        epochs = records(Path(folder, "run"))
    lost: list[float | None] = [None] * (config.recipe.total_epochs - len(epochs))
    names = {"loss": "train_loss", "train": "train_accuracy", "test": "test_accuracy"}
    return {short: [epoch.get(name) for epoch in epochs] + lost for short, name in names.items()}


def curve_lines(found: Curves, part: str) -> list[Line]:
    """Mean and spread over seeds of one part of the curves, by epoch."""
    return [
        line(name, range(1, len(curves[0][part]) + 1), [curve[part] for curve in curves])
        for name, curves in found.items()
    ]


def at_end(found: Curves, part: str) -> dict[str, Numbers]:
    """The values of the last epoch, by seed."""
    return {name: [curve[part][-1] for curve in curves] for name, curves in found.items()}


def _altered(config: RunConfig, data: DataSet, alter: Alter) -> nn.Module:
    network = build_model(config, classes=data.classes, shape=data.shape)
    alter(network)
    return network


def data_of(config: RunConfig) -> DataSet:
    """The data of a run, read once in a process."""
    return _load(config.data, json.dumps(config.data_options), os.environ.get("GATEWISE_DATA"))


@lru_cache(maxsize=4)
def _load(name: str, options: str, folder: str | None) -> DataSet:
    return load(name, folder=folder, **json.loads(options))
