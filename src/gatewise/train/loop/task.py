"""What the kind of labels decides in a run: loss and metrics, mirrored labels, fitting outputs.

Runs on labels of whole examples need none of this. Other kinds are registered here.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gatewise.data import Augment, Split
from gatewise.extensions import load_extensions, unknown_addition
from gatewise.train.config import Loss, Recipe
from gatewise.train.loop.objective import Objective

Shape = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class ObjectiveInputs:
    """What an objective is built from.

    Attributes:
        recipe: of the run.
        augment: of the recipe, with the normalisation of the data.
        evaluated: what is evaluated after an epoch, by the name that metrics have.
        classes: of the data.
        network: what is trained.
        shape: of the images.
        device: of the network.
    """

    recipe: Recipe
    augment: Augment
    evaluated: dict[str, Split]
    classes: int
    network: nn.Module
    shape: Shape
    device: torch.device


@dataclass(frozen=True, kw_only=True)
class Task:
    """A kind of labels, such as a class for every pixel.

    Attributes:
        name: the ``task`` of data sets and the ``predicts`` of networks.
        predicts: what its networks return, in words.
        metrics: that runs have; the first is the loss.
        objective: returns the objective of a run.
        check_outputs: raises unless outputs fit the loss, for so many classes and images of that
            shape.
        mirror: returns the function that mirrors the labels of images of that shape.
        example_labels: returns labels for so many images of that shape, for timing.
    """

    name: str
    predicts: str
    metrics: tuple[str, ...]
    objective: Callable[[ObjectiveInputs], Objective]
    check_outputs: Callable[[Loss, Tensor, int, Shape], None]
    mirror: Callable[[Shape], Callable[[Tensor], Tensor]]
    example_labels: Callable[[int, Shape], Tensor]


_TASKS: dict[str, Task] = {}


def register_task(task: Task) -> None:
    """Add a task, for data sets and networks that name it.

    Args:
        task: the task.
    """
    _TASKS[task.name] = task


def find_task(name: str) -> Task:
    """Return the task of that name.

    Args:
        name: as data sets and networks give it.
    """
    if name not in _TASKS:
        load_extensions("tasks")
    if name not in _TASKS:
        raise unknown_addition("tasks", "task", name, _TASKS)
    return _TASKS[name]
