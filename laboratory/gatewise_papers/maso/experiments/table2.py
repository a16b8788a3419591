"""Table 2: largeCNN with a penalty on filters that are not orthogonal, and with orthogonal ones."""

from dataclasses import dataclass, field, replace
from typing import Any

from gatewise.studies import FunctionCell
from gatewise.train import RunConfig
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
    curve_lines,
    judge,
    judged,
    not_tested,
    percent,
    row,
    table_curves,
    training_cells,
)
from gatewise_papers.maso.experiments import published

BASELINE = "baseline"
ORTHO = "ortho"
EXACT = "Gram-Schmidt and swish"
SWISH = "swish"  # the control of EXACT, which the paper does not have
PENALTY = "orthogonality.weight = 1.0"
FITTED = 0.99  # the training accuracy of the baseline from which claims are judged
NO_CONTROL = "the scale has no network with swish and without orthogonal filters"
LARGEST = "CIFAR-100"  # the data set on which the paper made filters exactly orthogonal
NOTES = (
    "SVHN is trained at scale full alone",
    "the penalty is sum over layers and pairs of filters of their squared product, times 1; "
    "the losses shown are without it",
    "weights start as He et al. have it, since the networks have no norms; the paper does not say",
    "exactly orthogonal are the layers with no more filters than inputs: at full width not the "
    "first, which has 96 filters of 27 numbers; their rate is the largest, for the paper names "
    "none",
    "judged by the accuracies of the last epoch, the same images at every rate",
)


def _as_printed(data: str, **options: Any) -> TableTraining:
    """Return the training of the paper, which gives neither batch nor epochs: 100 of each."""
    changes = ("epochs = 100", "batch = 100", 'schedule.name = "constant"')
    return TableTraining(data, "adam", changes, options, evaluate_every=100)


@dataclass(frozen=True)
class MasoTable2Settings:
    """The defaults are the paper's, where it says what it did.

    Attributes:
        reduced: what differs from the paper.
        rates: of Adam; the first is that of the networks with exactly orthogonal filters.
        exact: the data set on which filters are made exactly orthogonal.
        control: whether swish is also trained without orthogonal filters.
        until: the train error of the baseline at which all networks of a data set end; 0: none.
        trainings: by data set.
    """

    reduced: str = ""
    until: float = 0.0
    rates: tuple[float, ...] = published.RATES
    exact: str = LARGEST
    control: bool = True
    trainings: dict[str, TableTraining] = field(
        default_factory=lambda: {
            "SVHN": _as_printed("svhn"),
            "CIFAR-10": _as_printed("cifar10"),
            "CIFAR-100": _as_printed("cifar100", **IN_ANY_ORDER),
        }
    )


def networks(settings: MasoTable2Settings, seeds: tuple[int, ...]) -> Table:
    """Return the configurations of every network of the table, one per seed."""
    table: dict[str, list[RunConfig]] = {}
    for data, training in settings.trainings.items():
        for rate in settings.rates:
            plain = (f"optimiser.lr = {rate}",)
            for kind, changes in ((BASELINE, plain), (ORTHO, (*plain, PENALTY))):
                table[name_of(data, kind, rate)] = [
                    training.config("large_cnn", seed, changes=changes) for seed in seeds
                ]
    changes = (f"optimiser.lr = {settings.rates[0]}",)
    largest = settings.trainings[settings.exact]
    for kind, orthogonal in ((EXACT, True), *([(SWISH, False)] if settings.control else [])):
        configs = []
        for seed in seeds:
            config = largest.config(
                "large_cnn", seed, "swish", changes=changes, orthogonal_filters=orthogonal
            )
            configs.append(config)
        table[name_of(settings.exact, kind, settings.rates[0])] = configs
    return table


def cells(settings: MasoTable2Settings, seeds: tuple[int, ...]) -> list[FunctionCell]:
    """Return one training per network and seed; of networks that are to fit, one per data set."""
    table = networks(settings, seeds)
    if not settings.until:
        return training_cells(table)
    groups = [[name for name in table if name.startswith(f"{d} ")] for d in settings.trainings]
    return training_cells(table, groups=groups, until=settings.until)


def findings(values: CellValues) -> Findings:
    """Compare accuracies with and without the penalty."""
    settings: MasoTable2Settings = values.settings
    curves = table_curves(networks(settings, values.seeds), values)
    test = at_end(curves, "test")
    rows = [_row(settings, name, accuracies) for name, accuracies in test.items()]
    for name, accuracies in at_end(curves, "train").items():
        rows.append(row(f"training accuracy, {name}", accuracies))
    for name, losses in at_end(curves, "loss").items():
        rows.append(row(f"training loss of the last epoch, {name}", losses))
    return Findings(_panels(settings, curves), rows, claims(settings, test), NOTES)


def name_of(data: str, kind: str, rate: float) -> str:
    """Return the name of a network in the results."""
    return f"{data} {kind}, rate {rate:g}"


def _exact(settings: MasoTable2Settings) -> str:
    """Return the name of the network with exactly orthogonal filters."""
    return name_of(settings.exact, EXACT, settings.rates[0])


def _row(settings: MasoTable2Settings, name: str, values: Numbers) -> Row:
    """Return the row of a test accuracy, with the paper's at full scale."""
    printed = {_exact(settings): published.GRAM_SCHMIDT}
    for data, kinds in published.ACCURACY.items():
        for kind, accuracies in kinds.items():
            for rate, (accuracy, _) in zip(published.RATES, accuracies, strict=True):
                printed[name_of(data, kind, rate)] = accuracy
    theirs = None
    if not settings.reduced and name in printed:
        theirs = printed[name] / 100
    return row(f"test accuracy, {name}", values, published=theirs)


def _panels(settings: MasoTable2Settings, curves: Curves) -> list[Panel]:
    """Return one plot of training losses per data set."""
    panels = []
    for data in settings.trainings:
        prefix = f"{data} "
        chosen = {}
        for name, by_seed in curves.items():
            if name.startswith(prefix):
                chosen[name.removeprefix(prefix)] = by_seed
        panels.append(Panel(data, "epochs", "training loss", curve_lines(chosen, "loss")))
    return panels


def claims(settings: MasoTable2Settings, test: dict[str, Numbers]) -> list[Claim]:
    """Judge what the paper concludes about each data set and about exact orthogonality.

    Args:
        settings: which networks there are.
        test: accuracies by network, one per seed.
    """
    judged = [_penalty_helps(settings, data, test) for data in settings.trainings]
    exact = _exact(settings)
    control = name_of(settings.exact, SWISH, settings.rates[0])
    begin = f"{settings.exact} "
    others = [n for n in test if n.startswith(begin) and n not in (exact, control)]
    best = judge(published.EXACT_IS_BEST, test, [exact], others)
    if settings.exact != LARGEST:
        best = replace(best, published=f"{best.published}; here on {settings.exact}")
    if settings.control:
        swish = judge(published.EXACT_BEATS_SWISH, test, [exact], [control])
    else:
        swish = not_tested(published.EXACT_BEATS_SWISH, NO_CONTROL)
    return [*judged, best, swish]


def _penalty_helps(settings: MasoTable2Settings, data: str, test: dict[str, Numbers]) -> Claim:
    """Decide whether the penalty helps at every learning rate."""
    pairs = {}
    for rate in settings.rates:
        ortho = test[name_of(data, ORTHO, rate)]
        pairs[f"rate {rate}"] = (ortho, test[name_of(data, BASELINE, rate)])
    helps = all_better(pairs)
    return judged(published.PENALTY_HELPS.format(data), helps, show=percent)


def _levels(data: str) -> tuple[Level, ...]:
    """Return how well the baseline must be trained on a data set."""
    name = name_of(data, BASELINE, published.RATES[0])
    claims = [published.PENALTY_HELPS.format(data)]
    if data != "SVHN":  # one of these is the data set of exactly orthogonal filters
        claims += [published.EXACT_IS_BEST, published.EXACT_BEATS_SWISH]
    printed = published.ACCURACY[data][BASELINE][0][0] / 100
    return (
        Level(f"training accuracy, {name}", at_least=FITTED, claims=tuple(claims)),
        Level(f"test accuracy, {name}", printed, claims=tuple(claims)),
    )


FULL = MasoTable2Settings()
LONG = (
    "epochs = 60",
    "batch = 100",
    'schedule.name = "constant"',
    "channels_last = true",
    'precision = "auto"',
)
THIRD = {"scale": 1 / 3}
DESK = {
    "CIFAR-10": TableTraining("cifar10", "adam", LONG, {"train": 10_000}, THIRD, 60),
    "CIFAR-100": TableTraining(
        "cifar100", "adam", LONG, {**IN_ANY_ORDER, "coarse": True, "train": 10_000}, THIRD, 60
    ),
}
ONE_STEP = ('schedule.name = "constant"', "epochs = 1", "batch = 25")
TINY = {
    "CIFAR-10": TableTraining(
        "cifar10", "adam", ONE_STEP, {"train": 25, "test": 25}, {"scale": 0.05}
    ),
    "CIFAR-100": TableTraining(
        "cifar100",
        "adam",
        ONE_STEP,
        {**IN_ANY_ORDER, "train": 25, "test": 25},
        {"scale": 0.05},
    ),
}
EXPERIMENT = Experiment(
    name="maso/table2",
    title="orthogonal filters in largeCNN",
    scales={
        "tiny": replace(
            FULL, reduced="25 images, a twentieth of the width, 1 epoch", trainings=TINY
        ),
        "desk": replace(
            FULL,
            rates=published.RATES[:1],
            exact="CIFAR-10",
            control=False,
            trainings=DESK,
            until=1 - FITTED,
            reduced="at one learning rate, the paper's 0.001; a third of the width, 10,000 images, "
            "60 epochs or until the baseline fits 99 %, no augmentation; of CIFAR-100 its 20 "
            "superclasses; exactly orthogonal filters on CIFAR-10",
        ),
        "full": FULL,
    },
    cells=cells,
    findings=findings,
    trainings=networks,
    seeds=8,  # the paper has 5
    levels=tuple(level for data in published.ACCURACY for level in _levels(data)),
    needs=("CIFAR-10", "CIFAR-100", "SVHN at scale full"),
)
