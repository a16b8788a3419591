"""Tables 1 and 2: how fast and how far the training loss falls with each activation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from gatewise_papers.common import (
    IN_ANY_ORDER,
    CellValues,
    Claim,
    Curve,
    Experiment,
    Findings,
    Level,
    Numbers,
    Row,
    Table,
    TableTraining,
    all_lower,
    cells_of,
    column,
    epoch_panels,
    judge,
    not_tested,
    number,
    row,
    table_curves,
)
from gatewise_papers.iieu.experiments import published
from gatewise_papers.iieu.experiments.networks import MOVED, NETWORKS, OURS

NO_THRESHOLDS = "the thresholds come from a pilot of the networks, which has not been run"
NONE_REACHED = "no network reaches a threshold"
# By network, for each seed: lowest loss, its epoch, epochs at the thresholds, test accuracy.
Falls = Mapping[str, Sequence[Mapping[str, float | None]]]
WORDS = {
    "lowest": "lowest training loss",
    "lowest_at": "its epoch",
    "top1": "test accuracy at the end",
}
FITTED = 0.4  # the test accuracy of ReLU from which claims are judged
NOTES = (
    "the networks of IIEU have their last unit before the addition, the others after it, as in the "
    "authors' code; one with ReLU before the addition stands beside them, and in no claim",
    "ACON-C and Meta-ACON stand in place of every ReLU; "
    "their authors put them after the 3x3 convolutions alone",
    "an epoch's loss is the mean over its steps, as it is trained: the weights move meanwhile",
    "a threshold that some seeds do not reach has the mean of those that do; "
    "the others are left out, and counted",
    "SMU starts at mu = 2.5: at the published 1e6 it is the leaky ReLU that SMU-1 starts as, and "
    "its mu has no gradient",
    "scale full has RandAugment (two operations of magnitude 9), erasing (a quarter of the images) "
    "and label smoothing of 0.1, as the authors' script has; its strengths are ours. Random crops "
    "are of the whole images; in the test the shorter side is scaled to 256 pixels, of which the "
    "centre 224 are cut out",
    "ImageNet could not be had; scale full reads its images from their files in every epoch",
)


@dataclass(frozen=True)
class IieuConvergenceSettings:
    """The defaults are the paper's: cfg-1 on ImageNet."""

    depth: int
    reduced: str = ""
    cifar_depth: int = 0  # of ResNets for CIFAR in the place of the paper's; 0: none
    networks: tuple[str, ...] = tuple(NETWORKS)
    thresholds: tuple[float, ...] = (3.0, 2.5, 2.0)  # losses; of a pilot at reduced scales
    reduction: int = 0  # of IIEU-DC's mixture in ResNets for CIFAR; 0: the network's own
    control: bool = True  # whether ReLU stands before the addition too
    training: TableTraining = field(
        default_factory=lambda: TableTraining(
            "imagenet",
            "iieu_cfg_1",
            ("loss.label_smoothing = 0.1", "augment.rand_augment = [2, 9]", "augment.erase = 0.25"),
        )
    )


def configurations(settings: IieuConvergenceSettings, seeds: tuple[int, ...]) -> Table:
    """Return the configurations of every network of the table, one per seed."""
    options = {name: NETWORKS[name] for name in settings.networks}
    model = "resnet_cifar" if settings.cifar_depth else "resnet"
    depth = settings.cifar_depth or settings.depth
    if settings.control:
        options[MOVED] = {"unit": "relu", "placement": "before"}
    table = {}
    for name, chosen in options.items():
        if settings.reduction and chosen.get("coupler"):
            chosen = {**chosen, "reduction": settings.reduction}
        table[name] = [
            settings.training.config(model, seed, depth=depth, **chosen) for seed in seeds
        ]
    return table


def findings(values: CellValues) -> Findings:
    """Measure how the training losses fall."""
    settings: IieuConvergenceSettings = values.settings
    curves = table_curves(configurations(settings, values.seeds), values)
    falls: Falls = {}
    for name, by_seed in curves.items():
        falls[name] = [_fall(curve, settings.thresholds) for curve in by_seed]
    return Findings(
        epoch_panels(curves, "loss"), _rows(settings, falls), _claims(settings, falls), NOTES
    )


def _fall(curve: Curve, thresholds: Sequence[float]) -> dict[str, float | None]:
    """Return lowest loss, its epoch, first epochs at the thresholds, and last test accuracy."""
    epochs = []
    for place, loss in enumerate(curve["loss"], 1):
        if loss is not None:
            epochs.append({"epoch": place, "train_loss": loss})
    if not epochs:
        return dict.fromkeys(("lowest", "lowest_at", *map(_below, thresholds), "top1"))
    best = min(epochs, key=lambda record: record["train_loss"])
    reached: dict[str, float | None] = {}
    for threshold in thresholds:
        below = [each["epoch"] for each in epochs if each["train_loss"] < threshold]
        reached[_below(threshold)] = below[0] if below else None
    return {
        "lowest": best["train_loss"],
        "lowest_at": best["epoch"],
        **reached,
        "top1": curve["test"][-1],
    }


def _below(threshold: float) -> str:
    """Return the key of a threshold in the results."""
    return f"below_{threshold}"


def _rows(settings: IieuConvergenceSettings, falls: Falls) -> list[Row]:
    """Return a row for every number of every network."""
    words = dict(WORDS)
    for threshold in settings.thresholds:
        words[_below(threshold)] = f"first epoch with a loss below {threshold}"
    rows = []
    for name, seeds in falls.items():
        for what in seeds[0]:
            printed = _published(settings, name, what)
            values = column(seeds, what)
            rows.append(row(f"{words[what]}, {name}", values, published=printed))
    return rows


def _published(settings: IieuConvergenceSettings, name: str, what: str) -> float | None:
    """Return the paper's number if ours is of the same data; accuracies as shares."""
    if settings.reduced or name == MOVED:
        return None
    numbers = published.CONVERGENCE[settings.depth][name]
    value = dict(zip(published.CONVERGENCE_METRICS, numbers, strict=True))[what]
    return value / 100 if what == "top1" and value is not None else value


def _claims(settings: IieuConvergenceSettings, falls: Falls) -> list[Claim]:
    """Judge whether IIEU reaches lower losses, faster, and higher accuracies."""
    others = [name for name in settings.networks if name not in OURS]

    def values(what: str) -> dict[str, Numbers]:
        """Return one number of every network, by seed."""
        return {name: column(seeds, what) for name, seeds in falls.items()}

    def judge_lower(claim: str, values: Mapping[str, Numbers]) -> Claim:
        """Judge a number that is better when it is lower."""
        return judge(claim, values, OURS, others, lower=True, show=number)

    epochs = {threshold: values(_below(threshold)) for threshold in settings.thresholds}
    return [
        judge_lower(published.LOWEST_LOSS, values("lowest")),
        fastest_claim(epochs, others, settings.training.changed_recipe().total_epochs + 1),
        judge(published.HIGHEST_ACCURACY[settings.depth], values("top1"), OURS, others),
    ]


def fastest_claim(
    epochs: Mapping[float, Mapping[str, Numbers]], others: Sequence[str], after: float
) -> Claim:
    """Judge that IIEU reaches every threshold in fewer epochs than each of the others.

    A threshold that neither side of a comparison reaches with any seed says nothing about them.
    Such comparisons are left out.

    Args:
        epochs: by threshold and network, the first epoch at the threshold of every seed; None if it
            was not reached.
        others: the networks that IIEU is compared with.
        after: the epoch that counts for a threshold that was not reached.
    """
    if not epochs:
        return not_tested(published.FASTEST, NO_THRESHOLDS)
    pairs = {}
    for threshold, reached in epochs.items():
        for ours, other in product(OURS, others):
            sides = (reached[ours], reached[other])
            if any(epoch is not None for side in sides for epoch in side):
                pairs[f"loss {threshold}, {ours} and {other}"] = (
                    _or_after(sides[0], after),
                    _or_after(sides[1], after),
                )
    if not pairs:
        return not_tested(published.FASTEST, NONE_REACHED)
    return all_lower(published.FASTEST, pairs)


def _or_after(epochs: Numbers, after: float) -> Numbers:
    """Count a threshold that was not reached as the epoch ``after``."""
    return [after if epoch is None else epoch for epoch in epochs]


TRAINING = TableTraining(
    "cifar100",
    "iieu_cifar",
    data_options=IN_ANY_ORDER,
    changes=(
        "epochs = 12",
        "batch = 128",
        "schedule.end = 0.0",
        "schedule.warmup = 1",
        "channels_last = true",
    ),
)
DESK = IieuConvergenceSettings(
    0, networks=("ReLU", *OURS), thresholds=(), training=TRAINING, reduction=4, control=False
)
SMALLER = (
    "at one learning rate, the paper's 0.1; all of CIFAR-100 instead of ImageNet, on ResNets for "
    "images of 32 pixels of depth {}; ReLU, IIEU-B and IIEU-DC (reduction 4) alone; 12 epochs, "
    "batches of 128; no thresholds before a pilot"
)
DIGITS = TableTraining(
    "digits",
    "sgd",
    data_options={"train": 50},
    model_options={"scale": 0.0625},
    changes=("epochs = 2", "batch = 25", "schedule.warmup = 0"),
)


def experiment(depth: int, desk_depth: int) -> Experiment:
    """Return the experiment of one table.

    Args:
        depth: of the ResNets.
        desk_depth: of the ResNets for CIFAR at scale desk.
    """
    full = IieuConvergenceSettings(depth)
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
            "desk": replace(
                DESK, depth=depth, cifar_depth=desk_depth, reduced=SMALLER.format(desk_depth)
            ),
            "full": full,
        },
        cells=cells_of(configurations),
        findings=findings,
        trainings=configurations,
        levels=(
            Level(
                f"{WORDS['top1']}, ReLU",
                published.RELU_TOP_1[depth],
                at_least=FITTED,
            ),
        ),
        seeds=8,
        seeds_at={"desk": 6},
        needs=("CIFAR-100 (scale full: ImageNet)",),
    )
