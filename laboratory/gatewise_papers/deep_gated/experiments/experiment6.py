"""Experiment 6: what a convolutional network learns if only its gates are trained."""

from dataclasses import dataclass, field, replace

from gatewise_papers.common import (
    CellValues,
    Claim,
    Experiment,
    Findings,
    Level,
    Numbers,
    Table,
    TableTraining,
    all_better,
    all_comparable,
    at_end,
    cells_of,
    epoch_panels,
    judged,
    not_tested,
    percent,
    row,
    table_curves,
)
from gatewise_papers.deep_gated.experiments.shared import DESK_CNN, REDUCED, TINY_CNN, published

ONLY_GATES = "only the gates are trained"
TRAINED = {
    ONLY_GATES: "gates",
    "only the weights are trained": "weights",
    "both are trained": "both",
}
CHANCE = 0.1  # of ten classes
MARGIN = 0.02  # as for Table 4
SMALLER = "needs --scale full: the paper's 56 % are of its own width and training"
NOTES = (
    "gates are soft (beta = 4, eps = 0.1), because no gradient passes a hard gate; the paper has "
    "hard gates in Experiment 6 and soft gates in its introduction",
    "the paper trains the gates only; the two other networks start from the same weights and show "
    "what the gates leave out",
    "the paper gives neither batch nor epochs: 32 and 100 at scale full, as for Table 4",
    "claims are judged by the last epoch",
)


@dataclass(frozen=True)
class GatedExperiment6Settings:
    """The defaults are the paper's network; it gives neither batch nor epochs."""

    reduced: str = ""
    training: TableTraining = field(
        default_factory=lambda: TableTraining("cifar10", "deep_gated_adam")
    )


def networks(settings: GatedExperiment6Settings, seeds: tuple[int, ...]) -> Table:
    """Return the configurations of the three networks, one per seed."""
    table = {}
    for name, trains in TRAINED.items():
        table[name] = [
            settings.training.config("deep_gated_cnn", seed, gate="soft_galu", trains=trains)
            for seed in seeds
        ]
    return table


def findings(values: CellValues) -> Findings:
    """Judge the accuracies of the last epoch."""
    settings: GatedExperiment6Settings = values.settings
    curves = table_curves(networks(settings, values.seeds), values)
    rows = []
    for part, words in (("test", "test accuracy"), ("train", "training accuracy")):
        for name, accuracies in at_end(curves, part).items():
            is_printed = part == "test" and name == ONLY_GATES and not settings.reduced
            printed = published.ONLY_GATES_TEST if is_printed else None
            rows.append(row(f"{words}, {name}", accuracies, published=printed))
    return Findings(
        epoch_panels(curves, "train"),
        rows,
        claims(settings, at_end(curves, "test")[ONLY_GATES]),
        NOTES,
    )


def claims(settings: GatedExperiment6Settings, test: Numbers) -> list[Claim]:
    """Judge what the paper says about training only the gates.

    Args:
        settings: at reduced scales the printed accuracy is not compared.
        test: accuracies of the network whose gates alone are trained, one per seed.
    """
    chance = all_better({"test accuracy and chance": (test, [CHANCE] * len(test))})
    learned = judged(published.GATES_ALONE_LEARN, chance, show=percent)
    if settings.reduced:
        return [learned, not_tested(published.GATES_ALONE_REACH, SMALLER)]
    printed = [published.ONLY_GATES_TEST] * len(test)
    same = all_comparable({"test accuracy less the paper's": (test, printed)}, MARGIN)
    words = f"margin {percent(MARGIN)}"
    return [learned, judged(published.GATES_ALONE_REACH, same, before=words, show=percent)]


FULL = GatedExperiment6Settings()
EXPERIMENT = Experiment(
    name="deep_gated/experiment6",
    title="only the gates are trained, CIFAR-10",
    scales={
        "tiny": replace(
            FULL, reduced="digits, a twentieth of the width, 1 epoch", training=TINY_CNN
        ),
        "desk": replace(
            FULL,
            reduced=REDUCED,
            training=DESK_CNN,
        ),
        "full": FULL,
    },
    cells=cells_of(networks),
    findings=findings,
    trainings=networks,
    levels=(Level(f"test accuracy, {ONLY_GATES}", published.ONLY_GATES_TEST),),
    seeds=8,  # the paper does not say how many
    needs=("CIFAR-10",),
)
