"""Table 4, Experiment 7.

Soft-ReLU gates of several steepnesses on CIFAR-10, beside ReLU and a deep linear network.
"""

from dataclasses import dataclass, field, replace

from gatewise.papers.common import (
    Claim,
    Curves,
    Experiment,
    Findings,
    Numbers,
    Panel,
    Row,
    Run,
    Training,
    curve_lines,
    deviation,
    finite,
    judge,
    mean,
    percent,
    row,
    train_all,
)
from gatewise.papers.deep_gated.shared import published

LINEAR, RELU = "deep linear network", "ReLU"
Softness = tuple[float, float]  # beta, eps


@dataclass(frozen=True)
class Settings:
    """The defaults are the paper's; it gives neither batch nor epochs."""

    reduced: str = ""
    betas: tuple[int, ...] = (1, 2, 4, 8, 12, 16, 20, 24)
    epsilons: tuple[float, ...] = (0.1, 0.4)
    training: Training = field(default_factory=lambda: Training("cifar10", "deep_gated_adam"))


def measure(run: Run) -> Findings:
    """Train every network, and take the best accuracies of each run, as the paper does."""
    sizes: Settings = run.settings
    gates = {LINEAR: {"gate": "linear"}, RELU: {"gate": "relu"}} | {
        name_of(beta, eps): {"gate": "soft_relu", "beta": float(beta), "eps": eps}
        for eps in sizes.epsilons
        for beta in sizes.betas
    }
    table = {
        name: [sizes.training.config("deep_gated_cnn", seed, **options) for seed in run.seeds]
        for name, options in gates.items()
    }
    found = train_all(run, table)
    best = {part: _best(found, part) for part in ("train", "test")}
    panels = [
        Panel("training", "epochs", "accuracy", curve_lines(found, "train")),
        Panel("test", "epochs", "accuracy", curve_lines(found, "test")),
    ]
    return Findings(panels, _rows(sizes, best), claims(sizes, best["test"]), NOTES)


NOTES = (
    "accuracies are those of the best epoch of each run, as in the paper",
    "the paper gives neither batch nor epochs: 32 and 100 at scale full",
    "weights start with equal size and random sign, as in the paper's theory; how those of Table 4 do, it does not say",
)


def name_of(beta: float, eps: float) -> str:
    """What a soft-ReLU network is called in the results."""
    return f"soft-ReLU beta={beta:g}, eps={eps:g}"


def _best(found: Curves, part: str) -> dict[str, Numbers]:
    return {
        name: [max(finite(curve[part]), default=None) for curve in curves]
        for name, curves in found.items()
    }


def _rows(sizes: Settings, best: dict[str, dict[str, Numbers]]) -> list[Row]:
    words = {"train": "best training accuracy", "test": "best test accuracy"}
    return [
        row(
            f"{words[part]}, {name}",
            values,
            published=None if sizes.reduced else _published(name)[part],
        )
        for part, networks in best.items()
        for name, values in networks.items()
    ]


def _published(name: str) -> dict[str, float]:
    soft = {
        name_of(*key): (published.SOFT_RELU_TRAIN, test)
        for key, test in published.SOFT_RELU_TEST.items()
    }
    known = {LINEAR: published.LINEAR_ACCURACY, RELU: published.RELU_ACCURACY} | soft
    return dict(zip(("train", "test"), known[name], strict=True))


def claims(sizes: Settings, test: dict[str, Numbers]) -> list[Claim]:
    """What the paper concludes, judged by best test accuracies."""
    low, high = (name_of(beta, sizes.epsilons[0]) for beta in (min(sizes.betas), max(sizes.betas)))
    others = [name for name in test if name != LINEAR]
    return [
        _comparable(test, high),
        judge(published.STEEPER_IS_BETTER, test, [high], [low]),
        judge(published.LINEAR_IS_WORST, test, others, [LINEAR]),
    ]


def _comparable(test: dict[str, Numbers], soft: str) -> Claim:
    """Comparable: apart by no more than the spread of the differences, or two parts in a hundred."""
    gaps = [
        a - b
        for a, b in zip(test[soft], test[RELU], strict=True)
        if a is not None and b is not None
    ]
    away, spread = mean(gaps), deviation(gaps)
    evidence = f"{soft} less {RELU}, by seed: {percent(away)} ± {percent(spread)}"
    return Claim(published.SOFT_IS_COMPARABLE, abs(away) <= max(spread, 0.02), evidence)


FULL = Settings()
SMALL = Training(
    "cifar10",
    "deep_gated_adam",
    ("epochs = 12", "batch = 25", "optimiser.lr = 1e-3"),
    {"train": 800, "test": 500},
    {"scale": 0.125},
)
DIGITS = Training(
    "digits",
    "deep_gated_adam",
    ("epochs = 1", "batch = 50"),
    {"train": 100},
    {"scale": 0.05, "size": 8},
)
EXPERIMENT = Experiment(
    name="deep_gated/table4",
    title="soft gates of several steepnesses, CIFAR-10",
    scales={
        "tiny": replace(
            FULL,
            reduced="digits, a twentieth of the width, 1 epoch, beta 1 and 16",
            betas=(1, 16),
            training=DIGITS,
        ),
        "cpu": replace(
            FULL,
            betas=(1, 16),
            training=SMALL,
            reduced="800 images, an eighth of the width, 12 epochs, rate 1e-3, batch 25, beta 1 and 16",
        ),
        "full": FULL,
    },
    measure=measure,
    seeds=3,  # the paper has 5
    needs=("CIFAR-10",),
)
