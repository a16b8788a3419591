"""Learning rate and weight decay at every step, as functions of the recipe alone."""

import math
from dataclasses import dataclass

from gatewise.train.config.recipe import Phase, Recipe, Schedule


@dataclass(frozen=True)
class Rates:
    """Learning rate and weight decay of one step."""

    lr: float
    weight_decay: float


def rates(recipe: Recipe, step: int, steps_per_epoch: int) -> Rates:
    """Return learning rate and weight decay of one step.

    Args:
        recipe: of the run.
        step: its number, from 0.
        steps_per_epoch: of the run.
    """
    epoch = step / steps_per_epoch
    if recipe.schedule.name == "phases":
        phase = _phase(recipe.schedule.phases, epoch)
        return Rates(phase.lr, phase.weight_decay)
    if epoch < recipe.schedule.warmup:
        # The rate is that after the step: a first rate of 0 would waste a step.
        return Rates(_warm_rate(recipe, epoch + 1 / steps_per_epoch), recipe.weight_decay.value)
    return Rates(_rate(recipe, epoch), recipe.weight_decay.value)


def _phase(phases: list[Phase], epoch: float) -> Phase:
    """Return the phase of an epoch."""
    for phase in phases:
        if epoch < phase.epochs:
            return phase
        epoch -= phase.epochs
    return phases[-1]


def _warm_rate(recipe: Recipe, epoch: float) -> float:
    """Return the learning rate during warm-up."""
    share = min(1.0, epoch / recipe.schedule.warmup)
    return recipe.optimiser.lr * (recipe.schedule.warmup_from * (1 - share) + share)


def _rate(recipe: Recipe, epoch: float) -> float:
    """Return the learning rate after warm-up."""
    schedule = recipe.schedule
    start = recipe.optimiser.lr
    if schedule.name == "triangle":
        return start * _triangle(schedule, epoch / recipe.epochs)
    share = min(1.0, (epoch - schedule.warmup) / (recipe.epochs - schedule.warmup))
    if schedule.name == "cosine":
        return schedule.end + (start - schedule.end) * (1 + math.cos(math.pi * share)) / 2
    if schedule.name == "linear":
        return schedule.end + (start - schedule.end) * (1 - share)
    return start * schedule.factor ** sum(epoch >= fall for fall in schedule.at)


def _triangle(schedule: Schedule, share: float) -> float:
    """Return the factor on the rate after a share of all steps."""
    if share < schedule.peak:
        return schedule.first + (1 - schedule.first) * share / schedule.peak
    fallen = (share - schedule.peak) / (1 - schedule.peak)
    return 1 + (schedule.last - 1) * min(1.0, fallen)
