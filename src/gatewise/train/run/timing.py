"""Time a few training steps on random examples, to estimate how long a run takes."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median

import torch
from torch import Tensor

from gatewise.data import EXAMPLES, Augment
from gatewise.train.config import RunConfig
from gatewise.train.loop import (
    Batch,
    build_model,
    deterministic,
    example_inputs,
    find_task,
    is_text,
    make_optimiser,
    objective_of,
    own_randomness,
    task_of,
)

STEPS = 3
LARGEST_TIMED = 1 << 22  # numbers in the timed part of a batch: more would not fit into memory
LONG = 10.0  # seconds of a step that is not repeated


def seconds_per_run(
    config: RunConfig,
    *,
    classes: int,
    shape: tuple[int, ...],
    examples: int,
    threads: int = 1,
    timer: Callable[[], float] = time.perf_counter,
) -> float:
    """Return the time that the training steps of a run take, without evaluation.

    It is computed from the median of three steps. One step is made before them, because it also
    allocates memory; if that takes over ten seconds, it is the only one. Of batches of large images
    a part is timed.

    Args:
        config: of the run.
        classes: of the data; 0 if labels are numbers.
        shape: of the images, or (length,) of rows of tokens.
        examples: of the training set.
        threads: of torch.
        timer: `time.process_time` for seconds of processor time, which other programs on the
            machine do not lengthen.
    """
    recipe = config.recipe
    batch = min(recipe.batch, examples)
    size = max(1, min(batch, LARGEST_TIMED // math.prod(shape)))
    with own_randomness(), deterministic(), _threads(threads):
        network = build_model(config, classes=classes, shape=shape).train()
        optimiser = make_optimiser(network, recipe)
        inputs = example_inputs(config, size, classes=classes, shape=shape)
        labels = _labels(config, inputs, classes=classes, shape=shape)
        part = Batch(torch.arange(size), inputs, labels, size)
        objective = objective_of(config, network, Augment(), {}, classes=classes, shape=shape)
        times = []
        for _ in range(STEPS + 1):
            begin = timer()
            optimiser.zero_grad()
            objective.step(network, part).losses.mean().backward()
            optimiser.step()
            times.append(timer() - begin)
            if times[0] > LONG:
                break
    step = median(times[1:] or times) * batch / size
    return step * recipe.total_epochs * max(1, -(-examples // recipe.batch))


def _labels(config: RunConfig, inputs: Tensor, *, classes: int, shape: tuple[int, ...]) -> Tensor:
    """Return labels for random inputs."""
    task = task_of(config)
    if task != EXAMPLES:
        return find_task(task).example_labels(len(inputs), shape)
    if is_text(shape):
        return inputs
    return torch.arange(len(inputs)) % classes if classes else torch.randn(len(inputs))


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Let torch use so many threads for the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
