"""Figure 4: invariance scores of the convolutions of ConvPool-CNN-C, with ReLU and with CReLU."""

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from gatewise.analysis import invariance
from gatewise_papers.common import (
    Claim,
    ClaimResult,
    Experiment,
    Findings,
    Judgement,
    Panel,
    Row,
    Run,
    Table,
    TrainedNetworks,
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
    CifarSettings,
    cell_name,
    configuration,
    levels_of,
    network_inputs,
    published,
    trained,
    trainings,
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
    data: tuple[str, ...] = tuple(CIFAR)
    networks_of: str = ""  # the experiment whose trained networks are measured; none: its own


def measure(run: Run) -> Findings:
    """Measure the scores of both forms on every data set."""
    settings: CreluFigure4Settings = run.settings
    if settings.networks_of:
        networks = run.networks_of(settings.networks_of)
        cells = _read_scores(settings, run.seeds, networks)
        notes = networks.notes
    else:
        cells = _measured_scores(run)
        notes = settings.notes
    panels = []
    for place in PLACES:
        for data in settings.data:
            panels.append(_panel(data, place, cells))
    claims = [_higher_claim(cells), _pooling_claim(cells), _unevenly_claim(cells)]
    return Findings(panels, _rows(cells), claims, (NOTE, *notes))


def _read_scores(
    settings: CreluFigure4Settings, seeds: tuple[int, ...], networks: TrainedNetworks
) -> Cells:
    """Return the scores that another experiment measured on its networks."""
    cells: Cells = {}
    for data in settings.data:
        for form in FORMS:
            cells[data, form] = []
            for seed in seeds:
                name = cell_name(data, form, seed)
                scores = networks.measured(name, INVARIANCE)
                errors = networks.errors(name)
                cells[data, form].append({**scores, "errors": errors})
    return cells


def _measured_scores(run: Run) -> Cells:
    """Train the networks and measure their scores."""
    cells: Cells = {}
    for data in run.settings.data:
        for form in FORMS:
            cells[data, form] = []
            for seed in run.seeds:
                cell = run.cell(
                    cell_name(data, form, seed),
                    lambda data=data, form=form, seed=seed: _scores(run, data, form, seed),
                )
                cells[data, form].append(cell)
    return cells


def _scores(run: Run, data: str, form: str, seed: int) -> dict[str, Any]:
    """Train one network and return its scores and errors."""
    settings: CreluFigure4Settings = run.settings
    config = configuration(settings, CONVPOOL[form], data, seed)
    network, errors = trained(config, run.training(f"{data} {form} {seed}"))
    images = network_inputs(config, settings.images)
    return {"errors": errors, **invariance_scores(network, images)}


def invariance_scores(network: nn.Module, images: Tensor) -> dict[str, list[float]]:
    """Return the mean invariance scores of the convolutions of ConvPool-CNN-C, by place.

    Args:
        network: trained.
        images: as the network reads them.
    """
    batches = list(images.split(BATCH))
    by_place = {}
    for place in PLACES:
        scores = {}
        for layer in invariance(network, batches, location=place).layers:
            scores[layer.name.split(".")[0]] = layer.mean
        by_place[place] = [scores[f"conv{layer}"] for layer in LAYERS]
    return by_place


def _trainings(settings: CreluFigure4Settings, seeds: tuple[int, ...]) -> Table:
    """Return the training runs; none if the networks are those of another experiment."""
    if settings.networks_of:
        return {}
    return trainings(settings, seeds, {form: CONVPOOL[form] for form in FORMS}, settings.data)


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
        for part in ("train", "test"):
            values = [seed["errors"][part] for seed in seeds]
            rows.append(row(f"{name}: {part} error, %", values))
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
            "the networks of Table 1: CIFAR-10 alone, a third of the filters, 10,000 images, "
            "30 epochs; 1,000 test images",
            images=1000,
            data=("cifar10",),
            networks_of=TABLE1,
        ),
        "full": CreluFigure4Settings("no ImageNet"),
    },
    measure=measure,
    trainings=_trainings,
    seeds=8,
    needs=NEEDS,
    levels=tuple(level for data in CIFAR for level in levels_of("ReLU", data, published.TABLE1)),
)
