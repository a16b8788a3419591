"""Table 6: what CReLU and max-pooling leave of a layer's input (Algorithm 2).

Learned filters are compared with random ones.
"""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis import Reconstruction, random_ratio, reconstruct
from gatewise.stats import mean
from gatewise.train import RunConfig
from gatewise_papers.common import (
    CellValues,
    Claim,
    Experiment,
    Findings,
    Line,
    Panel,
    Row,
    all_comparable,
    all_lower,
    judged,
    line,
    row,
)
from gatewise_papers.crelu.experiments.shared import (
    CIFAR,
    CONVPOOL,
    NEEDS,
    RATIOS,
    TABLE1,
    TINY,
    CifarSettings,
    ErrorTable,
    fit_rows,
    levels_of,
    network_inputs,
    published,
)

FORM = "CReLU, half"
LAYERS = {"conv2": "pool1", "conv5": "pool2"}  # by layer the pooling after it
WINDOW = 5  # pixels: the receptive field of a region of 3x3 responses to 3x3 filters
KINDS = ("learned", "random")
PARTS = {"region": "one pooling region", "whole": "all regions at once"}
TOLERANCE = 1e-6
PRINTED_RATIO = 0.99  # of random filters, in the paper
HALF_DIGIT = 0.005  # half of the last printed digit
NOTES = (
    "The paper's D and K are those of one pooling region: 5x5 places of the layer's input. Its "
    "input has two channels for each filter, so that D = 2 x 48 (96) x 25, and "
    "sqrt((D - K) / D) = 0.990 as Table 6 has; with the D that it prints it would be 0.980. The "
    "closed form here is the exact mean for a random subspace of as many dimensions as responses "
    "are known: between K and 2 K, since a filter has one or both phases in a region.",
    "The filters of a layer and its input shrink together: K / D is that of the paper at any "
    "width.",
)

# By data set, for each seed: by layer, kind and part, ratio and closed form.
Cells = dict[str, list[Any]]


@dataclass(frozen=True)
class CreluTable6Settings(CifarSettings):
    """Sizes of the training, and how many test images are reconstructed."""

    images: int = 1000


def reconstruction_ratios(network: nn.Module, config: RunConfig, count: int) -> dict[str, Any]:
    """Return the ratios of the layers before the pools, with learned and with random filters.

    Args:
        network: ConvPool-CNN-C with CReLU, trained.
        config: of its run; its seed is that of the random filters and of the windows.
        count: test images that are reconstructed.
    """
    x = network_inputs(config, count)
    generator = torch.Generator().manual_seed(config.seed)
    return {layer: _measure_layer(network, layer, x, generator) for layer in LAYERS}


TABLE = ErrorTable(
    {FORM: CONVPOOL[FORM]},
    measures=lambda settings, form: {RATIOS: (reconstruction_ratios, settings.images)},
)


def findings(values: CellValues) -> Findings:
    """Compare the ratios of all data sets and layers."""
    cells: Cells = {}
    for data, seeds in TABLE.measurements(values, FORM, RATIOS).items():
        cells[data] = [{"errors": one["errors"], **one["measured"]} for one in seeds]
    panels = [_panel(data, cells) for data in cells]
    notes = (*NOTES, *values.settings.notes, *values.read.notes)
    return Findings(panels, _rows(cells), _claims(cells), notes)


@torch.no_grad()
def _measure_layer(
    network: nn.Module,
    layer: str,
    x: Tensor,
    generator: torch.Generator,
) -> dict[str, Any]:
    """Reconstruct the input of one layer with learned and with random filters."""
    before = features_before(network, layer, x)
    learned = network.get_submodule(f"{layer}.layer")
    pool = network.get_submodule(LAYERS[layer])
    assert isinstance(learned, nn.Conv2d)  # noqa: S101 - so of the network that is trained here
    convs = {"learned": learned, "random": random_filters(learned, generator)}
    windows = cut_out(before, generator)
    measured = {}
    for kind, conv in convs.items():
        whole = reconstruct(conv, before, pool=pool, tolerance=TOLERANCE)
        region = region_ratio(conv, windows)
        measured[kind] = {"region": _mean_ratio(region), "whole": _mean_ratio(whole)}
    return measured


def features_before(network: nn.Module, layer: str, x: Tensor) -> Tensor:
    """Return the input of ``layer`` in a chain of layers that reads ``x``."""
    for name, module in network.named_children():
        if name == layer:
            break
        x = module(x)
    return x


def random_filters(conv: nn.Conv2d, generator: torch.Generator) -> nn.Conv2d:
    """Return a convolution of the same shape, every entry standard normal, without bias."""
    drawn = copy.deepcopy(conv)
    drawn.weight.copy_(torch.randn(drawn.weight.shape, generator=generator))
    drawn.bias = None
    return drawn


def cut_out(x: Tensor, generator: torch.Generator) -> Tensor:
    """Return a random window of 5x5 places from each sample (n, C, h, w): (n, C, 5, 5)."""
    count, _, height, width = x.shape
    tops = torch.randint(height - WINDOW + 1, (count,), generator=generator).tolist()
    lefts = torch.randint(width - WINDOW + 1, (count,), generator=generator).tolist()
    windows = []
    for sample, top, left in zip(x, tops, lefts, strict=True):
        windows.append(sample[:, top : top + WINDOW, left : left + WINDOW])
    return torch.stack(windows)


def region_ratio(conv: nn.Conv2d, windows: Tensor) -> Reconstruction:
    """Reconstruct each window from the one region of 3x3 responses within it.

    Args:
        conv: with filters of 3x3.
        windows: (n, C, 5, 5).
    """
    inner = nn.Conv2d(conv.in_channels, conv.out_channels, (3, 3), bias=conv.bias is not None)
    inner.load_state_dict(conv.state_dict())
    return reconstruct(inner, windows, pool=nn.MaxPool2d(3), tolerance=TOLERANCE)


def _mean_ratio(result: Reconstruction) -> dict[str, float]:
    """Return the mean ratio and closed form; inputs that are all zero are left out."""
    nonzero = result.x.flatten(1).any(1)
    expected = []
    for equations in result.equations[nonzero]:
        known = min(int(equations), result.unknowns)
        expected.append(random_ratio(known, result.unknowns))
    return {"ratio": float(result.ratio[nonzero].mean()), "closed_form": mean(expected)}


def _values(
    cells: Cells,
    data: str,
    layer: str,
    kind: str,
    part: str,
    what: str = "ratio",
) -> list[float]:
    """Return one number by seed."""
    return [seed[layer][kind][part][what] for seed in cells[data]]


def _panel(data: str, cells: Cells) -> Panel:
    """Return the plot of ratios on one data set."""
    lines: list[Line] = []
    places = [int(layer[-1]) for layer in LAYERS]
    for part, words in PARTS.items():
        for kind in KINDS:
            by_layer = [_values(cells, data, layer, kind, part) for layer in LAYERS]
            by_seed = list(zip(*by_layer, strict=True))
            lines.append(line(f"{kind} filters, {words}", places, by_seed))
    return Panel(CIFAR[data], "convolution", "|x - x'| / |x|", lines)


def _rows(cells: Cells) -> list[Row]:
    """Return a row for every ratio, and the test errors."""
    rows: list[Row] = []
    for data, seeds in cells.items():
        for layer in LAYERS:
            for part in PARTS:
                for kind in KINDS:
                    rows.append(_ratio_row(cells, data, layer, part, kind))
        rows += fit_rows(f"{CIFAR[data]}, {FORM}", seeds)
    return rows


def _ratio_row(cells: Cells, data: str, layer: str, part: str, kind: str) -> Row:
    """Return the row of one ratio; random filters have a closed form."""
    printed = published.TABLE6.get((data, layer, kind)) if part == "region" else None
    expected = None
    if kind == "random":
        expected = mean(_values(cells, data, layer, kind, part, "closed_form"))
    what = f"{CIFAR[data]}, {layer}, {kind} filters, {PARTS[part]}: ratio"
    values = _values(cells, data, layer, kind, part)
    return row(what, values, published=printed, closed_form=expected)


def _claims(cells: Cells) -> list[Claim]:
    """Judge whether learned filters recover more, and random ones only 1 %."""
    pairs = {}
    random_ratios = {}
    for data in cells:
        for layer in LAYERS:
            random = _values(cells, data, layer, "random", "region")
            random_ratios[f"{CIFAR[data]} {layer}"] = (random, [PRINTED_RATIO] * len(random))
            for part, words in PARTS.items():
                pairs[f"{CIFAR[data]}, {layer}, {words}:"] = (
                    _values(cells, data, layer, "learned", part),
                    _values(cells, data, layer, "random", part),
                )
    little = all_comparable(random_ratios, HALF_DIGIT)
    return [
        all_lower(published.LEARNED_SPAN_MORE, pairs),
        judged(published.RANDOM_RECOVER_LITTLE, little, before=f"less {PRINTED_RATIO}"),
    ]


EXPERIMENT = Experiment(
    name="crelu/table6",
    title="what CReLU and max-pooling leave of a layer's input",
    scales={
        "tiny": CreluTable6Settings(
            "a 24th of the filters, trained on 60 images for 1 epoch with batch norm, "
            "CIFAR-100's superclasses, 4 test images",
            **TINY,
            superclasses=True,
            images=4,
            norm=True,
        ),
        "desk": CreluTable6Settings(
            "the networks of Table 1: CIFAR-10 alone, a third of the filters, 10,000 images, "
            "30 epochs; 500 test images",
            images=500,
            data=("cifar10",),
            networks_of=TABLE1,
        ),
        "full": CreluTable6Settings(),
    },
    cells=TABLE.cells,
    findings=findings,
    trainings=TABLE.trainings,
    seeds=8,
    needs=NEEDS,
    levels=tuple(level for data in CIFAR for level in levels_of(FORM, data, published.TABLE1)),
)
