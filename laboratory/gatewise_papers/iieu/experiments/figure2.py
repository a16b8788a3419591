"""Figure 2: curves of MobileNetV2 and ShuffleNetV2 with several activations."""

from dataclasses import dataclass, field
from typing import Any

from gatewise_papers.common import (
    IN_ANY_ORDER,
    CellValues,
    Claim,
    Curves,
    Experiment,
    Findings,
    Level,
    Numbers,
    Panel,
    Row,
    Table,
    TableTraining,
    all_better,
    at_end,
    cells_of,
    curve_lines,
    judged,
    number,
    percent,
    row,
    table_curves,
)
from gatewise_papers.iieu.experiments import published
from gatewise_papers.iieu.experiments.networks import NETWORKS, OURS

MOBILE = "MobileNetV2"
SHUFFLE = "ShuffleNetV2"
MODELS: dict[str, dict[str, Any]] = {
    MOBILE: {"model": "mobilenet_v2", "width": 0.17},
    SHUFFLE: {"model": "shufflenet_v2", "width": 0.5},
}
# ShuffleNetV2 adds nothing, so that the mixture of IIEU-DC has no place there.
MISSING = ((SHUFFLE, "IIEU-DC"),)
NAMED = ("ReLU", "Pserf", "ACON-C", "Meta-ACON", "SMU-1", "SMU", *OURS)
NOTES = (
    "the activations that section E.1 names; the figure's other curves are not named in the text",
    "the figure has curves and no numbers, so that rows have none of the paper's",
    "a loss is the mean over the last epoch as it is trained",
)


@dataclass(frozen=True)
class IieuFigure2Settings:
    """The defaults are the paper's: cfg-1 on ImageNet."""

    reduced: str = ""
    activations: tuple[str, ...] = NAMED
    models: tuple[str, ...] = (MOBILE, SHUFFLE)
    small_images: bool = False
    training: TableTraining = field(default_factory=lambda: TableTraining("imagenet", "iieu_cfg_1"))


def configurations(settings: IieuFigure2Settings, seeds: tuple[int, ...]) -> Table:
    """Return the configurations of every network of the figure, one per seed."""
    table = {}
    for title in settings.models:
        for name in settings.activations:
            if (title, name) in MISSING:
                continue
            options = {**MODELS[title], **NETWORKS[name]}
            if settings.small_images:
                options["small_images"] = True
            model, unit = options.pop("model"), options.pop("unit")
            table[name_of(title, name)] = [
                settings.training.config(model, seed, unit, **options) for seed in seeds
            ]
    return table


def name_of(model: str, activation: str) -> str:
    """Return the name of a network in the results."""
    return f"{model}, {activation}"


def findings(values: CellValues) -> Findings:
    """Compare losses and accuracies at the end."""
    settings: IieuFigure2Settings = values.settings
    curves = table_curves(configurations(settings, values.seeds), values)
    test = at_end(curves, "test")
    loss = at_end(curves, "loss")
    rows: list[Row] = []
    for name in curves:
        rows.append(row(f"test accuracy at the end, {name}", test[name]))
        rows.append(row(f"training loss at the end, {name}", loss[name]))
    claims = [
        _claim(settings, published.HIGHEST_EVERYWHERE, test, lower=False),
        _claim(settings, published.LOWEST_EVERYWHERE, loss, lower=True),
    ]
    return Findings(_panels(settings, curves), rows, claims, NOTES)


def _panels(settings: IieuFigure2Settings, curves: Curves) -> list[Panel]:
    """Return accuracy and loss of each network."""
    panels = []
    for title in settings.models:
        chosen = {}
        for name, seeds in curves.items():
            if name.startswith(f"{title}, "):
                chosen[name.removeprefix(f"{title}, ")] = seeds
        panels.append(Panel(title, "epochs", "test accuracy", curve_lines(chosen, "test")))
        panels.append(Panel(title, "epochs", "training loss", curve_lines(chosen, "loss")))
    return panels


def _claim(
    settings: IieuFigure2Settings, words: str, values: dict[str, Numbers], *, lower: bool
) -> Claim:
    """Judge that IIEU is better than every other activation in every network."""
    pairs = {}
    for title in settings.models:
        for ours in OURS:
            if name_of(title, ours) not in values:
                continue
            for other in settings.activations:
                if other not in OURS:
                    names = (name_of(title, ours), name_of(title, other))
                    pairs[" and ".join(names)] = (values[names[0]], values[names[1]])
    show = number if lower else percent
    return judged(words, all_better(pairs, lower=lower), show=show)


SHORT = (
    "epochs = 15",
    "batch = 128",
    "channels_last = true",
    "schedule.end = 0.0",
    "schedule.warmup = 1",
    "weight_decay.value = 1e-4",
)
EXPERIMENT = Experiment(
    name="iieu/figure2",
    title="curves of MobileNetV2 and ShuffleNetV2 with several activations",
    scales={
        "tiny": IieuFigure2Settings(
            "25 images of CIFAR-10, three activations, 1 epoch",
            activations=("ReLU", *OURS),
            small_images=True,
            training=TableTraining(
                "cifar10", "adam", ("epochs = 1", "batch = 25"), {"train": 25, "test": 25}
            ),
        ),
        "desk": IieuFigure2Settings(
            "all of CIFAR-100 instead of ImageNet, stems that keep 32 pixels, 15 epochs, batch 128",
            small_images=True,
            training=TableTraining("cifar100", "iieu_cifar", SHORT, IN_ANY_ORDER),
        ),
        "full": IieuFigure2Settings(),
    },
    cells=cells_of(configurations),
    findings=findings,
    trainings=configurations,
    levels=(Level(f"test accuracy at the end, {name_of(MOBILE, 'ReLU')}", at_least=0.4),),
    seeds=8,
    needs=("CIFAR-100 (scale full: ImageNet)",),
)
