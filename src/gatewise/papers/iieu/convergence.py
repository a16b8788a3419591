"""Tables 1 and 2: how fast and how far the training loss falls with each activation, on ResNet-14 and ResNet-26."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gatewise.papers.common import (
    Claim,
    Curve,
    Curves,
    Experiment,
    Findings,
    Numbers,
    Panel,
    Row,
    Run,
    Training,
    curve_lines,
    judge,
    number,
    row,
    train_all,
)
from gatewise.papers.iieu import published
from gatewise.papers.iieu.networks import MOVED, NETWORKS, OURS
from gatewise.train import convergence


@dataclass(frozen=True)
class Settings:
    """The defaults are the paper's: cfg-1 on ImageNet."""

    depth: int
    reduced: str = ""
    networks: tuple[str, ...] = tuple(NETWORKS)
    thresholds: tuple[float, ...] = (3.0, 2.5, 2.0)  # losses
    training: Training = field(
        default_factory=lambda: Training("image_folder", "iieu_cfg_1", data_options={"size": 224})
    )


def measure(run: Run) -> Findings:
    """Train every network of every seed, and look at its training loss."""
    sizes: Settings = run.settings
    configs = {
        name: [
            sizes.training.config("resnet", seed, depth=sizes.depth, **NETWORKS[name])
            for seed in run.seeds
        ]
        for name in sizes.networks
    }
    before = {"unit": "relu", "placement": "before"}
    configs[MOVED] = [
        sizes.training.config("resnet", seed, depth=sizes.depth, **before) for seed in run.seeds
    ]
    found = train_all(run, configs)
    fall = {
        name: [_fall(curve, sizes.thresholds) for curve in curves] for name, curves in found.items()
    }
    return Findings(_panels(found), _rows(sizes, fall), _claims(sizes, fall), NOTES)


NOTES = (
    "the networks of IIEU have their last unit before the addition, the others after it, as in the authors' code; "
    "one with ReLU before the addition stands beside them, and in no claim",
    "ACON-C and Meta-ACON stand in place of every ReLU; their authors put them after the 3x3 convolutions alone",
    "an epoch's loss is the mean over its steps, as it is trained: the weights move meanwhile",
    "a threshold that some seeds do not reach has the mean of those that do; the others are left out, and counted",
    "ImageNet could not be had; image_folder takes no more than 32 GiB of decoded images, so that scale full would "
    "have to be run on a part of it",
)


def _fall(curve: Curve, thresholds: Sequence[float]) -> dict[str, float | None]:
    """Lowest loss, its epoch, the first epochs at or below the thresholds, and the last test accuracy."""
    epochs = [
        {"epoch": place, "train_loss": loss}
        for place, loss in enumerate(curve["loss"], 1)
        if loss is not None
    ]
    if not epochs:
        return dict.fromkeys(("lowest", "lowest_at", *map(_below, thresholds), "top1"))
    found = convergence(epochs, thresholds)
    reached = {_below(each): found.reached[each] for each in thresholds}
    return {
        "lowest": found.lowest,
        "lowest_at": found.lowest_at,
        **reached,
        "top1": curve["test"][-1],
    }


def _below(threshold: float) -> str:
    return f"below_{threshold}"


def _panels(found: Curves) -> list[Panel]:
    return [
        Panel("training", "epochs", "loss", curve_lines(found, "loss")),
        Panel("test", "epochs", "accuracy", curve_lines(found, "test")),
    ]


def _rows(sizes: Settings, fall: Mapping[str, Sequence[Mapping[str, float | None]]]) -> list[Row]:
    words = {
        "lowest": "lowest training loss",
        "lowest_at": "its epoch",
        "top1": "test accuracy at the end",
    }
    words |= {
        _below(each): f"first epoch with a loss of at most {each}" for each in sizes.thresholds
    }
    return [
        row(
            f"{words[what]}, {name}",
            [seed[what] for seed in seeds],
            published=_published(sizes, name, what),
        )
        for name, seeds in fall.items()
        for what in seeds[0]
    ]


def _published(sizes: Settings, name: str, what: str) -> float | None:
    """The paper's number, where ours is of the same data; accuracies as shares."""
    if sizes.reduced or name == MOVED:
        return None
    value = dict(
        zip(published.CONVERGENCE_METRICS, published.CONVERGENCE[sizes.depth][name], strict=True)
    )[what]
    return value / 100 if what == "top1" and value is not None else value


def _claims(
    sizes: Settings, fall: Mapping[str, Sequence[Mapping[str, float | None]]]
) -> list[Claim]:
    ours, others = list(OURS), [name for name in sizes.networks if name not in OURS]

    def values(what: str) -> dict[str, Numbers]:
        return {name: [seed[what] for seed in seeds] for name, seeds in fall.items()}

    lowest = judge(published.LOWEST_LOSS, values("lowest"), ours, others, lower=True, show=number)
    reached = [
        judge("", _or_never(values(_below(each)), sizes), ours, others, lower=True, show=number)
        for each in sizes.thresholds
    ]
    evidence = " | ".join(
        f"loss {each}: {one.evidence}" for each, one in zip(sizes.thresholds, reached, strict=True)
    )
    fastest = Claim(published.FASTEST, all(each.holds for each in reached), evidence)
    return [
        lowest,
        fastest,
        judge(published.HIGHEST_ACCURACY[sizes.depth], values("top1"), ours, others),
    ]


def _or_never(values: Mapping[str, Numbers], sizes: Settings) -> dict[str, Numbers]:
    """A threshold that was not reached counts as one epoch beyond the last."""
    after = sizes.training.changed_recipe().total_epochs + 1
    return {
        name: [after if each is None else each for each in seeds] for name, seeds in values.items()
    }


CLASSES = list(range(10))  # of the hundred
TRAINING = Training(
    "cifar100",
    # its augmentation is for small images; all else is as in cfg-1, but for what is changed
    "iieu_cifar",
    data_options={"published": False, "classes": CLASSES},
    model_options={"scale": 0.25},
    changes=(
        "epochs = 8",
        "batch = 100",
        "optimiser.lr = 0.03",
        "schedule.end = 0.0",
        "schedule.warmup = 1",
        "weight_decay.value = 1e-4",
    ),
)
# A uniform guess among ten classes has the loss log 10 = 2.30; these are 90, 80 and 70 % of it.
CPU = Settings(0, networks=(), thresholds=(2.07, 1.84, 1.61), training=TRAINING)
SMALLER = (
    "CIFAR-100's first ten classes, 80 images of each, instead of ImageNet; 32 pixels; a quarter of the width; "
    "8 epochs, rate 0.03, batch 100; thresholds 90, 80, 70 % of log 10"
)
DIGITS = Training(
    "digits",
    "sgd",
    data_options={"train": 50},
    model_options={"scale": 0.0625},
    changes=("epochs = 2", "batch = 25", "schedule.warmup = 0"),
)


def experiment(depth: int, networks: tuple[str, ...], reduced: str) -> Experiment:
    """The table of one depth, with these networks at scale cpu."""
    full = Settings(depth)
    return Experiment(
        name=f"iieu/table{1 if depth == 14 else 2}",
        title=f"convergence of ResNet-{depth} with each activation",
        scales={
            "tiny": replace(
                full,
                depth=14,
                reduced="50 digits, ResNet-14, three networks, 2 epochs",
                networks=("ReLU", *OURS),
                training=DIGITS,
            ),
            "cpu": replace(CPU, depth=depth, networks=networks, reduced=reduced),
            "full": full,
        },
        measure=measure,
        seeds=3,
        needs=("CIFAR-100, any part of it (scale full: ImageNet)",),
    )
