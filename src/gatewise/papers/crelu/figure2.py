"""Figures 1 and 2: do the filters of a network trained on ImageNet come in pairs of opposite phase?"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from gatewise.analysis import partners
from gatewise.papers.common import Claim, Experiment, Findings, Picture, Run, mean, row
from gatewise.papers.crelu.shared import (
    FEWEST_DRAWS,
    FIRST,
    Layer,
    by_depth,
    centred,
    convolutions,
    histogram,
    listed,
    looked_at,
    mosaic,
    published,
    rows,
)

# AlexNet's layers: filters, and numbers in each (its second, fourth and fifth layers are in two
# groups)
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
class Settings:
    """What is looked at."""

    reduced: str
    shown: tuple[str, ...] = (
        FIRST,
        "fire2.expand3x3",
        "fire4.expand3x3",
        "fire6.expand3x3",
        "fire9.expand3x3",
    )


def measure(run: Run) -> Findings:
    """Pairing of every convolution, and by chance in layers of AlexNet's sizes."""
    network, sha256 = convolutions()
    layers = run.cell(f"SqueezeNet {sha256[:16]}", lambda: looked_at(network, len(run.seeds)))
    alexnet = run.cell("random filters of AlexNet's sizes", lambda: random_means(len(run.seeds)))
    panels = [histogram(layer) for layer in layers if layer["layer"] in run.settings.shown]
    found = rows(layers) + [
        row(f"mean correlation of random filters, AlexNet's {name}", values)
        for name, values in alexnet.items()
    ]
    notes = (
        "AlexNet's weights are not to be had here: the filters are SqueezeNet v1.1's, trained on ImageNet too, with "
        f"ReLU (sha256 of the file {sha256}); the random filters of AlexNet's sizes need no weights.",
        "Figure 1 in the first panel: each filter of the first convolution beside its partner, most opposite first.",
    )
    return Findings(
        [_pairs(network, layers[0]), *panels, by_depth(layers)],
        found,
        _claims(layers, alexnet),
        notes,
    )


def random_means(draws: int) -> dict[str, list[float]]:
    """By layer of AlexNet the mean correlation with the partner of each draw of unit Gaussian filters."""
    generator = torch.Generator().manual_seed(0)

    def draw(size: tuple[int, int]) -> float:
        return float(partners(torch.randn(size, generator=generator))[1].mean())

    return {
        name: [draw(size) for _ in range(max(draws, FEWEST_DRAWS))]
        for name, size in ALEXNET.items()
    }


def _pairs(network: nn.ModuleDict, layer: Layer) -> Picture:
    weight = network[FIRST].weight
    assert isinstance(weight, torch.Tensor)  # noqa: S101 - so of every convolution
    order = torch.tensor(layer["correlation"]).argsort().tolist()
    both = [weight[place] for first in order for place in (first, layer["partner"][first])]
    return mosaic("first filters, each with its partner", centred(torch.stack(both)), 16)


def _claims(layers: list[Layer], alexnet: dict[str, list[float]]) -> list[Claim]:
    first, chance = layers[0], mean(layers[0]["random"])
    pairs = Claim(
        published.FIRST_LAYER_PAIRS,
        first["mean"] < chance and first["p"] < SURE,
        f"{first['mean']:.2f} against {chance:.2f} of random filters, p (Holm) {first['p']:.1g}",
    )
    slight = {name: mean(values) for name, values in alexnet.items()}
    random = Claim(
        published.RANDOM_NEAR_ZERO,
        all(-SLIGHT < each < 0 for each in slight.values()),
        f"AlexNet's sizes: {', '.join(f'{name} {each:.2f}' for name, each in slight.items())}; "
        f"SqueezeNet's first layer has filters of 27 numbers: {chance:.2f}",
    )
    return [pairs, random, _lessens(layers)]


def _lessens(layers: list[Layer]) -> Claim:
    """Layers of one kind have sizes that change slowly: only those are put in a row."""
    kind = [layer for layer in layers if layer["layer"] == FIRST or layer["layer"].endswith("3x3")]
    from scipy.stats import spearmanr

    means, random = [layer["mean"] for layer in kind], [mean(layer["random"]) for layer in kind]
    found: Any = spearmanr(range(len(means)), means)
    trend, p = float(found.statistic), float(found.pvalue)
    rises = sum(after > before for before, after in pairwise(means))
    paired = sum(layer["p"] < SURE and layer["mean"] < mean(layer["random"]) for layer in layers)
    evidence = (
        f"3x3 layers in their order: {listed(means)} (random filters: {listed(random)}): nearer at {rises} of "
        f"{len(means) - 1} steps, rank correlation with depth {trend:.2f} (p {p:.1g}); "
        f"{paired} of all {len(layers)} layers are below random filters (p < {SURE})"
    )
    return Claim(published.PAIRING_LESSENS, trend > 0 and p < SURE, evidence)


EXPERIMENT = Experiment(
    name="crelu/figure2",
    title="pairs of opposite filters in a network trained on ImageNet",
    scales={
        "tiny": Settings(
            "SqueezeNet in the place of AlexNet; two of its layers shown", shown=(FIRST,)
        ),
        "cpu": Settings("SqueezeNet in the place of AlexNet"),
        "full": Settings("SqueezeNet in the place of AlexNet"),
    },
    measure=measure,
    seeds=30,
    needs=("SqueezeNet's weights",),
)
