"""One training run of a model of the user, with or without another unit in it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from gatewise.studies.comparison.study import Subject
from gatewise.studies.comparison.user_data import read_data
from gatewise.studies.comparison.user_models import (
    ORIGINAL,
    BuiltIn,
    Factory,
    Variant,
    make_variant,
    model_digest,
    read_units,
    user_model,
)
from gatewise.train import Recipe, RunConfig, TrainingSetup, all_randomness


@dataclass(frozen=True)
class PlannedRun:
    """A run that :func:`gatewise.train.train` can make.

    Attributes:
        config: what identifies it.
        setup: what is trained, on the device that it is called with.
        variant: the model with its unit.
    """

    config: RunConfig
    setup: Callable[[torch.device], TrainingSetup]
    variant: Variant


def plan_run(
    model: nn.Module | Factory,
    data: Any,
    recipe: Recipe,
    *,
    unit: Any = None,
    seed: int = 0,
    name: str = "",
) -> PlannedRun:
    """Return the plan of a run, after putting the unit into the model once.

    Args:
        model: a module, or a function that makes one.
        data: as :func:`gatewise.compare` takes it.
        recipe: of the training.
        unit: in place of the model's activations; None for the unchanged model.
        seed: of the weights and of the order of batches.
        name: of the model; that of its class if empty.
    """
    examples = read_data(data, recipe)
    if isinstance(model, BuiltIn):
        model = model.fitting(examples)
    subject = user_model(model, examples, recipe, name=name or None)
    [chosen], label = read_units([unit or ORIGINAL], unit or ORIGINAL)
    with all_randomness():
        variant = make_variant(chosen, subject)
    planned = Subject(subject, model_digest(subject), {label: variant})
    config = planned.config(label, recipe.optimiser.lr, seed).model_copy(
        update={"evaluate_every": 1}
    )
    return PlannedRun(config, lambda device: subject.setup(variant, config, device), variant)
