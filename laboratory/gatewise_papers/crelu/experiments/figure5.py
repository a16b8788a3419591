"""Figure 5: do filters with CReLU after the first four convolutions come in opposite pairs?"""

from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from gatewise.stats import mean
from gatewise.train import RunConfig
from gatewise_papers.common import (
    CellValues,
    Claim,
    Experiment,
    Findings,
    Judgement,
    Row,
    all_better,
    column,
    judged,
    not_tested,
    row,
)
from gatewise_papers.crelu.experiments.shared import (
    CIFAR,
    FOUR_LAYER_DATA,
    FOUR_LAYER_FORMS,
    FOUR_LAYER_MODEL,
    FOUR_LAYERS,
    INSTEAD,
    PAIRS,
    TABLE1,
    TINY,
    CifarSettings,
    ErrorTable,
    Layer,
    fit_rows,
    histogram,
    levels_of,
    paired_layers,
    published,
)

LAYERS = tuple(f"conv{place}" for place in FOUR_LAYERS)
SURE = 0.001
TOGETHER = "histograms are of all seeds' filters together."
INSTEAD_TABLE1 = (
    "ConvPool-CNN-C on CIFAR-10 with CReLU after every convolution, in the place of All-CNN-B on "
    "ImageNet with CReLU after the first four"
)
NO_PAIRS = "no layer with ReLU pairs after this training, so that nothing could vanish"

Cells = dict[str, list[Any]]  # by form: for each seed its first four layers, and errors


@dataclass(frozen=True)
class CreluFigure5Settings(CifarSettings):
    """Sizes of the training, and how many sets of random filters are drawn."""

    draws: int = 30
    data: tuple[str, ...] = (FOUR_LAYER_DATA,)


def first_pairs(network: nn.Module, config: RunConfig, draws: int) -> list[dict[str, Any]]:
    """Return the pairing of the first four convolutions, without the single correlations.

    Args:
        network: trained; its convolutions are named conv1, conv2 and so on.
        config: of its run.
        draws: sets of random filters.
    """
    first = nn.ModuleDict({layer: network.get_submodule(f"{layer}.layer") for layer in LAYERS})
    layers = paired_layers(first, draws)
    for layer in layers:
        del layer["partner"], layer["correlation"]
    return layers


TABLE = ErrorTable(
    FOUR_LAYER_FORMS,
    FOUR_LAYER_MODEL,
    measures=lambda settings, form: {PAIRS: (first_pairs, settings.draws)},
)


def findings(values: CellValues) -> Findings:
    """Compare the pairing after training with CReLU and with ReLU."""
    cells: Cells = {}
    for form in FOUR_LAYER_FORMS:
        measured = TABLE.measurements(values, form, PAIRS)[FOUR_LAYER_DATA]
        cells[form] = [{"errors": one["errors"], "layers": one["measured"]} for one in measured]
    panels = []
    for form, seeds in cells.items():
        for place in range(len(LAYERS)):
            panels.append(histogram(_pooled(form, seeds, place)))
    instead = INSTEAD_TABLE1 if values.settings.networks_of else INSTEAD
    notes = (f"{instead}; {TOGETHER}", *values.settings.notes, *values.read.notes)
    return Findings(panels, _rows(cells), [_aligned_claim(cells), _vanished_claim(cells)], notes)


def _pooled(form: str, seeds: list[Any], place: int) -> Layer:
    """Return one layer with the mean densities of all seeds."""
    layers = [seed["layers"][place] for seed in seeds]
    pooled = {**layers[0], "layer": f"{form}, {layers[0]['layer']}"}
    for name in ("density", "random_density"):
        columns = zip(*(layer[name] for layer in layers), strict=True)
        pooled[name] = [mean(column) for column in columns]
    return pooled


def _rows(cells: Cells) -> list[Row]:
    """Return rows of measured and random correlations for every layer."""
    rows = []
    for form, seeds in cells.items():
        for place, layer in enumerate(LAYERS):
            layers = [seed["layers"][place] for seed in seeds]
            means = column(layers, "mean")
            random = [mean(measured["random"]) for measured in layers]
            rows.append(row(f"{form}, {layer}: mean correlation", means))
            rows.append(row(f"{form}, {layer}: mean correlation of random filters", random))
        rows += fit_rows(f"{CIFAR[FOUR_LAYER_DATA]}, {form}", seeds)
    return rows


def _paired(seeds: list[Any]) -> int:
    """Count the layers of all seeds whose partners are surely more opposite than random ones."""
    count = 0
    for seed in seeds:
        for layer in seed["layers"]:
            count += layer["p"] < SURE and layer["mean"] < mean(layer["random"])
    return count


def _in_words(form: str, seeds: list[Any]) -> str:
    """Say how many layers pair, and how far the mean correlations are from random ones."""
    excesses = []
    for place, name in enumerate(LAYERS):
        layers = [seed["layers"][place] for seed in seeds]
        excess = mean([layer["mean"] - mean(layer["random"]) for layer in layers])
        excesses.append(f"{name} {excess:+.3f}")
    return (
        f"{form}: {_paired(seeds)} of {len(seeds) * len(LAYERS)} layers pair (p < {SURE}); "
        f"from random {', '.join(excesses)}"
    )


def _aligned_claim(cells: Cells) -> Claim:
    """Decide whether a layer with CReLU is more opposite than random filters, seed by seed.

    The claim cannot be supported: the paper states no margin for how near is aligned.
    """
    seeds = cells["CReLU"]
    evidence = _in_words("CReLU", seeds)
    if not _paired(cells["ReLU"]):
        return not_tested(published.CRELU_DOES_NOT_PAIR, NO_PAIRS, evidence)
    pairs = {}
    for place, name in enumerate(LAYERS):
        layers = [seed["layers"][place] for seed in seeds]
        random = [mean(layer["random"]) for layer in layers]
        pairs[f"{name}, less random filters"] = (column(layers, "mean"), random)
    found = all_better(pairs)
    if found.judgement is Judgement.SUPPORTED:
        found = replace(found, judgement=Judgement.UNDECIDED)
    return judged(published.CRELU_DOES_NOT_PAIR, found, before=evidence)


def _vanished_claim(cells: Cells) -> Claim:
    """Decide whether pairs vanish, which needs pairs in the network with ReLU."""
    evidence = "; ".join(_in_words(form, seeds) for form, seeds in cells.items())
    if not _paired(cells["ReLU"]):
        return not_tested(published.PAIRS_VANISH, NO_PAIRS, evidence)
    counts = {form: [float(_paired([seed])) for seed in seeds] for form, seeds in cells.items()}
    fewer = all_better({"layers that pair": (counts["ReLU"], counts["CReLU"])})
    return judged(published.PAIRS_VANISH, fewer, before=evidence)


EXPERIMENT = Experiment(
    name="crelu/figure5",
    title="no pairs of opposite filters with CReLU",
    scales={
        "tiny": CreluFigure5Settings(
            f"{INSTEAD}; a 24th of the filters, 60 images, 1 epoch",
            **TINY,
            draws=5,
        ),
        "desk": CreluFigure5Settings(
            f"the networks of Table 1: {INSTEAD_TABLE1}; a third of the filters, 10,000 "
            "images, 30 epochs",
            networks_of=TABLE1,
        ),
        "full": CreluFigure5Settings(INSTEAD),
    },
    cells=TABLE.cells,
    findings=findings,
    trainings=TABLE.trainings,
    seeds=8,
    needs=(CIFAR[FOUR_LAYER_DATA],),
    levels=levels_of("ReLU", FOUR_LAYER_DATA, published.TABLE1),
)
