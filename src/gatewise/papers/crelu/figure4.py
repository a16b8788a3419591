"""Figure 4: invariance scores of the convolutions of ConvPool-CNN-C, with ReLU and with CReLU."""

from dataclasses import dataclass, replace
from functools import partial
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
    all_better,
    by_seed,
    column,
    finite_mean,
    judged,
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
    trainings,
)
from gatewise.stats import ClaimResult, Judgement, judge_everywhere, judge_trend

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
    """Judge that CReLU has the higher score at every layer."""
    pairs = {}
    for data, title in CIFAR.items():
        for layer in LAYERS:
            relu = _values(cells, data, "ReLU", layer)
            pairs[f"{title}, conv{layer}"] = (_values(cells, data, "CReLU", layer), relu)
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
            epochs=1,
            images=20,
        ),
        "desk": CreluFigure4Settings(
            "a 6th of the filters, 15 epochs with batch norm, 300 test images; no ImageNet",
            width=1 / 6,
            epochs=15,
            batch=128,
            images=300,
            norm=True,
        ),
        "full": CreluFigure4Settings("no ImageNet"),
    },
    measure=measure,
    trainings=partial(trainings, forms={form: CONVPOOL[form] for form in FORMS}, data=CIFAR),
    seeds=8,
    needs=NEEDS,
)
