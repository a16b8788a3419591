"""Figures 1 and 2: do filters of a network trained on ImageNet come in opposite pairs?"""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn

from gatewise.analysis import partners
from gatewise.stats import mean, rank_trend
from gatewise_papers.common import (
    Claim,
    Experiment,
    Findings,
    Panel,
    Picture,
    Run,
    column,
    counted,
    judged_by_p,
    row,
)
from gatewise_papers.crelu.experiments.shared import (
    FEWEST_DRAWS,
    FIRST,
    Layer,
    centred,
    convolutions,
    correlation_rows,
    depth_panel,
    histogram,
    in_words,
    mosaic,
    paired_layers,
    published,
)

# AlexNet's layers: filters, and numbers in each (its second, fourth and fifth layers are in two
# groups).
ALEXNET = {
    "conv1": (96, 363),
    "conv2": (256, 1200),
    "conv3": (384, 2304),
    "conv4": (384, 1728),
    "conv5": (256, 1728),
}
SLIGHT = 0.25  # what "slightly negative" is taken to mean
SURE = 0.001


@dataclass(frozen=True)
class CreluFigure2Settings:
    """Which layers are shown."""

    reduced: str
    shown: tuple[str, ...] = (
        FIRST,
        "fire2.expand3x3",
        "fire4.expand3x3",
        "fire6.expand3x3",
        "fire9.expand3x3",
    )


def measure(run: Run) -> Findings:
    """Measure the pairing of every convolution, and of random filters of AlexNet's sizes."""
    network, sha256 = convolutions()
    draws = len(run.seeds)
    layers = run.cell(f"SqueezeNet {sha256[:16]}", lambda: paired_layers(network, draws))
    alexnet = run.cell("random filters of AlexNet's sizes", lambda: random_means(draws))
    panels: list[Panel | Picture] = [_pairs_picture(network, layers[0])]
    for layer in layers:
        if layer["layer"] in run.settings.shown:
            panels.append(histogram(layer))
    panels.append(depth_panel(layers))
    rows = correlation_rows(layers)
    for name, values in alexnet.items():
        rows.append(row(f"mean correlation of random filters, AlexNet's {name}", values))
    notes = (
        "The filters are SqueezeNet v1.1's in place of AlexNet's, trained on ImageNet too, with "
        f"ReLU (sha256 of the file {sha256}); random filters of AlexNet's sizes need no weights.",
        "Figure 1 in the first panel: each filter of the first convolution beside its partner, "
        "most opposite first.",
    )
    return Findings(panels, rows, _claims(layers, alexnet), notes)


def random_means(draws: int) -> dict[str, list[float]]:
    """Return mean correlations with the partner of unit Gaussian filters.

    Args:
        draws: sets of filters per layer.

    Returns:
        One mean per draw, by layer of AlexNet.
    """
    generator = torch.Generator().manual_seed(0)
    means: dict[str, list[float]] = {}
    for name, size in ALEXNET.items():
        means[name] = []
        for _ in range(max(draws, FEWEST_DRAWS)):
            _, correlation = partners(torch.randn(size, generator=generator))
            means[name].append(float(correlation.mean()))
    return means


def _pairs_picture(network: nn.ModuleDict, layer: Layer) -> Picture:
    """Show each filter of the first convolution beside its partner, most opposite first."""
    weight = network[FIRST].weight
    assert isinstance(weight, torch.Tensor)  # noqa: S101 - so of every convolution
    pairs = []
    for place in torch.tensor(layer["correlation"]).argsort().tolist():
        pairs += [weight[place], weight[layer["partner"][place]]]
    return mosaic("first filters, each with its partner", centred(torch.stack(pairs)), 16)


def _claims(layers: list[Layer], alexnet: dict[str, list[float]]) -> list[Claim]:
    """Judge the claims about opposite pairs in SqueezeNet and among random filters."""
    first = layers[0]
    chance = mean(first["random"])
    means = {name: mean(values) for name, values in alexnet.items()}
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
            f"AlexNet's sizes: {texts}; "
            f"SqueezeNet's first layer has filters of 27 numbers: {chance:.2f}",
            exact=False,
        ),
        _depth_claim(layers),
    ]


def _depth_claim(layers: list[Layer]) -> Claim:
    """Decide whether pairing lessens with depth.

    Only 3x3 layers are put in a row, because their sizes change slowly.
    """
    chain = []
    for layer in layers:
        if layer["layer"] == FIRST or layer["layer"].endswith("3x3"):
            chain.append(layer)
    means = column(chain, "mean")
    random = [mean(layer["random"]) for layer in chain]
    trend, p = rank_trend(means)
    rises = sum(after > before for before, after in pairwise(means))
    paired = sum(layer["p"] < SURE and layer["mean"] < mean(layer["random"]) for layer in layers)
    evidence = (
        f"3x3 layers in their order: {in_words(means)} (random filters: {in_words(random)}): "
        f"nearer at {rises} of {len(means) - 1} steps, "
        f"rank correlation with depth {trend:.2f} (p {p:.1g}); "
        f"{paired} of all {len(layers)} layers are below random filters (p < {SURE})"
    )
    return judged_by_p(published.PAIRING_LESSENS, trend > 0, p, SURE, evidence)


EXPERIMENT = Experiment(
    name="crelu/figure2",
    title="pairs of opposite filters in a network trained on ImageNet",
    scales={
        "tiny": CreluFigure2Settings(
            "SqueezeNet in the place of AlexNet; two of its layers shown", shown=(FIRST,)
        ),
        "desk": CreluFigure2Settings("SqueezeNet in the place of AlexNet"),
        "full": CreluFigure2Settings("SqueezeNet in the place of AlexNet"),
    },
    measure=measure,
    seeds=30,
    needs=("SqueezeNet's weights",),
)
