"""Table 4: what term-B of IIEU-B normalises its channel means over."""

from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn

from gatewise.studies import FunctionCell
from gatewise.train import RunConfig
from gatewise.units import IIEUB, TermB
from gatewise_papers.common import (
    IN_ANY_ORDER,
    CellValues,
    Claim,
    Experiment,
    Findings,
    Level,
    Numbers,
    Table,
    TableTraining,
    at_end,
    epoch_panels,
    judge,
    row,
    table_curves,
    training_cells,
)
from gatewise_papers.iieu.experiments import published
from gatewise_papers.iieu.experiments.networks import MOVED

FITTED = 0.6  # the test accuracy of ReLU from which claims are judged
LAYER, ALONE, FOUR, TWO, BATCH, BLANK, RELU = published.TERM_B
IIEU: dict[str, dict[str, Any]] = {
    LAYER: {"term_b": "layer"},
    # Altered after it is built: the number of groups differs from layer to layer.
    ALONE: {"term_b": "layer"},
    FOUR: {"term_b": "group", "groups": 4},
    TWO: {"term_b": "group", "groups": 2},
    BATCH: {"term_b": "batch"},
    BLANK: {"term_b": "affine"},
}
NOTES = (
    "groups of one channel leave the bias alone: the normalised value is 0 whatever the response",
    "all forms start with weight 0.01 and bias 0, which the paper does not say",
    "where IIEU stands in a basic block is not published: before the addition in both branches, as "
    "in its bottlenecks; ReLU stands after the addition; one before it stands beside them, and in "
    "no claim",
)


@dataclass(frozen=True)
class IieuTable4Settings:
    """The defaults are the paper's: ResNet-56 on all of CIFAR-100."""

    reduced: str = ""
    depth: int = 56
    training: TableTraining = field(
        default_factory=lambda: TableTraining("cifar100", "iieu_cifar", data_options=IN_ANY_ORDER)
    )


def networks(settings: IieuTable4Settings, seeds: tuple[int, ...]) -> Table:
    """Return the configurations of the seven networks, one per seed."""

    def configs(unit: str | dict[str, Any], **options: Any) -> list[RunConfig]:
        """Return one run per seed."""
        options["depth"] = settings.depth
        return [settings.training.config("resnet_cifar", seed, unit, **options) for seed in seeds]

    table = {name: configs({"name": "iieu_b", **options}) for name, options in IIEU.items()}
    table[RELU] = configs("relu")
    table[MOVED] = configs("relu", placement="before")
    return table


def cells(settings: IieuTable4Settings, seeds: tuple[int, ...]) -> list[FunctionCell]:
    """Return one training per network and seed."""
    return training_cells(networks(settings, seeds), alter={ALONE: leave_channels_alone})


def findings(values: CellValues) -> Findings:
    """Compare the accuracies of the seven networks."""
    settings: IieuTable4Settings = values.settings
    curves = table_curves(networks(settings, values.seeds), values)
    test = at_end(curves, "test")
    rows = []
    for name, numbers in test.items():
        printed = _published(settings, name)
        rows.append(row(f"test accuracy, {name}", numbers, published=printed))
    for name, numbers in at_end(curves, "loss").items():
        rows.append(row(f"training loss of the last epoch, {name}", numbers))
    return Findings(epoch_panels(curves, "loss"), rows, claims(test), NOTES)


def leave_channels_alone(network: nn.Module) -> None:
    """Make every channel of every term-B a group of its own, with the same initial values."""
    for module in network.modules():
        if isinstance(module, IIEUB):
            module.shift = TermB(module.channels, "group", module.channels)


def _published(settings: IieuTable4Settings, name: str) -> float | None:
    """Return the paper's accuracy if ours is of the same data."""
    if settings.reduced or name == MOVED:
        return None
    return published.TERM_B[name][0] / 100


def claims(test: dict[str, Numbers]) -> list[Claim]:
    """Judge what the paper concludes by the accuracies of the last epoch."""
    others = [name for name in published.TERM_B if name != LAYER]
    return [
        judge(published.LAYER_NORM_BEST, test, [LAYER], others),
        judge(published.ALL_BEAT_RELU, test, list(IIEU), [RELU]),
        judge(published.BLANK_BEATS_BATCH, test, [BLANK], [BATCH]),
        judge(published.ONE_GROUP_EACH_WORSE, test, [TWO, FOUR], [ALONE]),
    ]


FULL = IieuTable4Settings()
SMALL = TableTraining(
    "cifar100",
    "iieu_cifar",
    data_options=IN_ANY_ORDER,
    model_options={"scale": 0.5},
    changes=(
        "epochs = 4",
        "batch = 128",
        "schedule.end = 0.0",
        "schedule.warmup = 1",
        "channels_last = true",
    ),
)
DIGITS = TableTraining(
    "digits",
    "sgd",
    data_options={"train": 50},
    model_options={"scale": 0.5},
    changes=("epochs = 1", "batch = 25", "schedule.warmup = 0"),
)
EXPERIMENT = Experiment(
    name="iieu/table4",
    title="normalisation in term-B of IIEU-B, ResNet for CIFAR",
    scales={
        "tiny": replace(
            FULL,
            reduced="50 digits, depth 8, half the width, 1 epoch",
            depth=8,
            training=DIGITS,
        ),
        "desk": replace(
            FULL,
            depth=8,
            training=SMALL,
            reduced="depth 8, half the width, 4 epochs, batch 128",
        ),
        "full": FULL,
    },
    cells=cells,
    findings=findings,
    trainings=networks,
    levels=(Level(f"test accuracy, {RELU}", published.TERM_B[RELU][0] / 100, at_least=FITTED),),
    seeds=8,  # the paper does not say how many
    needs=("CIFAR-100",),
)
