"""What a comparison costs: runs, and seconds from a few training steps."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import torch

from gatewise.stats import EDGE_ROUNDS, FIRST_SEEDS
from gatewise.studies.comparison.sources import SeededBatches
from gatewise.studies.comparison.user_models import UserModel, Variant
from gatewise.studies.comparison.user_objective import EvaluationLoader, UserObjective
from gatewise.train import all_randomness, evaluating, place_model, seed_all
from gatewise.words import plural

MINUTE = 60.0
HOUR = 60 * MINUTE
FEW_MINUTES = 90 * MINUTE  # longer times are shown in hours
STEPS = 3  # that are timed, after one that is not


@dataclass(frozen=True)
class RunCounts:
    """How many runs a comparison takes.

    Attributes:
        racing: If all rates but the best and its neighbours are dropped after three seeds.
        planned: All units, rates and seeds.
        widened: If a rate is added at an end of the grid twice.
    """

    racing: int
    planned: int
    widened: int


@dataclass(frozen=True)
class CostEstimate:
    """What a comparison costs.

    Attributes:
        arms: units, counted in every model.
        rates: of the plan.
        seeds: of the plan.
        seconds: of a mean run.
        workers: runs at once.
    """

    arms: int
    rates: int
    seeds: int
    seconds: float
    workers: int

    @property
    def runs(self) -> RunCounts:
        """How many runs."""
        first = min(self.seeds, FIRST_SEEDS)
        racing = self.arms * (self.rates * first + min(self.rates, 3) * (self.seeds - first))
        wider = self.rates + EDGE_ROUNDS if self.rates > 1 else 1
        planned = self.arms * self.rates * self.seeds
        return RunCounts(racing, planned, self.arms * wider * self.seeds)

    @property
    def words(self) -> str:
        """The runs and their time."""
        runs = self.runs
        if runs.racing == runs.widened:
            return f"{runs.planned} runs, about {self._time(runs.planned)}"
        low, high = self._time(runs.racing), self._time(runs.widened)
        if low.partition(" ")[2].rstrip("s") == high.partition(" ")[2].rstrip("s"):
            low = low.partition(" ")[0]
        time_words = high if low in high.split() else f"{low} to {high}"
        return (
            f"{runs.racing} to {runs.widened} runs, {runs.planned} as planned, about {time_words}"
        )

    def fewer_words(self, plans: Sequence[tuple[int, int]]) -> str:
        """Return what smaller plans would take.

        Args:
            plans: pairs of rates and seeds.
        """
        words = []
        for rates, seeds in plans:
            if rates <= self.rates and seeds <= self.seeds and (rates, seeds) != self._plan:
                count = self.arms * rates * seeds
                words.append(f"rates={rates}, seeds={seeds}: {count} runs, {self._time(count)}")
        return "; ".join(words)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "runs": asdict(self.runs),
            "seconds_per_run": round(self.seconds, 3),
            "workers": self.workers,
        }

    def __str__(self) -> str:
        return self.words

    @property
    def _plan(self) -> tuple[int, int]:
        return self.rates, self.seeds

    def _time(self, runs: int) -> str:
        """Return the time of so many runs: ``40 seconds``, ``6 minutes``, ``2.5 hours``."""
        seconds = runs * self.seconds / self.workers
        if seconds < MINUTE:
            return plural(max(1, round(seconds)), "second")
        if seconds < FEW_MINUTES:
            return plural(round(seconds / MINUTE), "minute")
        return f"{seconds / HOUR:.2g} hours"


def seconds_of(model: UserModel, variant: Variant, device: torch.device) -> float:
    """Return about how long a run takes, from a few training steps and an evaluated batch.

    Args:
        model: of the user.
        variant: the model with one unit in it.
        device: where it is trained.
    """
    recipe = model.recipe
    with all_randomness():
        seed_all(0)
        network = place_model(variant.build(model, 0), device, channels_last=recipe.channels_last)
        evaluated = model.data.evaluated
        objective = UserObjective(model.training, evaluated, device, recipe)
        batches = SeededBatches(model.data.train, 0)
        network.train()
        times = []
        for batch in islice(batches.walk(0, 0), STEPS + 1):
            begin = time.perf_counter()
            objective.step(network, batch).losses.sum().backward()
            times.append(time.perf_counter() - begin)
        # A step of the optimiser takes about a fifth of the rest for small networks.
        seconds = 1.2 * min(times) * batches.count * recipe.total_epochs
        for source in evaluated.values():
            loader = EvaluationLoader(source, device, channels_last=recipe.channels_last, most=1)
            begin = time.perf_counter()
            with evaluating(network):
                model.training.evaluate(network, loader)
            seconds += (time.perf_counter() - begin) * source.count
    return seconds
