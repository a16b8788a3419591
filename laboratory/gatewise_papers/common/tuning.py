"""Learning rates of the networks of a table, chosen on training images that are held out.

Every network gets the same rates to choose from. Five rates with two seeds at a quarter of the
epochs cost two and a half runs.
"""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from gatewise.errors import GatewiseError
from gatewise.studies import CellCall, FunctionCell, plain_config
from gatewise.train import RunConfig, run_config
from gatewise_papers.common.data_notes import data_of
from gatewise_papers.common.experiment import MOST_SEEDS, CellValues

ConfigAt: TypeAlias = Callable[[float, int], RunConfig]  # the run at a rate with a seed

SEEDS = (MOST_SEEDS, MOST_SEEDS + 1)  # no final run has them: theirs are smaller
SHARE = 4  # a network is tuned for one of so many parts of the epochs
FOLDS = 10  # of the training images; each tuning seed holds out another one


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


def tuning_cells(arms: Mapping[str, ConfigAt], rates: Sequence[float]) -> list[FunctionCell]:
    """Return one short training for every network, rate and seed.

    Args:
        arms: by the name of the network, its whole run at a rate with a seed.
        rates: to choose from.
    """
    cells = []
    for name, config_at in arms.items():
        for rate in rates:
            for place, seed in enumerate(SEEDS):
                config = quarter_run(config_at(rate, seed), fold=place + 1)
                cells.append(
                    FunctionCell(_cell_name(name, rate, seed), held_accuracy, plain_config(config))
                )
    return cells


def held_accuracy(cell: CellCall) -> float | None:
    """Train the configuration in the cell's settings.

    Returns:
        The accuracy on the images that are held out; None if the run diverged.
    """
    config = run_config(**cell.settings)
    result = cell.train(config, data=data_of(config))
    if result.status != "finished" or result.metrics is None:
        return None
    return result.metrics["held_accuracy"]


def tuned_rates(
    arms: Iterable[str], rates: Sequence[float], values: Mapping[str, Any] | CellValues
) -> dict[str, TunedRate]:
    """Return the rate of each network that is best on held-out images.

    Args:
        arms: the names of the networks.
        rates: to choose from.
        values: of the cells of :func:`tuning_cells`.

    Returns:
        By network; nothing if there are no rates to choose from.

    Raises:
        GatewiseError: if the runs of a network diverged at every rate.
    """
    if not rates:
        return {}
    tuned = {}
    for name in arms:
        accuracies: dict[float, float | None] = {}
        for rate in rates:
            held = [values[_cell_name(name, rate, seed)] for seed in SEEDS]
            accuracies[rate] = None if None in held else statistics.fmean(held)
        finished = {rate: mean for rate, mean in accuracies.items() if mean is not None}
        if not finished:
            raise GatewiseError(f"{name}: training diverged at every rate", got=list(rates))
        best = max(finished, key=lambda rate: finished[rate])
        tuned[name] = TunedRate(best, accuracies)
    return tuned


def rates_in_words(rates: Mapping[str, TunedRate]) -> tuple[str, ...]:
    """Return a note on the rates that were chosen; none if there were none to choose from."""
    if not rates:
        return ()
    chosen = [f"{name} {tuned.words}" for name, tuned in rates.items()]
    return (
        "Each network has its own learning rate, chosen on held-out training images, another tenth "
        "for each of two seeds that no final run has, at a quarter of the epochs but at least one: "
        f"{'; '.join(chosen)}.",
    )


def _cell_name(name: str, rate: float, seed: int) -> str:
    """Return the name of a cell, unique in a table."""
    return f"{name}, tuning, rate {rate:g}, seed {seed}"


def quarter_run(config: RunConfig, fold: int = 1) -> RunConfig:
    """Return the run for a quarter of its epochs, evaluated on held-out training images.

    Args:
        config: the whole run.
        fold: which of the parts of the training images is held out, from 1.
    """
    recipe = config.recipe
    epochs = max(1, round(recipe.epochs / SHARE))
    schedule = recipe.schedule.model_copy(
        update={"warmup": min(recipe.schedule.warmup, epochs // 2)}
    )
    table: dict[str, Any] = {part: getattr(config, part) for part in RunConfig.model_fields}
    table["recipe"] = recipe.model_copy(update={"epochs": epochs, "schedule": schedule})
    table["hold_out"] = {"fold": fold, "folds": FOLDS, "in_place_of_test": True}
    table["evaluate_every"] = epochs
    return run_config(**table)
