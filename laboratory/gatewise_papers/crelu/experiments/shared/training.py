"""The paper's CIFAR networks trained here: one recipe, the same images, weights and batches."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from gatewise.files import read_tensors
from gatewise.models import Block
from gatewise.train import (
    WEIGHTS,
    Recipe,
    Result,
    RunConfig,
    build_model,
    find_recipe,
    run_config,
)
from gatewise_papers.common import IN_ANY_ORDER, Level, data_of
from gatewise_papers.crelu.experiments.shared.held_out_runs import training_error

TINY: dict[str, Any] = {"width": 1 / 24, "train": 60, "test": 50, "epochs": 1}  # a run of seconds
CIFAR = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
NEEDS = tuple(CIFAR.values())
# Train errors in per cent up to which claims about trained networks are judged. The paper's
# networks have 1.09 with ReLU and at most 4.73 with CReLU on CIFAR-10; up to 21.01 on CIFAR-100.
MOST_TRAIN_ERROR = {"cifar10": 5.0, "cifar100": 25.0}
NORMED = (
    "Batch norm before each unit, which the paper's network has not: without it, networks so "
    "narrow stayed near chance in some seeds after so short a training. It is folded into the "
    "convolutions before they are looked at."
)


@dataclass(frozen=True)
class CifarSettings:
    """Sizes of networks and data; the paper's, with the rates of the network's own authors."""

    reduced: str = ""
    width: float = 1.0  # factor on all widths
    train: int | None = None  # images; None: all
    test: int | None = None
    superclasses: bool = False  # of CIFAR-100: its 20 in place of its 100 classes
    changes: tuple[str, ...] = ()  # of the recipe
    epochs: int = 0  # 0: the recipe's own; else a short recipe of ours
    batch: int = 25
    lr: float = 3e-3
    norm: bool = False  # batch norm before each unit
    dropout: bool = True  # where the network has it
    data: tuple[str, ...] = tuple(CIFAR)
    hold_out: int = 0  # images, for "Single"; 0: one run of all epochs on all images
    folds: int = 0  # for "Average" and "Vote"; 0: neither
    until: float = 0.0  # the train error of the first network at which all end; 0: no such end
    networks_of: str = ""  # the experiment whose trained networks are measured; none: its own

    @property
    def recipe(self) -> Recipe:
        """The recipe that stands for the paper's, or a short one if ``epochs`` is set."""
        if not self.epochs:
            return find_recipe("crelu_cifar", changes=self.changes)
        changes = [
            f"epochs = {self.epochs}",
            f"batch = {self.batch}",
            f"optimiser.lr = {self.lr}",
            "augment.flip = true",
            "channels_last = true",  # faster, by a factor of 1.5 to 2 on processors
        ]
        if self.epochs > 1:
            changes.append("schedule.warmup = 1")
        return find_recipe("adam", changes=changes)

    @property
    def as_printed(self) -> bool:
        """Whether networks are trained as in the paper; a short training has a recipe of ours."""
        return not self.epochs

    def data_options(self, data: str) -> dict[str, Any]:
        """Return the options with which ``data`` is loaded."""
        options: dict[str, Any] = {}
        if self.train is not None:
            options["train"] = self.train
        if self.test is not None:
            options["test"] = self.test
        if data == "cifar100":
            options |= {"coarse": self.superclasses, **IN_ANY_ORDER}
        return options

    @property
    def notes(self) -> tuple[str, ...]:
        """What is ours and not the paper's in the training."""
        notes = []
        if self.epochs:
            warm_up = " and one epoch of warm-up" if self.epochs > 1 else ""
            notes.append(
                f"The paper does not print its rates. Ours: Adam {self.rate_in_words} with a "
                f"cosine{warm_up}, batches of {self.batch}, He's start, images mirrored."
            )
        if self.norm:
            notes.append(NORMED)
        return tuple(notes)

    @property
    def rate_in_words(self) -> str:
        """The learning rate, as it stands in a sentence."""
        return f"at {self.lr:g}"


@dataclass(frozen=True)
class Form:
    """A network with one unit at some places."""

    unit: str
    options: Mapping[str, Any]
    widths: float = 1.0  # factor on top of that of the scale


CONVPOOL = {
    "ReLU": Form("relu", {}),
    "ReLU, double": Form("relu", {}, widths=2.0),
    "CReLU": Form("crelu", {"filters": "same"}),
    "CReLU, half": Form("crelu", {"filters": "half"}),
}

# The network in the place of the paper's best one, which has CReLU after the first four
# convolutions and no pooling between them. All-CNN-B reads images of 224 pixels, and ImageNet is
# not available here. largeCNN reads CIFAR's images and, like All-CNN-B, has a stride in its third
# convolution and no pooling in the first four.
FOUR_LAYER_MODEL = "large_cnn"
FOUR_LAYERS = (1, 2, 3, 4)
FOUR_LAYER_FORMS = {
    "CReLU": Form("crelu", {"at": FOUR_LAYERS, "filters": "same"}),
    "ReLU": Form("relu", {}),
}
FOUR_LAYER_DATA = "cifar10"
# What Table 1 measures on its trained networks at the scale ``desk``, for Figures 4 and 5 and for
# Table 6.
TABLE1 = "crelu/table1"
INVARIANCE = "invariance"
PAIRS = "pairs"
RATIOS = "reconstruction"
INSTEAD = "largeCNN on CIFAR-10 in the place of All-CNN-B on ImageNet"


def levels_of(
    form: str, data: str, printed: Mapping[tuple[str, str], Mapping[str, float]]
) -> tuple[Level, ...]:
    """Return how well the network of a form must be trained on a data set.

    Args:
        form: its name in the rows.
        data: ``"cifar10"`` or ``"cifar100"``.
        printed: errors of the paper, by data set and form.
    """
    known = printed.get((data, form), {})
    name = f"{CIFAR[data]}, {form}"
    return (
        Level(f"{name}: train error, %", known.get("train"), at_most=MOST_TRAIN_ERROR[data]),
        Level(f"{name}: test error, %", known.get("test")),
    )


def configuration(
    settings: CifarSettings,
    form: Form,
    data: str,
    seed: int,
    model: str = "convpool_cnn",
) -> RunConfig:
    """Return the run of one form and seed.

    Args:
        settings: sizes and recipe.
        form: of the network.
        data: ``"cifar10"`` or ``"cifar100"``.
        seed: of the run.
        model: the network.
    """
    options = {**form.options, "scale": settings.width * form.widths}
    if settings.norm:
        options["norm"] = True
    if model == "vgg_cifar" or (model == "convpool_cnn" and settings.as_printed):
        options["dropout"] = settings.dropout
    return run_config(
        model=model,
        unit=form.unit,
        model_options=options,
        data=data,
        data_options=settings.data_options(data),
        recipe=settings.recipe,
        seed=seed,
        evaluate_every=settings.recipe.total_epochs,
    )


def trainings(
    settings: CifarSettings,
    seeds: tuple[int, ...],
    forms: Mapping[str, Form],
    data: Iterable[str],
    model: str = "convpool_cnn",
) -> dict[str, list[RunConfig]]:
    """Return one run per seed of every form on every data set.

    Args:
        settings: sizes and recipe.
        seeds: of every form.
        forms: by name.
        data: names of data sets.
        model: the network.
    """
    table = {}
    for name in data:
        for form, chosen in forms.items():
            configs = [configuration(settings, chosen, name, seed, model) for seed in seeds]
            table[f"{CIFAR[name]}, {form}"] = configs
    return table


def errors(config: RunConfig, folder: Path, result: Result) -> dict[str, float | None]:
    """Return the errors of the trained network on training and test images, in per cent.

    Args:
        config: the run.
        folder: of the run, with its weights.
        result: of the run.

    Returns:
        By the name of the images; None if the run diverged.
    """
    if result.status != "finished" or result.metrics is None:
        return {"train": None, "test": None}
    train = training_error(config, folder, data_of(config))
    return {"train": 100 * train, "test": 100 * (1 - result.metrics["test_accuracy"])}


def trained_network(config: RunConfig, folder: Path) -> nn.Module:
    """Return the network of a finished run, in evaluation mode and with norms folded.

    Args:
        config: the run.
        folder: of the run.
    """
    network = initial_network(config)
    network.load_state_dict(read_tensors(folder / WEIGHTS)[0])
    return folded(network.eval())


def initial_network(config: RunConfig) -> nn.Module:
    """Return the network with its initial weights."""
    data = data_of(config)
    return build_model(config, classes=data.classes, shape=data.shape)


def folded(network: nn.Module) -> nn.Module:
    """Fold every batch norm of ``network``, in evaluation mode, into the convolution before it."""
    for block in network.modules():
        if not isinstance(block, Block):
            continue
        if isinstance(block.layer, nn.Conv2d) and isinstance(block.norm, nn.BatchNorm2d):
            block.layer = fuse_conv_bn_eval(block.layer, block.norm)
            block.norm = None
    return network


def network_inputs(config: RunConfig, count: int) -> Tensor:
    """Return the first ``count`` test images as the network reads them, (count, 3, 32, 32)."""
    data = data_of(config)
    augment = config.recipe.augmentation().with_normalise(data.mean, data.std)
    return augment.plain(data.test.images[:count])
