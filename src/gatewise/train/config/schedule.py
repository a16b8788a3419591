"""Learning rate and weight decay at every step, as functions of the recipe alone."""

import math
from dataclasses import dataclass

from gatewise.train.config.recipe import Phase, Recipe


@dataclass(frozen=True)
class Rates:
    """What the optimiser is told for one step."""

    lr: float
    weight_decay: float


def rates(recipe: Recipe, step: int, steps_per_epoch: int) -> Rates:
    """Learning rate and weight decay of step number ``step``, counted from 0."""
    epoch = step / steps_per_epoch
    if recipe.schedule.name == "phases":
        phase = _phase(recipe.schedule.phases, epoch)
        return Rates(phase.lr, phase.weight_decay)
    if (
        epoch < recipe.schedule.warmup
    ):  # the first step counts as one taken: a rate of 0 would waste it
        return Rates(_warm_rate(recipe, epoch + 1 / steps_per_epoch), recipe.weight_decay.value)
    return Rates(_rate(recipe, epoch), recipe.weight_decay.value)


def _phase(phases: list[Phase], epoch: float) -> Phase:
    for phase in phases:
        if epoch < phase.epochs:
            return phase
        epoch -= phase.epochs
    return phases[-1]


def _warm_rate(recipe: Recipe, epoch: float) -> float:
    share = min(1.0, epoch / recipe.schedule.warmup)
    return recipe.optimiser.lr * (recipe.schedule.warmup_from * (1 - share) + share)


def _rate(recipe: Recipe, epoch: float) -> float:
    schedule, start = recipe.schedule, recipe.optimiser.lr
    share = min(1.0, (epoch - schedule.warmup) / (recipe.epochs - schedule.warmup))
    if schedule.name == "cosine":
        return schedule.end + (start - schedule.end) * (1 + math.cos(math.pi * share)) / 2
    if schedule.name == "linear":
        return schedule.end + (start - schedule.end) * (1 - share)
    return start * schedule.factor ** sum(epoch >= fall for fall in schedule.at)
