"""Table 1: ConvPool-CNN-C on CIFAR with ReLU, with CReLU, with twice and with half the filters."""

from functools import partial

from gatewise.papers.common import Claim, Experiment, Findings, Numbers, Run, all_lower
from gatewise.papers.crelu.shared import (
    CIFAR,
    CONVPOOL,
    NEEDS,
    RATES,
    ErrorCells,
    ErrorSettings,
    Form,
    all_errors,
    error_panel,
    error_rows,
    error_trainings,
    errors_of,
    published,
)

# Parameters grow with the square of the widths, and CReLU doubles them.
WIDER = "ReLU, parameters of CReLU"
NARROWER = "CReLU, parameters of ReLU"
FORMS = CONVPOOL | {
    WIDER: Form("relu", {}, widths=2**0.5),
    NARROWER: Form("crelu", {"filters": "same"}, widths=2**-0.5),
}
BETTER_AT_EQUAL_PARAMETERS = (
    "with as many parameters, CReLU has lower test errors than ReLU (not in the paper)"
)


def measure(run: Run) -> Findings:
    """Measure the errors of every form on both data sets."""
    settings: ErrorSettings = run.settings
    cells, rates = all_errors(run, FORMS)
    panels = [error_panel(data, FORMS, cells) for data in CIFAR]
    rows = error_rows(settings, cells, published.TABLE1)
    return Findings(panels, rows, _claims(cells), (*settings.notes, *rates))


def _claims(cells: ErrorCells) -> list[Claim]:
    """Judge the claims about errors at equal filters, neurons and capacity."""
    filters = {}
    neurons = {}
    gaps = {}
    parameters = {}
    capacity = {}
    for data, title in CIFAR.items():
        filters[f"{title}:"] = _pair(cells, data, "CReLU", "ReLU")
        gaps[f"{title}:"] = (_gaps(cells, data, "CReLU"), _gaps(cells, data, "ReLU"))
        for ours, theirs in (("CReLU, half", "ReLU"), ("CReLU", "ReLU, double")):
            neurons[f"{title}, {ours} and {theirs}:"] = _pair(cells, data, ours, theirs)
        for ours, theirs in ((NARROWER, "ReLU"), ("CReLU", WIDER)):
            parameters[f"{title}, {ours} and {theirs}:"] = _pair(cells, data, ours, theirs)
    for ours, theirs in (("ReLU, double", "ReLU"), ("CReLU", "CReLU, half")):
        capacity[f"{ours} and {theirs}:"] = _pair(cells, "cifar100", ours, theirs)
    return [
        all_lower(published.BETTER_AT_EQUAL_FILTERS, filters),
        all_lower(published.BETTER_AT_EQUAL_NEURONS, neurons),
        all_lower(BETTER_AT_EQUAL_PARAMETERS, parameters),
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
            epochs=1,
            hold_out=20,
            folds=2,
        ),
        "desk": ErrorSettings(
            # A 6th of the filters takes over 15 core-hours for CIFAR-10 alone.
            "a 12th of the filters, 15 epochs, batch norm; "
            "one run on all images in place of the hold-out; no folds",
            width=1 / 12,
            epochs=15,
            batch=128,
            hold_out=0,
            folds=0,
            norm=True,
            rates=RATES,
        ),
        "full": ErrorSettings(),
    },
    measure=measure,
    trainings=partial(error_trainings, forms=FORMS),
    seeds=8,
    needs=NEEDS,
)
