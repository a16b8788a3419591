"""Table 6: what CReLU and max-pooling leave of a layer's input, with learned and with random filters (Algorithm 2)."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis import Reconstruction, random_ratio, reconstruct
from gatewise.papers.common import (
    Claim,
    Experiment,
    Findings,
    Line,
    Panel,
    Row,
    Run,
    line,
    mean,
    row,
)
from gatewise.papers.crelu.shared import (
    CIFAR,
    CONVPOOL,
    NEEDS,
    Sizes,
    all_lower,
    configuration,
    published,
    shown_images,
    trained,
)

LAYERS = {"conv2": "pool1", "conv5": "pool2"}  # by layer the pooling after it
WINDOW = 5  # pixels: what a region of 3x3 responses to 3x3 filters looks at
KINDS = ("learned", "random")
PARTS = {"region": "one pooling region", "whole": "all regions at once"}
TOLERANCE = 1e-6

Cells = Mapping[
    str, list[Any]
]  # by data set: for each seed, by layer, part and kind, ratio and closed form


@dataclass(frozen=True)
class Settings(Sizes):
    """Sizes of the training, and how many test images are reconstructed."""

    images: int = 1000


def measure(run: Run) -> Findings:
    """Ratios for both data sets and layers."""
    found = {
        data: [
            run.cell(f"{CIFAR[data]}, seed {seed}", lambda d=data, s=seed: _of_seed(run, d, s))
            for seed in run.seeds
        ]
        for data in CIFAR
    }
    notes = (
        "The paper's D and K are those of one pooling region: 5x5 places of the layer's input. Its input has two "
        "channels for each filter, so that D = 2 x 48 (96) x 25, and sqrt((D - K) / D) = 0.990 as Table 6 has; with "
        "the D that it prints it would be 0.980. The closed form here is the exact mean for a random subspace of as "
        "many dimensions as responses are known: between K and 2 K, since a filter has one or both phases in a region.",
        "The filters of a layer and its input shrink together: K / D is that of the paper at any width.",
        *run.settings.notes,
    )
    return Findings(
        [_panel(data, found) for data in CIFAR], _rows(run.settings, found), _claims(found), notes
    )


def _of_seed(run: Run, data: str, seed: int) -> dict[str, Any]:
    sizes: Settings = run.settings
    config = configuration(sizes, CONVPOOL["CReLU, half"], data, seed)
    network, errors = trained(config, run.training(f"{data} {seed}"))
    x = shown_images(config, sizes.images)
    generator = torch.Generator().manual_seed(seed)
    return {"errors": errors} | {layer: _of_layer(network, layer, x, generator) for layer in LAYERS}


@torch.no_grad()
def _of_layer(
    network: nn.Module, layer: str, x: Tensor, generator: torch.Generator
) -> dict[str, Any]:
    before = features_before(network, layer, x)
    learned = network.get_submodule(f"{layer}.layer")
    pool = network.get_submodule(LAYERS[layer])
    assert isinstance(learned, nn.Conv2d)  # noqa: S101 - so of the network that is trained here
    convs = {"learned": learned, "random": random_filters(learned, generator)}
    windows = cut_out(before, generator)
    return {
        kind: {
            "region": _plain(region_ratio(conv, windows)),
            "whole": _plain(reconstruct(conv, before, pool=pool, tolerance=TOLERANCE)),
        }
        for kind, conv in convs.items()
    }


def features_before(network: nn.Module, layer: str, x: Tensor) -> Tensor:
    """What ``layer`` of a chain of layers reads when the chain is given ``x``."""
    for name, module in network.named_children():
        if name == layer:
            break
        x = module(x)
    return x


def random_filters(conv: nn.Conv2d, generator: torch.Generator) -> nn.Conv2d:
    """A convolution of the same shape, every entry standard normal, without bias."""
    made = copy.deepcopy(conv)
    made.weight.copy_(torch.randn(made.weight.shape, generator=generator))
    made.bias = None
    return made


def cut_out(x: Tensor, generator: torch.Generator) -> Tensor:
    """A window of 5x5 places from each sample (n, C, h, w), at random: (n, C, 5, 5)."""
    rows, columns = (
        torch.randint(size - WINDOW + 1, (len(x),), generator=generator) for size in x.shape[2:]
    )
    places = zip(x, rows.tolist(), columns.tolist(), strict=True)
    return torch.stack(
        [one[:, top : top + WINDOW, left : left + WINDOW] for one, top, left in places]
    )


def region_ratio(conv: nn.Conv2d, windows: Tensor) -> Reconstruction:
    """The reconstruction of each window from the one region of 3x3 responses within it."""
    inner = nn.Conv2d(conv.in_channels, conv.out_channels, (3, 3), bias=conv.bias is not None)
    inner.load_state_dict(conv.state_dict())
    return reconstruct(inner, windows, pool=nn.MaxPool2d(3), tolerance=TOLERANCE)


def _plain(found: Reconstruction) -> dict[str, float]:
    """A window that is all zero has nothing to be reconstructed, and is left out."""
    some = found.given.flatten(1).any(1)
    by_chance = [
        random_ratio(min(int(kept), found.unknowns), found.unknowns)
        for kept in found.equations[some]
    ]
    return {"ratio": float(found.ratio[some].mean()), "closed_form": mean(by_chance)}


def _of(
    found: Cells, data: str, layer: str, kind: str, part: str, what: str = "ratio"
) -> list[float]:
    return [seed[layer][kind][part][what] for seed in found[data]]


def _panel(data: str, found: Cells) -> Panel:
    lines: list[Line] = []
    places = [int(layer[-1]) for layer in LAYERS]
    for part, words in PARTS.items():
        for kind in KINDS:
            by_layer = [_of(found, data, layer, kind, part) for layer in LAYERS]
            lines.append(
                line(f"{kind} filters, {words}", places, list(zip(*by_layer, strict=True)))
            )
    return Panel(CIFAR[data], "convolution", "|x - x'| / |x|", lines)


def _rows(sizes: Settings, found: Cells) -> list[Row]:
    rows: list[Row] = []
    for data, seeds in found.items():
        for layer in LAYERS:
            for part, words in PARTS.items():
                for kind in KINDS:
                    printed = (
                        published.TABLE6.get((data, layer, kind)) if part == "region" else None
                    )
                    chance = (
                        mean(_of(found, data, layer, kind, part, "closed_form"))
                        if kind == "random"
                        else None
                    )
                    what = f"{CIFAR[data]}, {layer}, {kind} filters, {words}: ratio"
                    values = _of(found, data, layer, kind, part)
                    rows.append(row(what, values, published=printed, closed_form=chance))
        rows.append(
            row(f"{CIFAR[data]}: test error, %", [seed["errors"]["test"] for seed in seeds])
        )
    return rows


def _claims(found: Cells) -> list[Claim]:
    pairs = {
        f"{CIFAR[data]}, {layer}, {words}:": (
            _of(found, data, layer, "learned", part),
            _of(found, data, layer, "random", part),
        )
        for data in found
        for layer in LAYERS
        for part, words in PARTS.items()
    }
    ratios = {
        f"{CIFAR[data]} {layer}": mean(_of(found, data, layer, "random", "region"))
        for data in found
        for layer in LAYERS
    }
    evidence = ", ".join(f"{name} {ratio:.3f}" for name, ratio in ratios.items())
    return [
        Claim(published.LEARNED_SPAN_MORE, *all_lower(pairs)),
        Claim(
            published.RANDOM_RECOVER_LITTLE,
            all(round(each, 2) == 0.99 for each in ratios.values()),
            evidence,
        ),
    ]


EXPERIMENT = Experiment(
    name="crelu/table6",
    title="what CReLU and max-pooling leave of a layer's input",
    scales={
        "tiny": Settings(
            "a 24th of the filters, trained on 60 images for 1 epoch with batch norm, CIFAR-100's superclasses, "
            "4 test images",
            width=1 / 24,
            train=60,
            test=50,
            superclasses=True,
            published=False,
            epochs=1,
            images=4,
            norm=True,
        ),
        "cpu": Settings(
            "a 6th of the filters, trained on 1,500 images for 6 epochs with batch norm, CIFAR-100's superclasses, "
            "200 test images",
            width=1 / 6,
            train=1500,
            test=1000,
            superclasses=True,
            published=False,
            epochs=6,
            images=200,
            norm=True,
        ),
        "full": Settings(),
    },
    measure=measure,
    seeds=3,
    needs=NEEDS,
)
