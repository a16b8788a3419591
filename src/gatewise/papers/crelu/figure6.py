"""Figure 6: images reconstructed from the features of the first four convolutions with CReLU (Algorithm 1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.papers.common import (
    Claim,
    Experiment,
    Findings,
    Panel,
    Picture,
    Row,
    Run,
    data_of,
    line,
    mean,
    row,
)
from gatewise.papers.crelu.shared import (
    AT,
    CIFAR,
    DATA,
    FORMS,
    INSTEAD,
    MODEL,
    Sizes,
    configuration,
    first,
    folded,
    inverted,
    mosaic,
    published,
    shown_images,
    trained,
)

LAYERS = tuple(f"conv{place}" for place in AT)
KINDS = ("trained", "at the start")
MEASURES = {"ratio": "|x - x'| / |x|", "correlation": "correlation of x and x'"}
# the least correlation with the image; its brightness, which a projection takes away, is no matter
REASONABLE = 0.5
SHOWN = 6

Cells = Mapping[int, Any]  # by seed: nearness by kind and layer, errors, and pictures


@dataclass(frozen=True)
class Settings(Sizes):
    """Sizes of the training, and how many test images are reconstructed."""

    images: int = 100


def measure(run: Run) -> Findings:
    """Ratios after each layer, of the trained network and of the one that training began with."""
    found = {seed: run.cell(f"seed {seed}", lambda s=seed: _of_seed(run, s)) for seed in run.seeds}
    notes = (
        f"{INSTEAD}. Ratios are of images with the mean taken off and divided by the deviation, as the network reads "
        "them. Layers are undone one after another.",
        *run.settings.notes,
    )
    return Findings(
        [_picture(found[run.seeds[0]]), *(_panel(found, each) for each in MEASURES)],
        _rows(found),
        _claims(found),
        notes,
    )


def _of_seed(run: Run, seed: int) -> dict[str, Any]:
    sizes: Settings = run.settings
    config = configuration(sizes, FORMS["CReLU"], DATA, seed, MODEL)
    data, x = data_of(config), shown_images(config, sizes.images)
    network, errors = trained(config, run.training(f"seed {seed}"))
    start = folded(first(config).eval())
    back = {kind: undone(each, x) for kind, each in zip(KINDS, (network, start), strict=True)}
    near = {
        kind: {layer: nearness(x, image) for layer, image in each.items()}
        for kind, each in back.items()
    }
    few = torch.stack([x.double(), *back["trained"].values()], 1)[
        :SHOWN
    ]  # (shown, 1 + layers, 3, h, w)
    return {"near": near, "errors": errors, "pictures": _bytes(few, data.mean, data.std)}


def undone(network: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """By layer, the images that its features give back."""
    return {
        layer: inverted(network, list(LAYERS[: place + 1]), x) for place, layer in enumerate(LAYERS)
    }


def nearness(x: Tensor, image: Tensor) -> dict[str, float]:
    """The ratio |x - x'| / |x| and the correlation of ``x`` and ``image`` (n, ...), in the mean over images."""
    given, found = x.double().flatten(1), image.flatten(1)
    lost = (given - found).norm(dim=1) / given.norm(dim=1)
    return {
        "ratio": float(lost.mean()),
        "correlation": float(torch.cosine_similarity(given, found).mean()),
    }


def _bytes(normalised: Tensor, centre: tuple[float, ...], spread: tuple[float, ...]) -> list[Any]:
    """As pictures again, each colour from 0 to 255."""
    centres, spreads = (
        torch.tensor(each, dtype=torch.float64)[:, None, None] for each in (centre, spread)
    )
    return ((normalised * spreads + centres).clamp(0, 1) * 255).round().to(torch.uint8).tolist()


def _picture(cell: Any) -> Picture:
    pictures = torch.tensor(cell["pictures"]).double() / 255
    title = f"image, and from {LAYERS[0]} to {LAYERS[-1]}"
    return mosaic(title, pictures.flatten(0, 1), len(LAYERS) + 1)


def _of(found: Cells, kind: str, layer: str, measure: str) -> list[float]:
    return [cell["near"][kind][layer][measure] for cell in found.values()]


def _panel(found: Cells, measure: str) -> Panel:
    lines = []
    for kind in KINDS:
        by_layer = [_of(found, kind, layer, measure) for layer in LAYERS]
        lines.append(line(kind, AT, list(zip(*by_layer, strict=True))))
    return Panel(MEASURES[measure], "convolution", measure, lines)


def _rows(found: Cells) -> list[Row]:
    rows = [
        row(f"{layer}, {kind}: {measure}", _of(found, kind, layer, measure))
        for measure in MEASURES
        for layer in LAYERS
        for kind in KINDS
    ]
    return [*rows, row("test error, %", [cell["errors"]["test"] for cell in found.values()])]


def _claims(found: Cells) -> list[Claim]:
    means = {
        (kind, measure): [mean(_of(found, kind, layer, measure)) for layer in LAYERS]
        for kind in KINDS
        for measure in MEASURES
    }
    evidence = "; ".join(
        f"{measure}, {kind}: "
        + ", ".join(f"{layer} {each:.2f}" for layer, each in zip(LAYERS, values, strict=True))
        for (kind, measure), values in means.items()
    )
    holds = all(each >= REASONABLE for each in means["trained", "correlation"])
    return [
        Claim(
            published.REASONABLE_IMAGES,
            holds,
            f"a correlation of {REASONABLE} was asked for; {evidence}",
        )
    ]


EXPERIMENT = Experiment(
    name="crelu/figure6",
    title="images from the features of four convolutions with CReLU",
    scales={
        "tiny": Settings(
            f"{INSTEAD}; a 24th of the filters, 60 images, 1 epoch, 4 test images",
            width=1 / 24,
            train=60,
            test=50,
            epochs=1,
            images=4,
        ),
        "cpu": Settings(
            f"{INSTEAD}; a 6th of the filters, 1,500 images, 5 epochs, batch norm, 60 test images",
            width=1 / 6,
            train=1500,
            test=1000,
            epochs=5,
            images=60,
            norm=True,
        ),
        "full": Settings(INSTEAD),
    },
    measure=measure,
    seeds=3,
    needs=(CIFAR[DATA],),
)
