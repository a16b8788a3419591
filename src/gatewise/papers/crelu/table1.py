"""Table 1: ConvPool-CNN-C on CIFAR with ReLU, with CReLU, with twice and with half the filters."""

from gatewise.papers.common import Claim, Experiment, Findings, Run
from gatewise.papers.crelu.shared import (
    CIFAR,
    CONVPOOL,
    NEEDS,
    Cells,
    Settings,
    all_errors,
    all_lower,
    error_panel,
    error_rows,
    published,
)


def measure(run: Run) -> Findings:
    """Errors of every form on both data sets."""
    sizes: Settings = run.settings
    found = all_errors(run, CONVPOOL)
    panels = [error_panel(data, CONVPOOL, found) for data in CIFAR]
    return Findings(panels, error_rows(sizes, found, published.TABLE1), _claims(found), sizes.notes)


def _claims(found: Cells) -> list[Claim]:
    def of(data: str, form: str, name: str = "test") -> list[float | None]:
        return [seed[name] for seed in found[data, form]]

    def gaps(data: str, form: str) -> list[float | None]:
        both = zip(of(data, form), of(data, form, "train"), strict=True)
        return [None if test is None or train is None else test - train for test, train in both]

    neurons = {
        f"{CIFAR[data]}, {ours} and {theirs}:": (of(data, ours), of(data, theirs))
        for data in CIFAR
        for ours, theirs in (("CReLU, half", "ReLU"), ("CReLU", "ReLU, double"))
    }
    filters = {f"{CIFAR[data]}:": (of(data, "CReLU"), of(data, "ReLU")) for data in CIFAR}
    gap = {f"{CIFAR[data]}:": (gaps(data, "CReLU"), gaps(data, "ReLU")) for data in CIFAR}
    capacity = {
        f"{ours} and {theirs}:": (of("cifar100", ours), of("cifar100", theirs))
        for ours, theirs in (("ReLU, double", "ReLU"), ("CReLU", "CReLU, half"))
    }
    return [
        Claim(text, *all_lower(pairs))
        for text, pairs in (
            (published.BETTER_AT_EQUAL_FILTERS, filters),
            (published.BETTER_AT_EQUAL_NEURONS, neurons),
            (published.SMALLER_GAP, gap),
            (published.CAPACITY_HELPS_CIFAR_100, capacity),
        )
    ]


EXPERIMENT = Experiment(
    name="crelu/table1",
    title="ConvPool-CNN-C with ReLU and CReLU on CIFAR",
    scales={
        "tiny": Settings(
            "a 24th of the filters, 60 images, 1 epoch, CIFAR-100's superclasses, 20 images held out, 2 folds",
            width=1 / 24,
            train=60,
            test=50,
            superclasses=True,
            published=False,
            epochs=1,
            hold_out=20,
            folds=2,
        ),
        "cpu": Settings(
            "a 12th of the filters, 1,000 images, 10 epochs, 1,000 test images, batch norm; one run on all images in "
            "place of the hold-out; of CIFAR-100 its 20 superclasses; no folds",
            width=1 / 12,
            train=1000,
            test=1000,
            superclasses=True,
            published=False,
            epochs=10,
            hold_out=0,
            folds=0,
            norm=True,
        ),
        "full": Settings(),
    },
    measure=measure,
    seeds=3,
    needs=NEEDS,
)
