"""Table 4, Experiment 7: soft-ReLU gates of several steepnesses, ReLU and a deep linear network."""

from dataclasses import dataclass, field, replace

from gatewise.stats import finite
from gatewise_papers.common import (
    CellValues,
    Claim,
    Curves,
    Experiment,
    Findings,
    Level,
    Numbers,
    Row,
    Table,
    TableTraining,
    all_comparable,
    cells_of,
    epoch_panels,
    judge,
    judged,
    percent,
    row,
    table_curves,
)
from gatewise_papers.deep_gated.experiments.shared import DESK_CNN, REDUCED, TINY_CNN, published

LINEAR = "deep linear network"
RELU = "ReLU"
FITTED = 0.61  # the test accuracy of ReLU from which claims are judged: the paper's less ten points
MARGIN = 0.02  # the paper calls 71 and 72 % comparable; twice their difference
WORDS = {"train": "best training accuracy", "test": "best test accuracy"}
NOTES = (
    "accuracies are those of the best epoch of each run, as in the paper",
    "the paper gives neither batch nor epochs: 32 and 100 at scale full",
    "weights start with equal size and random sign, as in the paper's theory; "
    "how those of Table 4 do, it does not say",
)


@dataclass(frozen=True)
class GatedTable4Settings:
    """The defaults are the paper's; it gives neither batch nor epochs."""

    reduced: str = ""
    betas: tuple[int, ...] = (1, 2, 4, 8, 12, 16, 20, 24)
    epsilons: tuple[float, ...] = (0.1, 0.4)
    training: TableTraining = field(
        default_factory=lambda: TableTraining("cifar10", "deep_gated_adam")
    )


def networks(settings: GatedTable4Settings, seeds: tuple[int, ...]) -> Table:
    """Return the configurations of every network of the table, one per seed."""
    gates: dict[str, dict] = {LINEAR: {"gate": "linear"}, RELU: {"gate": "relu"}}
    for eps in settings.epsilons:
        for beta in settings.betas:
            gates[name_of(beta, eps)] = {"gate": "soft_relu", "beta": float(beta), "eps": eps}
    table = {}
    for name, options in gates.items():
        table[name] = [
            settings.training.config("deep_gated_cnn", seed, **options) for seed in seeds
        ]
    return table


def findings(values: CellValues) -> Findings:
    """Compare the best accuracies of each run, as the paper does."""
    settings: GatedTable4Settings = values.settings
    curves = table_curves(networks(settings, values.seeds), values)
    best = {part: _best(curves, part) for part in ("train", "test")}
    return Findings(
        epoch_panels(curves, "train"), _rows(settings, best), claims(settings, best["test"]), NOTES
    )


def name_of(beta: float, eps: float) -> str:
    """Return the name of a soft-ReLU network in the results."""
    return f"soft-ReLU beta={beta:g}, eps={eps:g}"


def _best(curves: Curves, part: str) -> dict[str, Numbers]:
    """Return the best accuracy of each run."""
    best = {}
    for name, seeds in curves.items():
        best[name] = [max(finite(curve[part]), default=None) for curve in seeds]
    return best


def _rows(settings: GatedTable4Settings, best: dict[str, dict[str, Numbers]]) -> list[Row]:
    """Return rows of best training and test accuracies."""
    rows = []
    for part, networks in best.items():
        for name, values in networks.items():
            printed = None if settings.reduced else _published(name)[part]
            rows.append(row(f"{WORDS[part]}, {name}", values, published=printed))
    return rows


def _published(name: str) -> dict[str, float]:
    """Return the paper's training and test accuracy of a network."""
    known = {LINEAR: published.LINEAR_ACCURACY, RELU: published.RELU_ACCURACY}
    for (beta, eps), test in published.SOFT_RELU_TEST.items():
        known[name_of(beta, eps)] = (published.SOFT_RELU_TRAIN, test)
    train, test = known[name]
    return {"train": train, "test": test}


def claims(settings: GatedTable4Settings, test: dict[str, Numbers]) -> list[Claim]:
    """Judge what the paper concludes by the best test accuracies.

    Args:
        settings: which networks there are.
        test: best accuracies by network, one per seed.
    """
    low = name_of(min(settings.betas), settings.epsilons[0])
    high = name_of(max(settings.betas), settings.epsilons[0])
    others = [name for name in test if name != LINEAR]
    return [
        _comparable(test, high),
        judge(published.STEEPER_IS_BETTER, test, [high], [low]),
        judge(published.LINEAR_IS_WORST, test, others, [LINEAR]),
    ]


def _comparable(test: dict[str, Numbers], soft: str) -> Claim:
    """Judge that two networks differ by less than the margin."""
    result = all_comparable({f"{soft} less {RELU}": (test[soft], test[RELU])}, MARGIN)
    words = f"margin {percent(MARGIN)}"
    return judged(published.SOFT_IS_COMPARABLE, result, before=words, show=percent)


FULL = GatedTable4Settings()
EXPERIMENT = Experiment(
    name="deep_gated/table4",
    title="soft gates of several steepnesses, CIFAR-10",
    scales={
        "tiny": replace(
            FULL,
            reduced="digits, a twentieth of the width, 1 epoch, beta 1 and 16",
            betas=(1, 16),
            training=TINY_CNN,
        ),
        "desk": replace(
            FULL,
            betas=(1, 16),
            epsilons=(0.1,),
            training=DESK_CNN,
            reduced=f"{REDUCED}, beta 1 and 16 at eps 0.1",
        ),
        "full": FULL,
    },
    cells=cells_of(networks),
    findings=findings,
    trainings=networks,
    levels=(
        Level(f"{WORDS['train']}, {RELU}", published.RELU_ACCURACY[0]),
        Level(f"{WORDS['test']}, {RELU}", published.RELU_ACCURACY[1], at_least=FITTED),
    ),
    seeds=8,  # the paper has 5
    needs=("CIFAR-10",),
)
