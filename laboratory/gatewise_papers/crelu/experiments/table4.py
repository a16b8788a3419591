"""Table 4: top-1 and top-5 errors with CReLU after more and more convolutions."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from gatewise.studies import FunctionCell
from gatewise.train import Result, RunConfig, outputs
from gatewise_papers.common import (
    IN_ANY_ORDER,
    CellValues,
    Claim,
    Experiment,
    Findings,
    Level,
    Numbers,
    Panel,
    Row,
    Table,
    TableTraining,
    all_lower,
    column,
    data_of,
    line,
    network_name,
    row,
    training_cells,
)
from gatewise_papers.crelu.experiments.shared import published, trained_network

BASELINE = "baseline"
BEST = "CReLU (conv1-4)"
TOPS = (1, 5)
CENTRE = tuple(f"top-{top}" for top in TOPS)
PATCHES = {"": False, " of ten patches": True}  # the paper's columns, centre crop first
MOST_TOP_1 = 60.0  # per cent, of the baseline; largeCNN has 56.4 on CIFAR-100 in its own paper
SGD = TableTraining(
    "image_folder",
    "crelu_imagenet_sgd",
    ("augment.flip = true", "augment.crop = [224, 0]"),
    {"size": 256},
    evaluate_every=5,
)
ADAM = replace(SGD, recipe="crelu_imagenet_adam")
NOTES = (
    "images of 224 pixels, at which the printed 6 x 6 average pool covers the last maps; cut out "
    "of 256 pixels at random in training and from the centre in the test",
    "ten patches are the corners and the centre of 256 pixels and their mirror images; the scores "
    "that are averaged are the outputs of the network",
    "scale full reads the images of ImageNet from their files in every epoch",
)
STAND_IN = (
    "in place of All-CNN-B, whose strides leave nothing of 32 pixels, largeCNN of the MASO paper: "
    "eight convolutions, the first four without pooling; conv1-9 is conv1-8 there, and CReLU (all) "
    "has half the filters in all eight",
)


@dataclass(frozen=True)
class ImageNetNetwork:
    """One network of the table.

    Attributes:
        model: its name.
        options: of the network.
        halved: whether filters before CReLU are halved, for which the paper trains with Adam.
    """

    model: str
    options: Mapping[str, Any] = field(default_factory=dict)
    halved: bool = False


def _places(last: int) -> dict[str, Any]:
    """Return the options of CReLU after the first convolutions, with as many filters."""
    return {"unit": "crelu", "at": list(range(1, last + 1)), "filters": "same"}


SPARSE = {"unit": "crelu", "at": [1, 4, 7], "filters": "half"}
ALL_CNN = {
    BASELINE: ImageNetNetwork("all_cnn"),
    "CReLU (all)": ImageNetNetwork("all_cnn_crelu", halved=True),
    "CReLU (conv1,4,7)": ImageNetNetwork("all_cnn", {**SPARSE, "dropout": 0.25}, halved=True),
    BEST: ImageNetNetwork("all_cnn", _places(4)),
    "CReLU (conv1-7)": ImageNetNetwork("all_cnn", {**_places(7), "dropout": 0.25}),
    "CReLU (conv1-9)": ImageNetNetwork("all_cnn", {**_places(9), "dropout": 0.25}),
}
LARGE_CNN = {
    BASELINE: ImageNetNetwork("large_cnn"),
    "CReLU (all)": ImageNetNetwork("large_cnn", {"unit": "crelu", "filters": "half"}, halved=True),
    "CReLU (conv1,4,7)": ImageNetNetwork("large_cnn", SPARSE, halved=True),
    BEST: ImageNetNetwork("large_cnn", _places(4)),
    "CReLU (conv1-7)": ImageNetNetwork("large_cnn", _places(7)),
    "CReLU (conv1-9)": ImageNetNetwork("large_cnn", _places(8)),
}


@dataclass(frozen=True)
class CReLUTable4Settings:
    """The defaults are the paper's.

    Attributes:
        reduced: what differs from the paper.
        stand_in: whether largeCNN stands in place of All-CNN-B.
        training: of most networks.
        training_halved: of those with halved filters.
        patch: side of the ten patches in pixels; 0 for images that leave no room for them.
    """

    reduced: str = ""
    stand_in: bool = False
    training: TableTraining = SGD
    training_halved: TableTraining = ADAM
    patch: int = 224

    @property
    def columns(self) -> tuple[str, ...]:
        """The errors that are measured, in the order of the paper's columns."""
        ways = [words for words, ten in PATCHES.items() if self.patch or not ten]
        return tuple(f"top-{top}{words}" for words in ways for top in TOPS)


def networks(settings: CReLUTable4Settings, seeds: tuple[int, ...]) -> Table:
    """Return the configurations of every network of the table, one per seed."""
    table = {}
    for name, network in (LARGE_CNN if settings.stand_in else ALL_CNN).items():
        training = settings.training_halved if network.halved else settings.training
        options = dict(network.options)
        unit = options.pop("unit", None)
        table[name] = [training.config(network.model, seed, unit, **options) for seed in seeds]
    return table


def cells(settings: CReLUTable4Settings, seeds: tuple[int, ...]) -> list[FunctionCell]:
    """Return one training per network and seed."""
    measure = partial(top_errors, settings.patch)
    return training_cells(networks(settings, seeds), measure=measure)


def top_errors(
    patch: int, name: str, config: RunConfig, folder: Path, result: Result
) -> dict[str, float | None]:
    """Return the test errors of a trained network in per cent.

    Args:
        patch: side of the ten patches in pixels; 0 to leave them out.
        name: of the network.
        config: of the run.
        folder: of the run.
        result: of the run.
    """
    data = data_of(config)
    network = trained_network(config, folder)
    augment = config.recipe.augmentation().with_normalise(data.mean, data.std)
    errors: dict[str, float | None] = {}
    for words, ten in PATCHES.items():
        if ten and not patch:
            continue
        found = outputs(network, data.test, augment=augment, crops=patch if ten else 0)
        for top in TOPS:
            share = count_right(found, data.test.labels, top) / len(found)
            is_finite = bool(found.isfinite().all())
            errors[f"top-{top}{words}"] = 100 * (1 - share) if is_finite else None
    return errors


def count_right(outputs: Tensor, labels: Tensor, top: int) -> int:
    """Return how many labels are among the ``top`` largest outputs of their row.

    Args:
        outputs: (n, classes).
        labels: (n,).
        top: at most as many as there are classes.
    """
    chosen = outputs.topk(min(top, outputs.shape[1])).indices
    return int((chosen == labels.unsqueeze(1)).any(1).sum())


def findings(values: CellValues) -> Findings:
    """Compare the errors of all networks."""
    settings: CReLUTable4Settings = values.settings
    errors: dict[str, dict[str, Numbers]] = {}
    for name, configs in networks(settings, values.seeds).items():
        by_seed = [values.networks[network_name(name, config.seed)] for config in configs]
        errors[name] = {what: column(by_seed, what) for what in settings.columns}
    notes = STAND_IN if settings.stand_in else NOTES
    return Findings([_panel(errors)], _rows(settings, errors), _claims(errors), notes)


def _panel(errors: dict[str, dict[str, Numbers]]) -> Panel:
    """The plot of all errors of all networks."""
    places = list(range(1, len(errors) + 1))
    lines = []
    for top in next(iter(errors.values())):
        by_network = [numbers[top] for numbers in errors.values()]
        lines.append(line(f"{top} error", places, list(zip(*by_network, strict=True))))
    return Panel("; ".join(errors), "network, in this order", "error, %", lines)


def _rows(settings: CReLUTable4Settings, errors: dict[str, dict[str, Numbers]]) -> list[Row]:
    rows = []
    for name, tops in errors.items():
        for (top, values), printed in zip(tops.items(), published.TABLE4[name], strict=False):
            theirs = None if settings.reduced else printed
            rows.append(row(f"{name}: {top} error, %", values, published=theirs))
    return rows


def _claims(errors: dict[str, dict[str, Numbers]]) -> list[Claim]:
    best = {}
    better = {}
    for name, tops in errors.items():
        for top, values in tops.items():
            if name != BEST and top in CENTRE:  # the best of a centre crop
                best[f"{top}, {BEST} and {name}"] = (errors[BEST][top], values)
            if name != BASELINE:
                better[f"{top}, {name} and {BASELINE}"] = (values, errors[BASELINE][top])
    return [
        all_lower(published.FIRST_FOUR_BEST, best),
        all_lower(published.EVERY_CRELU_BETTER, better),
    ]


def _small(data: str, changes: tuple[str, ...], options: dict[str, Any], scale: float) -> Any:
    """Return the settings of a stand-in, whose networks are all trained in the same way."""
    training = TableTraining(data, "adam", changes, options, {"scale": scale, "norm": True}, 15)
    return {"stand_in": True, "training": training, "training_halved": training, "patch": 0}


EXPERIMENT = Experiment(
    name="crelu/table4",
    title="top-1 and top-5 errors with CReLU after more and more convolutions",
    scales={
        "tiny": CReLUTable4Settings(
            "largeCNN at a 24th of the width, 25 images of CIFAR-10, 1 epoch",
            **_small("cifar10", ("epochs = 1", "batch = 25"), {"train": 25, "test": 25}, 1 / 24),
        ),
        "desk": CReLUTable4Settings(
            "largeCNN on CIFAR-100 in the place of All-CNN-B on ImageNet; a 6th of the filters, "
            "15 epochs, batch norm",
            **_small(
                "cifar100",
                (
                    "epochs = 15",
                    "batch = 128",
                    "channels_last = true",
                    "optimiser.lr = 0.003",
                    "schedule.warmup = 1",
                    "augment.flip = true",
                ),
                IN_ANY_ORDER,
                1 / 6,
            ),
        ),
        "full": CReLUTable4Settings(),
    },
    cells=cells,
    findings=findings,
    trainings=networks,
    seeds=8,
    levels=(Level(f"{BASELINE}: top-1 error, %", published.TABLE4[BASELINE][0], MOST_TOP_1),),
    needs=("CIFAR-100 (scale full: ImageNet)",),
)
