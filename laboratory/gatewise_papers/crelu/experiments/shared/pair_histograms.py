"""Correlations of filters with their most opposite partner, beside those of random filters."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from gatewise.analysis import pairing
from gatewise.stats import mean
from gatewise_papers.common import Line, Panel, Row, column, row

EDGES = [edge / 20 for edge in range(-20, 9)]
FEWEST_DRAWS = 3  # that pairing takes

Layer = Mapping[str, Any]


def paired_layers(model: nn.Module, draws: int) -> list[dict[str, Any]]:
    """Measure each convolution's correlations with partners, and those of random filters.

    Args:
        model: with convolutions.
        draws: sets of random filters.
    """
    result = pairing(model, draws=max(draws, FEWEST_DRAWS))
    layers = []
    for layer, p in zip(result.layers, result.p_values, strict=True):
        correlation = layer.correlation.tolist()
        content = {
            "layer": layer.name.replace("/", "."),
            "filters": len(layer.partner),
            "length": layer.weight[0].numel(),
            "mean": layer.mean,
            "density": densities(correlation),
            "p": p,
            "partner": layer.partner.tolist(),
            "correlation": correlation,
            "random": layer.chance.mean(1).tolist(),
            "random_density": densities(layer.chance.flatten().tolist()),
        }
        layers.append(content)
    return layers


def densities(values: Sequence[float]) -> list[float]:
    """Return the histogram over ``EDGES``, with area 1 if all values are within."""
    edges = torch.tensor(EDGES, dtype=torch.float64)
    counts = torch.histogram(torch.tensor(values, dtype=torch.float64), edges).hist
    return (counts / (len(values) * (EDGES[1] - EDGES[0]))).tolist()


def histogram(layer: Layer) -> Panel:
    """Return the histograms of one layer's filters and of random ones."""
    centres = [(low + high) / 2 for low, high in pairwise(EDGES)]
    lines = [
        Line("random filters", centres, layer["random_density"]),
        Line("filters", centres, layer["density"]),
    ]
    title = f"{layer['layer']}: {layer['filters']} filters of {layer['length']}"
    return Panel(title, "correlation with the partner", "density", lines)


def depth_panel(layers: Sequence[Layer], title: str = "all convolutions") -> Panel:
    """Return the plot of the mean correlations over the layers in their order."""
    places = list(range(1, len(layers) + 1))
    lines = [
        Line("random filters", places, [mean(layer["random"]) for layer in layers]),
        Line("filters", places, column(layers, "mean")),
    ]
    return Panel(title, "convolution", "mean correlation with the partner", lines)


def correlation_rows(layers: Sequence[Layer]) -> list[Row]:
    """Return two rows for each layer: its filters, and random filters with a seed for each draw."""
    rows = []
    for layer in layers:
        name = layer["layer"]
        rows.append(row(f"mean correlation, {name}", [layer["mean"]]))
        rows.append(row(f"mean correlation of random filters, {name}", layer["random"]))
    return rows


def in_words(values: Sequence[float]) -> str:
    """Return the values in a sentence."""
    return ", ".join(f"{value:.2f}" for value in values)
