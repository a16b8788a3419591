"""From a configuration to what a loop works on.

What cannot work is refused before any data is read.
"""

import math
import os
from typing import Any

import torch
from torch import nn

from gatewise.data import DataSet, Split, datasets, load
from gatewise.errors import ArgumentError, GatewiseError
from gatewise.models import create_model, get_model
from gatewise.train.config import HoldOut, RunConfig
from gatewise.train.loop.batches import Batches
from gatewise.train.loop.evaluation import evaluating
from gatewise.train.loop.losses import check_outputs
from gatewise.train.loop.process_group import Crew
from gatewise.train.loop.random_streams import initialised, shuffled
from gatewise.train.loop.run_environment import environment
from gatewise.train.loop.steps import Scene

# Options of data sets that keep the shape of the images and the number of classes.
KEEPING = {
    "train",
    "test",
    "count",
    "published",
    "random_labels",
    "random_pixels",
    "seed",
    "shift_test",
}


def assemble(
    config: RunConfig, *, data: DataSet, crew: Crew | None = None, network: nn.Module | None = None
) -> Scene:
    """Model, batches and what is evaluated, for one process.

    ``network`` in place of the configuration's, if given.
    """
    crew = crew or Crew()
    if network is None:
        network = build_model(config, classes=data.classes, shape=data.shape)
    probe(config, network, classes=data.classes, shape=data.shape)
    augment = config.recipe.augmentation().with_normalise(data.mean, data.std)
    train, held = held_out(data.train, config.hold_out)
    batches = Batches(
        train,
        size=config.recipe.batch,
        augment=augment,
        seed=config.seed,
        rank=crew.rank,
        processes=crew.processes,
    )
    looked_at = {"test": data.test} | ({"held": held} if held is not None else {})
    identity = {"config": config.digest, "data": data.digest}
    return Scene(
        config, network, batches, looked_at, augment, identity, environment(crew.processes)
    )


def check_before_data(config: RunConfig) -> None:
    """Refuse what can be known to be impossible without reading the data."""
    facts = data_facts(config)
    if facts is not None:
        probe(
            config,
            build_model(config, classes=facts[0], shape=facts[1]),
            classes=facts[0],
            shape=facts[1],
        )


def data_facts(config: RunConfig) -> tuple[int, tuple[int, int, int]] | None:
    """Classes and shape of the images as far as they are known without reading the data.

    None if only those can say.
    """
    source, chosen = datasets()[config.data], config.data_options.get("classes")
    others = config.data_options.keys() - {"classes"}
    if source.shape is None or source.classes is None or not others <= KEEPING:
        return None
    if "classes" not in config.data_options:
        return source.classes, source.shape
    return (len(chosen), source.shape) if isinstance(chosen, list) else None


def load_data(config: RunConfig, folder: str | None = None) -> DataSet:
    """The data set of the configuration."""
    return load(config.data, folder=folder, **config.data_options)


def build_model(config: RunConfig, *, classes: int, shape: tuple[int, int, int]) -> nn.Module:
    """The network with its initial weights.

    ``classes``, ``channels`` and ``features`` are the data's, if not given.
    """
    _check_memory(config.model, outline(config, classes=classes, shape=shape))
    return initialised(lambda: _built(config, classes, shape), config.seed, config.recipe.start)


def outline(config: RunConfig, *, classes: int, shape: tuple[int, int, int]) -> nn.Module:
    """The network without its numbers, on the device ``meta``."""
    with torch.device("meta"):
        return _built(config, classes, shape)


def _check_memory(name: str, network: nn.Module) -> None:
    """Refuse a network that cannot fit: the system would end the process without a word."""
    needed = sum(tensor.nbytes for tensor in network.state_dict().values())
    if hasattr(os, "sysconf") and needed > (
        there := os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    ):
        raise ArgumentError(
            f"model: {name} with these options does not fit into memory",
            got=f"{needed:,} bytes of weights",
            allowed=f"at most {there:,}",
        )


def _built(config: RunConfig, classes: int, shape: tuple[int, int, int]) -> nn.Module:
    known = get_model(config.model).options
    fitting = {"classes": classes or 1, "channels": shape[0], "features": math.prod(shape)}
    options: dict[str, Any] = {name: value for name, value in fitting.items() if name in known}
    if config.unit is not None:
        if "unit" not in known:
            raise ArgumentError(
                f"unit: {config.model} takes none", got=config.unit, fix="leave the unit out"
            )
        options["unit"] = config.unit
    try:
        return create_model(config.model, **options | config.model_options)
    except GatewiseError:
        raise
    except (TypeError, ValueError, RuntimeError, OverflowError, MemoryError) as problem:
        raise ArgumentError(
            f"model: {config.model} cannot be built with these options",
            got=str(problem) or type(problem).__name__,
            allowed=", ".join(known),
        ) from problem


def probe(
    config: RunConfig, network: nn.Module, *, classes: int, shape: tuple[int, int, int]
) -> None:
    """Refuse a network that cannot read the images, or whose outputs do not fit the loss."""
    size = size_read(config, shape)
    labels = torch.zeros(2, dtype=torch.int64 if classes else torch.float32)
    try:
        with evaluating(network):
            outputs = network(torch.zeros(2, shape[0], *size))
    except GatewiseError:
        raise
    except (RuntimeError, ValueError, TypeError, IndexError) as problem:
        raise ArgumentError(
            f"model: {config.model} cannot read images of this size",
            got=f"{shape[0]} x {size[0]} x {size[1]} ({str(problem).splitlines()[0]})",
            fix="choose another model, other data, or model options that fit",
        ) from problem
    check_outputs(config.recipe.loss, outputs, labels, classes)


def size_read(config: RunConfig, shape: tuple[int, int, int]) -> tuple[int, int]:
    """Height and width after the recipe's augmentation."""
    augment = config.recipe.augmentation()
    resized, room = augment.random_resized_crop, min(shape[1:])
    if augment.crop:
        name, size, room = "crop", augment.crop[0], room + 2 * augment.crop[1]
    elif resized:
        name, size = "random_resized_crop", resized.size
    else:
        return shape[1:]
    if size > room:  # images to be tested on are cut to that size, not made larger
        raise ArgumentError(
            f"recipe: augment.{name} is larger than the images", got=size, allowed=f"at most {room}"
        )
    return size, size


def held_out(split: Split, rule: HoldOut | None) -> tuple[Split, Split | None]:
    """What is trained on, and what is held out."""
    if rule is None:
        return split, None
    order = shuffled(len(split), rule.seed, "hold out")
    if rule.folds:
        bounds = [len(split) * fold // rule.folds for fold in (rule.fold - 1, rule.fold)]
    else:
        bounds = [0, rule.examples]
    if not 0 < bounds[1] - bounds[0] < len(split) - 1:
        raise ArgumentError(
            "hold_out: that many cannot be held out",
            got=bounds[1] - bounds[0],
            allowed=f"1 to {len(split) - 2}",
        )
    held = order[bounds[0] : bounds[1]].sort().values
    rest = torch.cat([order[: bounds[0]], order[bounds[1] :]]).sort().values
    return (split if rule.train_on_them else split.take(rest)), split.take(held)
