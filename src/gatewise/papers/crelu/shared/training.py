"""The paper's CIFAR networks trained here.

One recipe for all forms, the same images, first weights and batches.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from gatewise.files import read_tensors
from gatewise.models import Block
from gatewise.papers.common import data_of
from gatewise.train import (
    WEIGHTS,
    Recipe,
    Result,
    RunConfig,
    build_model,
    find_recipe,
    run_config,
    train,
)

CIFAR = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
NEEDS = tuple(CIFAR.values())
OURS = (
    "The paper does not print its rates. Ours: Adam at 0.003 with a cosine and one epoch of warm-up, batches of 25, "
    "He's start, images mirrored."
)
NORMED = (
    "Batch norm before each unit, which the paper's network has not: without it, networks so narrow stayed near chance "
    "in some seeds after so short a training. It is folded into the convolutions before they are looked at."
)


@dataclass(frozen=True)
class Sizes:
    """How large networks and data are.

    The defaults are the paper's, with the rates of the network's own authors.
    """

    reduced: str = ""
    width: float = 1.0  # factor on all widths
    train: int | None = None  # images; None: all
    test: int | None = None
    superclasses: bool = False  # of CIFAR-100: its 20 in place of its 100 classes
    published: bool = (
        True  # whether CIFAR-100 has to be the published files; else other files in their place
    )
    changes: tuple[str, ...] = ()  # of the recipe
    epochs: int = 0  # 0: the recipe's own; else a short recipe of ours
    batch: int = 25
    lr: float = 3e-3
    norm: bool = False  # batch norm before each unit
    dropout: bool = True  # where the network has it

    @property
    def recipe(self) -> Recipe:
        """The recipe that stands for the paper's, or where epochs are given a short one."""
        if not self.epochs:
            return find_recipe("crelu_cifar", changes=self.changes)
        changes = [
            f"epochs = {self.epochs}",
            f"batch = {self.batch}",
            f"optimiser.lr = {self.lr}",
            "augment.flip = true",
        ]
        changes += ["schedule.warmup = 1"] if self.epochs > 1 else []
        return find_recipe("adam", changes=changes)

    def choice(self, data: str) -> dict[str, Any]:
        """The options with which ``data`` is loaded."""
        counts = {
            name: count
            for name, count in (("train", self.train), ("test", self.test))
            if count is not None
        }
        of_100 = (
            {"coarse": self.superclasses, "published": self.published} if data == "cifar100" else {}
        )
        return counts | of_100

    @property
    def notes(self) -> tuple[str, ...]:
        """What is ours and not the paper's in the training."""
        return (*((OURS,) if self.epochs else ()), *((NORMED,) if self.norm else ()))


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


def configuration(
    sizes: Sizes, form: Form, data: str, seed: int, model: str = "convpool_cnn"
) -> RunConfig:
    """The run of one form and seed."""
    options = {
        **form.options,
        "scale": sizes.width * form.widths,
        **({"norm": True} if sizes.norm else {}),
    }
    return run_config(
        model=model,
        unit=form.unit,
        model_options=options,
        data=data,
        data_options=sizes.choice(data),
        recipe=sizes.recipe,
        seed=seed,
        evaluate_every=sizes.recipe.total_epochs,
    )


def errors(result: Result) -> dict[str, float | None]:
    """Train and test error in per cent; None if the run diverged."""
    last = (result.metrics if result.status == "finished" else None) or {}
    return {
        name: 100 * (1 - last[f"{name}_accuracy"]) if f"{name}_accuracy" in last else None
        for name in ("train", "test")
    }


def fit(config: RunConfig, folder: Path, **options: Any) -> Result:
    """Train in ``folder``, or go on there.

    If stopped, the cell it is for must not be taken for done.
    """
    result = train(config, folder, data=data_of(config), **options)
    if result is None:
        raise KeyboardInterrupt
    return result


def trained(config: RunConfig, folder: Path) -> tuple[nn.Module, dict[str, float | None]]:
    """The network after training, in evaluation mode and with its norms folded, and its errors."""
    result, network = fit(config, folder), first(config)
    network.load_state_dict(read_tensors(folder / WEIGHTS)[0])
    return folded(network.eval()), errors(result)


def first(config: RunConfig) -> nn.Module:
    """The network with its first weights."""
    data = data_of(config)
    return build_model(config, classes=data.classes, shape=data.shape)


def folded(network: nn.Module) -> nn.Module:
    """``network``, in evaluation mode, with every batch norm made part of the convolution before it."""
    for block in network.modules():
        if (
            isinstance(block, Block)
            and isinstance(block.layer, nn.Conv2d)
            and isinstance(block.norm, nn.BatchNorm2d)
        ):
            block.layer, block.norm = fuse_conv_bn_eval(block.layer, block.norm), None
    return network


def shown_images(config: RunConfig, count: int) -> Tensor:
    """The first ``count`` test images as the network reads them (count, 3, 32, 32)."""
    data = data_of(config)
    return (
        config.recipe.augmentation()
        .with_normalise(data.mean, data.std)
        .plain(data.test.images[:count])
    )
