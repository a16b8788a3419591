"""Figures 1 and 2: do filters of AlexNet, trained on ImageNet, come in opposite pairs?"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from gatewise.analysis import partners
from gatewise.stats import mean
from gatewise.studies import CellCall, FunctionCell
from gatewise_papers.common import (
    CellValues,
    Claim,
    Experiment,
    Findings,
    Panel,
    Picture,
    column,
    counted,
    judged_by_p,
    row,
)
from gatewise_papers.crelu.experiments.shared import (
    FEWEST_DRAWS,
    Layer,
    alexnet,
    centred,
    correlation_rows,
    depth_panel,
    histogram,
    in_words,
    mosaic,
    paired_layers,
    published,
)

# The paper's AlexNet: filters, and numbers in each (its second, fourth and fifth layers are in two
# groups).
PAPERS_SIZES = {
    "conv1": (96, 363),
    "conv2": (256, 1200),
    "conv3": (384, 2304),
    "conv4": (384, 1728),
    "conv5": (256, 1728),
}
SLIGHT = 0.25  # what "slightly negative" is taken to mean
SURE = 0.001
TRAINED = "trained filters"
RANDOM = "random filters of the paper's sizes"
OTHER_WIDTHS = (
    "AlexNet with torchvision's widths, 64-192-384-256-256, where the paper's has "
    "96-256-384-384-256 and groups"
)


@dataclass(frozen=True)
class CreluFigure2Settings:
    """Which network is measured."""

    reduced: str = OTHER_WIDTHS


def cells(settings: CreluFigure2Settings, seeds: tuple[int, ...]) -> list[FunctionCell]:
    """Return the pairing of every convolution, and that of random filters."""
    _, sha256 = alexnet.convolutions()
    draws = len(seeds)
    return [
        FunctionCell(TRAINED, trained_pairs, {"sha256": sha256, "draws": draws}),
        FunctionCell(RANDOM, random_pairs, {"draws": draws}),
    ]


def trained_pairs(cell: CellCall) -> list[dict]:
    """Return the pairing of every convolution of AlexNet."""
    return paired_layers(alexnet.convolutions()[0], cell.settings["draws"])


def random_pairs(cell: CellCall) -> dict[str, list[float]]:
    """Return mean correlations of random filters of the paper's sizes."""
    return random_means(cell.settings["draws"])


def findings(values: CellValues) -> Findings:
    """Compare the pairing of trained filters with that of random ones, layer by layer."""
    network, sha256 = alexnet.convolutions()
    layers: list[Layer] = values[TRAINED]
    random: dict[str, list[float]] = values[RANDOM]
    panels: list[Panel | Picture] = [_pairs_picture(network, layers[0])]
    panels += [histogram(layer) for layer in layers]
    panels.append(depth_panel(layers))
    rows = correlation_rows(layers)
    for name, means in random.items():
        rows.append(row(f"mean correlation of random filters, the paper's {name}", means))
    notes = (
        f"{OTHER_WIDTHS} (sha256 of the file {sha256})",
        "Figure 1 in the first panel: each filter of the first convolution beside its partner, "
        "most opposite first.",
    )
    return Findings(panels, rows, _claims(layers, random), notes)


def random_means(draws: int) -> dict[str, list[float]]:
    """Return mean correlations with the partner of unit Gaussian filters.

    Args:
        draws: sets of filters per layer.

    Returns:
        One mean per draw, by layer of the paper's AlexNet.
    """
    generator = torch.Generator().manual_seed(0)
    means: dict[str, list[float]] = {}
    for name, size in PAPERS_SIZES.items():
        means[name] = []
        for _ in range(max(draws, FEWEST_DRAWS)):
            _, correlation = partners(torch.randn(size, generator=generator))
            means[name].append(float(correlation.mean()))
    return means


def _pairs_picture(network: nn.ModuleDict, layer: Layer) -> Picture:
    """Show each filter of the first convolution beside its partner, most opposite first."""
    weight = network["conv1"].weight
    assert isinstance(weight, torch.Tensor)  # noqa: S101 - so of every convolution
    pairs = []
    for place in torch.tensor(layer["correlation"]).argsort().tolist():
        pairs += [weight[place], weight[layer["partner"][place]]]
    return mosaic("first filters, each with its partner", centred(torch.stack(pairs)), 16)


def _claims(layers: list[Layer], random: dict[str, list[float]]) -> list[Claim]:
    """Judge the claims about opposite pairs in AlexNet and among random filters."""
    first = layers[0]
    chance = mean(first["random"])
    means = {name: mean(values) for name, values in random.items()}
    texts = ", ".join(f"{name} {value:.2f}" for name, value in means.items())
    return [
        judged_by_p(
            published.FIRST_LAYER_PAIRS,
            first["mean"] < chance,
            first["p"],
            SURE,
            f"{first['mean']:.2f} against {chance:.2f} of random filters, "
            f"p (Holm) {first['p']:.1g}",
        ),
        counted(
            published.RANDOM_NEAR_ZERO,
            all(-SLIGHT < value < 0 for value in means.values()),
            f"the paper's sizes: {texts}",
            exact=False,
        ),
        _depth_claim(layers),
    ]


def _depth_claim(layers: list[Layer]) -> Claim:
    """Decide whether each layer's centre is nearer to zero than that of the layer before.

    Filters of two layers are compared by Welch's test. Every step has to be shown, so that the
    least sure one decides and needs no correction.
    """
    from scipy import stats

    means = column(layers, "mean")
    random = [mean(layer["random"]) for layer in layers]
    least_sure = 0.0
    for before, after in pairwise(layers):
        test: Any = stats.ttest_ind(before["correlation"], after["correlation"], equal_var=False)
        least_sure = max(least_sure, float(test.pvalue))
    rises = sum(after > before for before, after in pairwise(means))
    steps = len(means) - 1
    evidence = (
        f"conv1 to conv{len(means)}: {in_words(means)} (random filters: {in_words(random)}): "
        f"nearer at {rises} of {steps} steps, p of the least sure step {least_sure:.1g}"
    )
    return judged_by_p(published.PAIRING_LESSENS, rises == steps, least_sure, SURE, evidence)


EXPERIMENT = Experiment(
    name="crelu/figure2",
    title="pairs of opposite filters in AlexNet, trained on ImageNet",
    scales={
        "tiny": CreluFigure2Settings(),
        "desk": CreluFigure2Settings(),
        "full": CreluFigure2Settings(),
    },
    cells=cells,
    findings=findings,
    seeds=30,
    needs=("AlexNet's weights",),
)
