"""Build from a configuration what a loop trains, and refuse early what cannot work."""

import math
import os
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.data import (
    EXAMPLES,
    Augment,
    DataSet,
    Split,
    find_set,
    load,
    shifted,
    shuffled,
)
from gatewise.devices import place_model
from gatewise.errors import ArgumentError, GatewiseError
from gatewise.models import create_model, get_model, list_models
from gatewise.train.config import HoldOut, RunConfig
from gatewise.train.loop.batches import Batches
from gatewise.train.loop.evaluation import evaluating
from gatewise.train.loop.losses import check_outputs
from gatewise.train.loop.objective import (
    ImageObjective,
    Objective,
    ObjectiveInputs,
    TextObjective,
    find_task,
)
from gatewise.train.loop.process_group import ProcessGroup
from gatewise.train.loop.random_streams import initialised
from gatewise.train.loop.run_environment import environment
from gatewise.train.loop.steps import TrainingSetup
from gatewise.units import fuse

STARTING_IMAGES = 5000  # seen by a network before it is trained
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
    config: RunConfig,
    *,
    data: DataSet,
    group: ProcessGroup | None = None,
    network: nn.Module | None = None,
    device: torch.device | None = None,
) -> TrainingSetup:
    """Return model, batches and evaluated data of one process.

    Args:
        config: the run.
        data: the data set.
        group: the processes of the run; one process if not given.
        network: in place of the configuration's.
        device: where it is trained; the processor if not given.
    """
    group = group or ProcessGroup()
    device = device or torch.device("cpu")
    if network is None:
        network = build_model(config, classes=data.classes, shape=data.shape)
    probe(config, network, classes=data.classes, shape=data.shape)
    train, held = held_out(data.train, config.hold_out)
    augment = None
    if not is_text(data.shape):
        augment = config.recipe.augmentation().with_normalise(data.mean, data.std)
        _start_from_data(network, train, augment)
    task = task_of(config)
    batches = Batches(
        train,
        size=config.recipe.batch,
        augment=augment,
        seed=config.seed,
        rank=group.rank,
        processes=group.processes,
        mirror=None if task == EXAMPLES else find_task(task).mirror(data.shape),
    )
    evaluated = {"test": data.test}
    if held is not None:
        evaluated["held"] = held
    if config.hold_out is not None and held is not None and config.hold_out.in_place_of_test:
        evaluated = {"held": shifted(held, data.test_shift) if data.test_shift else held}
    model = place_model(network, device, channels_last=config.recipe.channels_last)
    if config.fuse:
        fuse(model)
    return TrainingSetup(
        config=config,
        model=model,
        batches=batches,
        objective=objective_of(
            config,
            network,
            augment,
            evaluated,
            classes=data.classes,
            shape=data.shape,
            device=device,
        ),
        identity={"config": config.digest, "data": data.digest},
        environment=environment(group.processes, device),
        device=device,
    )


def objective_of(
    config: RunConfig,
    network: nn.Module,
    augment: Augment | None,
    evaluated: dict[str, Split],
    *,
    classes: int,
    shape: tuple[int, ...],
    device: torch.device | None = None,
) -> Objective:
    """Return the loss and the metrics of a run, as the labels of its data ask for.

    Args:
        config: the run.
        network: what is trained.
        augment: of the recipe, with the normalisation of the data; None for text.
        evaluated: what is evaluated after an epoch, by the name that metrics have.
        classes: of the data; 0 if labels are numbers.
        shape: of the images, or (length,) of rows of tokens.
        device: of the network; the processor if not given.
    """
    device = device or torch.device("cpu")
    if is_text(shape) or augment is None:
        return TextObjective(config.recipe, evaluated, device)
    task = task_of(config)
    if task == EXAMPLES:
        return ImageObjective(config.recipe, augment, evaluated, classes > 0, device)
    return find_task(task).objective(
        ObjectiveInputs(
            recipe=config.recipe,
            augment=augment,
            evaluated=evaluated,
            classes=classes,
            network=network,
            shape=shape,
            device=device,
        )
    )


def task_of(config: RunConfig) -> str:
    """Return what the labels of a run's data are of: ``"examples"``, or another task."""
    return find_set(config.data).task


def _start_from_data(network: nn.Module, train: Split, augment: Augment) -> None:
    """Let a network that asks for it see the first training images before it is trained.

    Such a network has a method ``start_from_data(images)``, for example to whiten its inputs. A
    resumed run then gets the weights of its checkpoint.
    """
    start = getattr(network, "start_from_data", None)
    if callable(start):
        start(augment.plain(train.images[:STARTING_IMAGES]))


def check_before_data(config: RunConfig) -> None:
    """Check everything that can be checked without reading the data."""
    facts = data_facts(config)
    if facts is not None:
        classes, shape = facts
        network = build_model(config, classes=classes, shape=shape)
        probe(config, network, classes=classes, shape=shape)


def data_facts(config: RunConfig) -> tuple[int, tuple[int, ...]] | None:
    """Return classes and shape of the images; None if they need the data to be read."""
    source = find_set(config.data)
    chosen = config.data_options.get("classes")
    others = config.data_options.keys() - {"classes"}
    if source.shape is None or source.classes is None or not others <= KEEPING:
        return None
    if "classes" not in config.data_options:
        return source.classes, source.shape
    if isinstance(chosen, list):
        return (len(chosen), source.shape)
    return None


def load_data(config: RunConfig, folder: str | None = None) -> DataSet:
    """Return the data set of the configuration."""
    return load(config.data, folder=folder, **config.data_options)


def build_model(config: RunConfig, *, classes: int, shape: tuple[int, ...]) -> nn.Module:
    """Return the network with its initial weights.

    Args:
        config: the run. Its model options have precedence over what the data say.
        classes: of the data; 0 if labels are numbers.
        shape: of the images, or (length,) of rows of tokens.

    Raises:
        ArgumentError: if the network cannot be built or does not fit into memory.
    """
    _check_memory(config.model, outline(config, classes=classes, shape=shape))
    return initialised(lambda: _built(config, classes, shape), config.seed, config.recipe.start)


def outline(config: RunConfig, *, classes: int, shape: tuple[int, ...]) -> nn.Module:
    """Return the network without weights, on the device ``meta``."""
    with torch.device("meta"):
        return _built(config, classes, shape)


def _check_memory(name: str, network: nn.Module) -> None:
    """Refuse a network that does not fit: the system would kill the process without a message."""
    if not hasattr(os, "sysconf"):
        return
    needed = sum(tensor.nbytes for tensor in network.state_dict().values())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > memory:
        raise ArgumentError(
            f"model: {name} with these options does not fit into memory",
            got=f"{needed:,} bytes of weights",
            allowed=f"at most {memory:,}",
        )


def _built(config: RunConfig, classes: int, shape: tuple[int, ...]) -> nn.Module:
    """Build the network; options that the data decide are filled in."""
    known = get_model(config.model).options
    from_data = {"classes": classes or 1, "channels": shape[0], "features": math.prod(shape)}
    if is_text(shape):
        from_data = {"classes": classes, "length": shape[0]}
    options: dict[str, Any] = {name: value for name, value in from_data.items() if name in known}
    if config.unit is not None:
        if "unit" not in known:
            raise ArgumentError(
                f"unit: {config.model} has no option for a unit",
                got=config.unit,
                fix="leave the unit out",
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
    config: RunConfig,
    network: nn.Module,
    *,
    classes: int,
    shape: tuple[int, ...],
) -> None:
    """Check that the network reads the data and that its outputs fit the loss."""
    if is_text(shape) != (get_model(config.model).tokens > 0):
        raise ArgumentError(
            f"model: {config.model} cannot read these data",
            got="rows of tokens" if is_text(shape) else "images",
            allowed="images" if is_text(shape) else "rows of tokens",
            fix="small_gpt and small_llama read text; the other models read images",
        )
    _check_task(config)
    read = example_shape(config, shape)
    inputs = torch.zeros(2, *read, dtype=torch.int64 if is_text(shape) else torch.float32)
    count = read if is_text(shape) else ()
    labels = torch.zeros(2, *count, dtype=torch.int64 if classes else torch.float32)
    try:
        with evaluating(network):
            outputs = network(inputs)
    except GatewiseError:
        raise
    except (RuntimeError, ValueError, TypeError, IndexError) as problem:
        raise ArgumentError(
            f"model: {config.model} cannot read images of this size",
            got=f"{' x '.join(map(str, read))} ({str(problem).splitlines()[0]})",
            fix="choose another model, other data, or model options that fit",
        ) from problem
    if task_of(config) == EXAMPLES:
        check_outputs(config.recipe.loss, outputs, labels, classes)
    else:
        find_task(task_of(config)).check_outputs(config.recipe.loss, outputs, classes, read)


def _check_task(config: RunConfig) -> None:
    """Raise unless the network predicts what the data have labels for."""
    predicts = get_model(config.model).predicts
    wanted = task_of(config)
    if predicts == wanted:
        return
    fitting = [name for name in list_models() if get_model(name).predicts == wanted]
    raise ArgumentError(
        f"model: {config.model} does not predict what {config.data} has labels for",
        got=_predicted(predicts),
        allowed=_predicted(wanted),
        fix=f"choose one of {', '.join(fitting)}, or other data",
    )


def _predicted(task: str) -> str:
    """Return what the networks of a task return, in words."""
    return "outputs for each example" if task == EXAMPLES else find_task(task).predicts


def is_text(shape: tuple[int, ...]) -> bool:
    """Return whether examples of this shape are rows of tokens, and not images."""
    return len(shape) == 1


def example_shape(config: RunConfig, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of one example as the network reads it."""
    if not is_text(shape):
        if task_of(config) != EXAMPLES:
            _check_flips_alone(config)
        return shape[0], *size_read(config, shape)
    if config.recipe.augmentation() != Augment():
        raise ArgumentError(
            "recipe: text cannot be augmented", got="augment", fix="leave the table augment out"
        )
    return shape


def _check_flips_alone(config: RunConfig) -> None:
    """Raise if the recipe moves pixels in a way that masks and boxes do not follow."""
    if replace(config.recipe.augmentation(), flip=False) != Augment():
        raise ArgumentError(
            "recipe: images with masks or boxes can be mirrored, and not changed otherwise",
            got=", ".join(config.recipe.augment),
            allowed="augment.flip",
        )


def example_inputs(
    config: RunConfig,
    count: int,
    *,
    classes: int,
    shape: tuple[int, ...],
    generator: torch.Generator | None = None,
) -> Tensor:
    """Return random inputs of the shape that the network reads: images, or rows of tokens.

    Args:
        config: the run.
        count: number of examples.
        classes: of the data; for text the number of tokens.
        shape: of the images, or (length,) of rows of tokens.
        generator: of the random numbers; torch's own if not given.
    """
    read = example_shape(config, shape)
    if is_text(shape):
        return torch.randint(classes, (count, *read), generator=generator)
    return torch.randn(count, *read, generator=generator)


def size_read(config: RunConfig, shape: tuple[int, ...]) -> tuple[int, int]:
    """Return height and width after the recipe's augmentation."""
    augment = config.recipe.augmentation()
    resized = augment.random_resized_crop
    largest = min(shape[1:])
    if augment.crop:
        size, padding = augment.crop
        name = "crop"
        largest += 2 * padding
    elif resized:
        size = resized.size
        name = "random_resized_crop"
    else:
        return shape[1], shape[2]
    if size > largest:  # test images are cut to that size, not made larger
        raise ArgumentError(
            f"recipe: augment.{name} is larger than the images",
            got=size,
            allowed=f"at most {largest}",
        )
    return size, size


def held_out(split: Split, rule: HoldOut | None) -> tuple[Split, Split | None]:
    """Return the examples to train on, and those held out."""
    if rule is None:
        return split, None
    rest, held = held_index(len(split), rule)
    return (split if rule.train_on_them else split.take(rest)), split.take(held)


def held_index(count: int, rule: HoldOut) -> tuple[Tensor, Tensor]:
    """Return where the examples to train on stand, and those held out, in rising order.

    Args:
        count: of all examples.
        rule: what is held out.
    """
    order = shuffled(count, rule.seed, "hold out")
    if rule.folds:
        bounds = [count * fold // rule.folds for fold in (rule.fold - 1, rule.fold)]
    else:
        bounds = [0, rule.examples]
    if not 0 < bounds[1] - bounds[0] < count - 1:
        raise ArgumentError(
            "hold_out: so many examples cannot be held out",
            got=bounds[1] - bounds[0],
            allowed=f"1 to {count - 2}",
        )
    held = order[bounds[0] : bounds[1]].sort().values
    rest = torch.cat([order[: bounds[0]], order[bounds[1] :]]).sort().values
    return rest, held
