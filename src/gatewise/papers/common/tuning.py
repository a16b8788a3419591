"""Learning rates of the networks of a table, chosen on training images that are held out.

Every network gets the same rates to choose from. Five rates with two seeds at a quarter of the
epochs cost two and a half runs.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from gatewise.errors import GatewiseError
from gatewise.papers.common.experiment import Run
from gatewise.papers.common.training import fit
from gatewise.train import RunConfig, run_config

SEEDS = (0, 1)
SHARE = 4  # a network is tuned for one of so many parts of the epochs
FOLDS = 10  # one of them is held out


@dataclass(frozen=True)
class TunedRate:
    """The learning rate of one network.

    Attributes:
        rate: the chosen one.
        accuracies: mean accuracy on the held-out images, by rate; None if a run diverged.
    """

    rate: float
    accuracies: Mapping[float, float | None]

    @property
    def is_at_edge(self) -> bool:
        """Whether the lowest or the highest rate was chosen, so that another may be better."""
        return self.rate in (min(self.accuracies), max(self.accuracies))

    @property
    def words(self) -> str:
        """The rate, and whether it is at the edge."""
        return f"{self.rate:g}{' (the edge of the rates)' if self.is_at_edge else ''}"


def tuning_runs(rates: Sequence[float]) -> float:
    """Return how many whole runs the choice among these rates costs.

    Args:
        rates: to choose from.
    """
    return len(rates) * len(SEEDS) / SHARE


def tuned_rate(
    run: Run,
    name: str,
    rates: Sequence[float],
    config_at: Callable[[float, int], RunConfig],
    options_of: Callable[[RunConfig], dict[str, Any]] = lambda config: {},
) -> TunedRate:
    """Train at every rate for a quarter of the epochs, and choose the best on held-out images.

    Args:
        run: of the experiment; every training is a cell.
        name: of the network.
        rates: to choose from.
        config_at: returns the whole run at a rate with a seed.
        options_of: returns options of :func:`gatewise.train.train` for a run.

    Raises:
        GatewiseError: if a run diverged at every rate.
    """

    def held_accuracy(rate: float, seed: int, cell: str) -> float | None:
        """Return the accuracy after a quarter of the epochs; None if the run diverged."""
        config = quarter_run(config_at(rate, seed))
        result = fit(config, run.training(cell), **options_of(config))
        if result.status != "finished" or result.metrics is None:
            return None
        return result.metrics["held_accuracy"]

    accuracies: dict[float, float | None] = {}
    for rate in rates:
        held = []
        for seed in SEEDS:
            cell = f"{name}, tuning, rate {rate:g}, seed {seed}"
            held.append(run.cell(cell, partial(held_accuracy, rate, seed, cell)))
        accuracies[rate] = None if None in held else statistics.fmean(held)
    finished = {rate: mean for rate, mean in accuracies.items() if mean is not None}
    if not finished:
        raise GatewiseError(f"{name}: training diverged at every rate", got=list(rates))
    return TunedRate(max(finished, key=lambda rate: finished[rate]), accuracies)


def quarter_run(config: RunConfig) -> RunConfig:
    """Return the run for a quarter of its epochs, evaluated on held-out training images.

    Args:
        config: the whole run.
    """
    recipe = config.recipe
    epochs = max(1, round(recipe.epochs / SHARE))
    schedule = recipe.schedule.model_copy(
        update={"warmup": min(recipe.schedule.warmup, epochs // 2)}
    )
    table: dict[str, Any] = {part: getattr(config, part) for part in RunConfig.model_fields}
    table["recipe"] = recipe.model_copy(update={"epochs": epochs, "schedule": schedule})
    table["hold_out"] = {"fold": 1, "folds": FOLDS, "in_place_of_test": True}
    table["evaluate_every"] = epochs
    return run_config(**table)
