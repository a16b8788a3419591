"""Figure 4: invariance scores of the convolutions of ConvPool-CNN-C, with ReLU and with CReLU."""

from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from gatewise.analysis import invariance
from gatewise.train import RunConfig
from gatewise_papers.common import (
    CellValues,
    Claim,
    ClaimResult,
    Experiment,
    Findings,
    Judgement,
    Panel,
    Row,
    all_better,
    by_seed,
    column,
    finite_mean,
    judge_everywhere,
    judge_trend,
    judged,
    line,
    row,
)
from gatewise_papers.crelu.experiments.shared import (
    CIFAR,
    CONVPOOL,
    INVARIANCE,
    NEEDS,
    TABLE1,
    TINY,
    CifarSettings,
    ErrorTable,
    fit_rows,
    levels_of,
    network_inputs,
    published,
)

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


def invariance_scores(network: nn.Module, config: RunConfig, count: int) -> dict[str, list[float]]:
    """Return the mean invariance scores of the convolutions of ConvPool-CNN-C, by place.

    Args:
        network: trained.
        config: of its run.
        count: test images that are transformed.
    """
    images = network_inputs(config, count)
    batches = list(images.split(BATCH))
    by_place = {}
    for place in PLACES:
        scores = {}
        for layer in invariance(network, batches, location=place).layers:
            scores[layer.name.split(".")[0]] = layer.mean
        by_place[place] = [scores[f"conv{layer}"] for layer in LAYERS]
    return by_place


TABLE = ErrorTable(
    {form: CONVPOOL[form] for form in FORMS},
    measures=lambda settings, form: {INVARIANCE: (invariance_scores, settings.images)},
)


def findings(values: CellValues) -> Findings:
    """Compare the scores of both forms on every data set."""
    cells: Cells = {}
    for form in FORMS:
        for data, seeds in TABLE.measurements(values, form, INVARIANCE).items():
            cells[data, form] = [{"errors": one["errors"], **one["measured"]} for one in seeds]
    panels = [_panel(data, place, cells) for place in PLACES for data in values.settings.data]
    claims = [_higher_claim(cells), _pooling_claim(cells), _unevenly_claim(cells)]
    notes = (NOTE, *values.settings.notes, *values.read.notes)
    return Findings(panels, _rows(cells), claims, notes)


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
        rows += fit_rows(name, seeds)
    return rows


def _higher_claim(cells: Cells) -> Claim:
    """Judge that CReLU has the higher score at every layer."""
    pairs = {}
    for data in dict.fromkeys(data for data, _ in cells):
        for layer in LAYERS:
            relu = _values(cells, data, "ReLU", layer)
            pairs[f"{CIFAR[data]}, conv{layer}"] = (_values(cells, data, "CReLU", layer), relu)
    return judged(published.CRELU_MORE_INVARIANT, all_better(pairs))


def _pooling_claim(cells: Cells) -> Claim:
    """Judge that scores rise after pooling.

    Pooling stands between conv2 and conv3, and between conv5 and conv6. The paper compares conv6
    with conv4.
    """
    pairs = {}
    for data, form in cells:
        for before, after in ((2, 3), (4, 6)):
            low = _values(cells, data, form, before)
            high = _values(cells, data, form, after)
            pairs[f"{CIFAR[data]}, {form}, conv{before}-{after}"] = (high, low)
    return judged(published.POOLING_MORE_INVARIANT, all_better(pairs))


def _unevenly_claim(cells: Cells) -> Claim:
    """Judge that scores rise with depth in general, and that some layer is below an earlier one."""
    results = []
    texts = []
    for data, form in cells:
        levels = {layer: by_seed(_values(cells, data, form, layer)) for layer in LAYERS}
        results.append(_rises_unevenly(levels))
        scores = ", ".join(f"{_mean(cells, data, form, layer):.2f}" for layer in LAYERS)
        texts.append(f"{CIFAR[data]}, {form}: {scores}")
    return judged(published.RISES_UNEVENLY, judge_everywhere(results), before="; ".join(texts))


def _rises_unevenly(levels: dict[int, dict[int, float]]) -> ClaimResult:
    """Judge one network: its slope must be shown, and that a step falls."""
    slope = judge_trend(levels, monotone=False)
    even = judge_trend(levels)
    if slope.judgement is Judgement.SUPPORTED:
        opposite = {
            Judgement.CONTRADICTED: Judgement.SUPPORTED,
            Judgement.SUPPORTED: Judgement.CONTRADICTED,
        }
        return replace(slope, judgement=opposite.get(even.judgement, even.judgement))
    return slope


EXPERIMENT = Experiment(
    name="crelu/figure4",
    title="invariance scores with ReLU and CReLU",
    scales={
        "tiny": CreluFigure4Settings(
            "a 24th of the filters, trained on 60 images for 1 epoch, CIFAR-100's superclasses, "
            "20 test images",
            **TINY,
            superclasses=True,
            images=20,
        ),
        "desk": CreluFigure4Settings(
            "the networks of Table 1: CIFAR-10 alone, a third of the filters, 10,000 images, "
            "30 epochs; 1,000 test images",
            images=1000,
            data=("cifar10",),
            networks_of=TABLE1,
        ),
        "full": CreluFigure4Settings("no ImageNet"),
    },
    cells=TABLE.cells,
    findings=findings,
    trainings=TABLE.trainings,
    seeds=8,
    needs=NEEDS,
    levels=tuple(level for data in CIFAR for level in levels_of("ReLU", data, published.TABLE1)),
)
