"""The correlations of filters with their partners as plain numbers and histograms, beside those of random filters."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from gatewise.analysis import pairing
from gatewise.papers.common import Line, Panel, Row, mean, row

EDGES = [edge / 20 for edge in range(-20, 9)]
FEWEST_DRAWS = 3  # that pairing takes

Layer = Mapping[str, Any]


def looked_at(model: nn.Module, draws: int) -> list[dict[str, Any]]:
    """For each convolution.

    Its filters' correlations with their partners, and by draw those of random filters.
    """
    found = pairing(model, draws=max(draws, FEWEST_DRAWS))
    return [
        {
            "layer": layer.name.replace("/", "."),
            "filters": len(layer.partner),
            "length": layer.weight[0].numel(),
            "mean": layer.mean,
            "density": densities(layer.correlation.tolist()),
            "p": p,
            "partner": layer.partner.tolist(),
            "correlation": layer.correlation.tolist(),
            "random": layer.chance.mean(1).tolist(),
            "random_density": densities(layer.chance.flatten().tolist()),
        }
        for layer, p in zip(found.layers, found.p_values, strict=True)
    ]


def densities(values: Sequence[float]) -> list[float]:
    """The histogram over ``EDGES``, with area 1 if all values are within."""
    counts = torch.histogram(
        torch.tensor(values, dtype=torch.float64), torch.tensor(EDGES, dtype=torch.float64)
    ).hist
    return (counts / (len(values) * (EDGES[1] - EDGES[0]))).tolist()


def histogram(layer: Layer) -> Panel:
    """The histograms of one layer's filters and of random ones."""
    centres = [(low + high) / 2 for low, high in pairwise(EDGES)]
    lines = [
        Line("random filters", centres, layer["random_density"]),
        Line("filters", centres, layer["density"]),
    ]
    title = f"{layer['layer']}: {layer['filters']} filters of {layer['length']}"
    return Panel(title, "correlation with the partner", "density", lines)


def by_depth(layers: Sequence[Layer], title: str = "all convolutions") -> Panel:
    """The mean correlations over the layers in their order."""
    places = list(range(1, len(layers) + 1))
    lines = [
        Line("random filters", places, [mean(layer["random"]) for layer in layers]),
        Line("filters", places, [layer["mean"] for layer in layers]),
    ]
    return Panel(title, "convolution", "mean correlation with the partner", lines)


def rows(layers: Sequence[Layer]) -> list[Row]:
    """Two for each layer: its filters', and that of random filters, a seed a draw."""
    return [
        each
        for layer in layers
        for each in (
            row(f"mean correlation, {layer['layer']}", [layer["mean"]]),
            row(f"mean correlation of random filters, {layer['layer']}", layer["random"]),
        )
    ]


def listed(values: Sequence[float]) -> str:
    """The values in a sentence."""
    return ", ".join(f"{value:.2f}" for value in values)
