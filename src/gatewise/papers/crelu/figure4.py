"""Figure 4: invariance scores of the convolutions of ConvPool-CNN-C, with ReLU and with CReLU."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from gatewise.analysis import invariance
from gatewise.papers.common import (
    Claim,
    Experiment,
    Findings,
    Panel,
    Row,
    Run,
    column,
    finite_mean,
    line,
    row,
)
from gatewise.papers.crelu.shared import (
    CIFAR,
    CONVPOOL,
    NEEDS,
    CifarSettings,
    configuration,
    network_inputs,
    published,
    trained,
)
from gatewise.stats import paired_difference

FORMS = ("ReLU", "CReLU")
LAYERS = tuple(range(1, 8))
PLACES = {"same": "at the same place", "moved": "at the place it moved to"}
BATCH = 100
NOTE = (
    "The paper looks for a filter's response at the same place of the transformed image "
    "(appendix C); the place that the transform moved it to is looked at as well, and judged by no "
    "claim."
)

# By data set and form, for each seed: by place, the mean scores of the layers.
Cells = dict[tuple[str, str], list[Any]]


@dataclass(frozen=True)
class CreluFigure4Settings(CifarSettings):
    """Sizes of the training, and how many test images are transformed."""

    images: int = 10_000  # the paper says 50,000 test images; there are 10,000


def measure(run: Run) -> Findings:
    """Measure the scores of both forms on both data sets."""
    cells: Cells = {}
    for data, title in CIFAR.items():
        for form in FORMS:
            cells[data, form] = []
            for seed in run.seeds:
                cell = run.cell(
                    f"{title}, {form}, seed {seed}",
                    lambda data=data, form=form, seed=seed: _scores(run, data, form, seed),
                )
                cells[data, form].append(cell)
    panels = []
    for place in PLACES:
        for data in CIFAR:
            panels.append(_panel(data, place, cells))
    claims = [_higher_claim(cells), _pooling_claim(cells), _unevenly_claim(cells)]
    return Findings(panels, _rows(cells), claims, (NOTE, *run.settings.notes))


def _scores(run: Run, data: str, form: str, seed: int) -> dict[str, Any]:
    """Train one network and return its scores and errors."""
    settings: CreluFigure4Settings = run.settings
    config = configuration(settings, CONVPOOL[form], data, seed)
    network, errors = trained(config, run.training(f"{data} {form} {seed}"))
    batches = list(network_inputs(config, settings.images).split(BATCH))
    scores: dict[str, Any] = {"errors": errors}
    for place in PLACES:
        scores[place] = _layer_scores(network, batches, place)
    return scores


def _layer_scores(network: nn.Module, batches: list[Tensor], place: str) -> list[float]:
    """Return the mean invariance score of every convolution."""
    scores = {}
    for layer in invariance(network, batches, location=place).layers:
        scores[layer.name.split(".")[0]] = layer.mean
    return [scores[f"conv{layer}"] for layer in LAYERS]


def _panel(data: str, place: str, cells: Cells) -> Panel:
    """Return the plot of scores by layer on one data set."""
    lines = [line(form, LAYERS, column(cells[data, form], place)) for form in FORMS]
    return Panel(f"{CIFAR[data]}, {PLACES[place]}", "convolution", "invariance score", lines)


def _values(cells: Cells, data: str, form: str, layer: int) -> list[float]:
    """Return the scores at the same place, one per seed."""
    return [seed["same"][layer - 1] for seed in cells[data, form]]


def _mean(cells: Cells, data: str, form: str, layer: int) -> float:
    """Return the mean score over seeds."""
    return finite_mean(_values(cells, data, form, layer))


def _rows(cells: Cells) -> list[Row]:
    """Return a row for every layer of every network, and its test error."""
    rows = []
    for (data, form), seeds in cells.items():
        name = f"{CIFAR[data]}, {form}"
        for layer in LAYERS:
            values = _values(cells, data, form, layer)
            rows.append(row(f"{name}, conv{layer}: invariance score", values))
        rows.append(row(f"{name}: test error, %", [seed["errors"]["test"] for seed in seeds]))
    return rows


def _higher_claim(cells: Cells) -> Claim:
    """Decide whether CReLU has the higher score at every layer."""
    holds = True
    texts = []
    for data, title in CIFAR.items():
        higher = []
        unclear = []
        for layer in LAYERS:
            relu = _values(cells, data, "ReLU", layer)
            gap = paired_difference(relu, _values(cells, data, "CReLU", layer))
            if gap.n and gap.difference < 0:
                higher.append(layer)
            if gap.n and gap.within_spread:
                unclear.append(layer)
        holds = holds and len(higher) == len(LAYERS)
        texts.append(
            f"{title}: higher at {len(higher)} of {len(LAYERS)} layers (conv {_listed(higher)}), "
            f"by less than the spread over seeds at {len(unclear)} (conv {_listed(unclear)})"
        )
    return Claim(published.CRELU_MORE_INVARIANT, holds, "; ".join(texts))


def _pooling_claim(cells: Cells) -> Claim:
    """Decide whether scores rise after pooling.

    Pooling stands between conv2 and conv3, and between conv5 and conv6. The paper compares conv6
    with conv4.
    """
    holds = True
    texts = []
    for data, form in cells:
        steps = []
        for before, after in ((2, 3), (4, 6)):
            low = _mean(cells, data, form, before)
            high = _mean(cells, data, form, after)
            holds = holds and high > low
            steps.append(f"conv{before}-{after} {low:.2f} to {high:.2f}")
        texts.append(f"{CIFAR[data]}, {form}: {', '.join(steps)}")
    return Claim(published.POOLING_MORE_INVARIANT, holds, "; ".join(texts))


def _unevenly_claim(cells: Cells) -> Claim:
    """Decide whether scores rise with depth, but not at every layer."""
    holds = True
    texts = []
    for data, form in cells:
        means = [_mean(cells, data, form, layer) for layer in LAYERS]
        holds = holds and means[-1] > means[0] and means != sorted(means)
        scores = ", ".join(f"{score:.2f}" for score in means)
        texts.append(f"{CIFAR[data]}, {form}: {scores}")
    return Claim(published.RISES_UNEVENLY, holds, "; ".join(texts))


def _listed(layers: list[int]) -> str:
    """Return numbers of layers in words; "-" for none."""
    return ", ".join(map(str, layers)) or "-"


EXPERIMENT = Experiment(
    name="crelu/figure4",
    title="invariance scores with ReLU and CReLU",
    scales={
        "tiny": CreluFigure4Settings(
            "a 24th of the filters, trained on 60 images for 1 epoch, CIFAR-100's superclasses, "
            "20 test images",
            width=1 / 24,
            train=60,
            test=50,
            superclasses=True,
            published=False,
            epochs=1,
            images=20,
        ),
        "cpu": CreluFigure4Settings(
            "an 8th of the filters, trained on 1,500 images for 5 epochs with batch norm, "
            "CIFAR-100's superclasses, 300 test images; no ImageNet",
            width=1 / 8,
            train=1500,
            test=1000,
            superclasses=True,
            published=False,
            epochs=5,
            images=300,
            norm=True,
        ),
        "full": CreluFigure4Settings("no ImageNet"),
    },
    measure=measure,
    seeds=3,
    needs=NEEDS,
)
