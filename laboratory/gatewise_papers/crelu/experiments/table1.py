"""Table 1: ConvPool-CNN-C on CIFAR with ReLU, with CReLU, with twice and with half the filters."""

from dataclasses import dataclass

from gatewise_papers.common import (
    CellValues,
    Claim,
    Experiment,
    Findings,
    Numbers,
    all_lower,
    not_tested,
)
from gatewise_papers.crelu.experiments.figure4 import invariance_scores
from gatewise_papers.crelu.experiments.figure5 import first_pairs
from gatewise_papers.crelu.experiments.shared import (
    CIFAR,
    CONVPOOL,
    INVARIANCE,
    NEEDS,
    PAIRS,
    RATIOS,
    TINY,
    ErrorCells,
    ErrorSettings,
    ErrorTable,
    Measurements,
    error_panel,
    error_rows,
    errors_of,
    levels_of,
    published,
)
from gatewise_papers.crelu.experiments.table6 import reconstruction_ratios

ONLY_CIFAR_10 = (
    "needs CIFAR-100, which doubles the cost of the scale desk (see gatewise reproduce --cost)"
)


@dataclass(frozen=True)
class CreluTable1Settings(ErrorSettings):
    """Sizes, how errors are measured, and what Figures 4 and 5 and Table 6 read.

    They read measurements of these networks if there is no hold-out.
    """

    score_images: int = 0  # test images for invariance scores; 0: none
    draws: int = 0  # sets of random filters beside the trained ones; 0: no pairing
    ratio_images: int = 0  # test images that are reconstructed; 0: none


def measures(settings: CreluTable1Settings, form: str) -> Measurements:
    """Return what is measured on the trained networks of a form."""
    found = {}
    if form in ("ReLU", "CReLU"):
        found[INVARIANCE] = (invariance_scores, settings.score_images)
        found[PAIRS] = (first_pairs, settings.draws)
    if form == "CReLU, half":
        found[RATIOS] = (reconstruction_ratios, settings.ratio_images)
    return {name: measure for name, measure in found.items() if measure[1]}


TABLE = ErrorTable(CONVPOOL, measures=measures)


def findings(values: CellValues) -> Findings:
    """Judge the errors of every form on every data set."""
    settings: CreluTable1Settings = values.settings
    cells = TABLE.errors(values)
    panels = [error_panel(data, CONVPOOL, cells) for data in settings.data]
    rows = error_rows(settings, cells, published.TABLE1)
    return Findings(
        panels,
        rows,
        _claims(settings, cells),
        values.settings.notes,
        networks=values.networks if settings.score_images else {},
    )


def _claims(settings: ErrorSettings, cells: ErrorCells) -> list[Claim]:
    """Judge the claims about errors at equal filters and neurons, about gaps and capacity."""
    filters = {}
    neurons = {}
    gaps = {}
    for data in settings.data:
        title = CIFAR[data]
        filters[f"{title}:"] = _pair(cells, data, "CReLU", "ReLU")
        gaps[f"{title}:"] = (_gaps(cells, data, "CReLU"), _gaps(cells, data, "ReLU"))
        for ours, theirs in (("CReLU, half", "ReLU"), ("CReLU", "ReLU, double")):
            neurons[f"{title}, {ours} and {theirs}:"] = _pair(cells, data, ours, theirs)
    return [
        all_lower(published.BETTER_AT_EQUAL_FILTERS, filters),
        all_lower(published.BETTER_AT_EQUAL_NEURONS, neurons),
        all_lower(published.SMALLER_GAP, gaps),
        _capacity_claim(settings, cells),
    ]


def _capacity_claim(settings: ErrorSettings, cells: ErrorCells) -> Claim:
    """Judge whether more filters help on CIFAR-100."""
    if "cifar100" not in settings.data:
        return not_tested(published.CAPACITY_HELPS_CIFAR_100, ONLY_CIFAR_10)
    capacity = {}
    for ours, theirs in (("ReLU, double", "ReLU"), ("CReLU", "CReLU, half")):
        capacity[f"{ours} and {theirs}:"] = _pair(cells, "cifar100", ours, theirs)
    return all_lower(published.CAPACITY_HELPS_CIFAR_100, capacity)


def _pair(cells: ErrorCells, data: str, ours: str, theirs: str) -> tuple[Numbers, Numbers]:
    """Return the test errors of two forms."""
    return errors_of(cells, data, ours), errors_of(cells, data, theirs)


def _gaps(cells: ErrorCells, data: str, form: str) -> Numbers:
    """Return test minus train error by seed; None if the run diverged."""
    gaps: list[float | None] = []
    for seed in cells[data, form]:
        test = seed["test"]
        train = seed["train"]
        gaps.append(None if test is None or train is None else test - train)
    return gaps


EXPERIMENT = Experiment(
    name="crelu/table1",
    title="ConvPool-CNN-C with ReLU and CReLU on CIFAR",
    scales={
        "tiny": CreluTable1Settings(
            "a 24th of the filters, 60 images, 1 epoch, CIFAR-100's superclasses, "
            "20 images held out, 2 folds",
            **TINY,
            superclasses=True,
            hold_out=20,
            folds=2,
        ),
        "desk": CreluTable1Settings(
            "at one learning rate, the 0.01 of the network's authors; CIFAR-10 alone, a third of "
            "the filters, 10,000 images, 30 epochs with their steps in proportion or until ReLU's "
            "train error is 1 %, batches of 32, no dropout; one run on all images in place of the "
            "hold-out; no folds",
            data=("cifar10",),
            width=1 / 3,
            train=10_000,
            until=0.01,
            changes=(
                "epochs = 30",
                "batch = 32",
                "schedule.warmup = 1",
                "schedule.at = [17, 21, 26]",
                "channels_last = true",
                'precision = "auto"',
            ),
            hold_out=0,
            folds=0,
            dropout=False,
            score_images=1000,
            draws=30,
            ratio_images=500,
        ),
        "full": CreluTable1Settings(),
    },
    cells=TABLE.cells,
    findings=findings,
    trainings=TABLE.trainings,
    seeds=8,
    needs=NEEDS,
    levels=tuple(level for data in CIFAR for level in levels_of("ReLU", data, published.TABLE1)),
)
