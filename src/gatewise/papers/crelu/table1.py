"""Table 1: ConvPool-CNN-C on CIFAR with ReLU, with CReLU, with twice and with half the filters."""

from functools import partial

from gatewise.papers.common import Claim, Experiment, Findings, Numbers, Run, all_lower
from gatewise.papers.crelu.shared import (
    CIFAR,
    CONVPOOL,
    NEEDS,
    ErrorCells,
    ErrorSettings,
    all_errors,
    error_panel,
    error_rows,
    error_trainings,
    errors_of,
    published,
)


def measure(run: Run) -> Findings:
    """Measure the errors of every form on both data sets."""
    settings: ErrorSettings = run.settings
    cells = all_errors(run, CONVPOOL)
    panels = [error_panel(data, CONVPOOL, cells) for data in CIFAR]
    rows = error_rows(settings, cells, published.TABLE1)
    return Findings(panels, rows, _claims(cells), settings.notes)


def _claims(cells: ErrorCells) -> list[Claim]:
    """Judge the claims about errors at equal filters, neurons and capacity."""
    filters = {}
    neurons = {}
    gaps = {}
    capacity = {}
    for data, title in CIFAR.items():
        filters[f"{title}:"] = _pair(cells, data, "CReLU", "ReLU")
        gaps[f"{title}:"] = (_gaps(cells, data, "CReLU"), _gaps(cells, data, "ReLU"))
        for ours, theirs in (("CReLU, half", "ReLU"), ("CReLU", "ReLU, double")):
            neurons[f"{title}, {ours} and {theirs}:"] = _pair(cells, data, ours, theirs)
    for ours, theirs in (("ReLU, double", "ReLU"), ("CReLU", "CReLU, half")):
        capacity[f"{ours} and {theirs}:"] = _pair(cells, "cifar100", ours, theirs)
    return [
        all_lower(published.BETTER_AT_EQUAL_FILTERS, filters),
        all_lower(published.BETTER_AT_EQUAL_NEURONS, neurons),
        all_lower(published.SMALLER_GAP, gaps),
        all_lower(published.CAPACITY_HELPS_CIFAR_100, capacity),
    ]


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
        "tiny": ErrorSettings(
            "a 24th of the filters, 60 images, 1 epoch, CIFAR-100's superclasses, "
            "20 images held out, 2 folds",
            width=1 / 24,
            train=60,
            test=50,
            superclasses=True,
            published=False,
            epochs=1,
            hold_out=20,
            folds=2,
        ),
        "desk": ErrorSettings(
            "a 6th of the filters, 15 epochs, batch norm; "
            "one run on all images in place of the hold-out; no folds",
            width=1 / 6,
            epochs=15,
            batch=128,
            hold_out=0,
            folds=0,
            norm=True,
        ),
        "full": ErrorSettings(),
    },
    measure=measure,
    trainings=partial(error_trainings, forms=CONVPOOL),
    seeds=8,
    needs=NEEDS,
)
