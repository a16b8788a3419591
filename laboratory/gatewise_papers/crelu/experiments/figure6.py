"""Figure 6: images rebuilt from the features of four convolutions with CReLU (Algorithm 1)."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.stats import mean
from gatewise.train import RunConfig
from gatewise_papers.common import (
    CellValues,
    Claim,
    Experiment,
    Findings,
    Panel,
    Picture,
    Row,
    all_better,
    data_of,
    judged,
    line,
    row,
)
from gatewise_papers.crelu.experiments.shared import (
    CIFAR,
    FOUR_LAYER_DATA,
    FOUR_LAYER_FORMS,
    FOUR_LAYER_MODEL,
    FOUR_LAYERS,
    INSTEAD,
    TINY,
    CifarSettings,
    ErrorTable,
    fit_rows,
    folded,
    initial_network,
    inverted,
    levels_of,
    mosaic,
    network_inputs,
    published,
)

LAYERS = tuple(f"conv{place}" for place in FOUR_LAYERS)
KINDS = ("trained", "at the start")
MEASURES = {"ratio": "|x - x'| / |x|", "correlation": "correlation of x and x'"}
# The least correlation with the image. Its brightness, which a projection takes away, does not
# count.
REASONABLE = 0.5
SHOWN = 6

BUILT = "rebuilt"
Cells = dict[int, Any]  # by seed: nearness by kind and layer, errors, and pictures


@dataclass(frozen=True)
class CreluFigure6Settings(CifarSettings):
    """Sizes of the training, and how many test images are rebuilt."""

    images: int = 100
    data: tuple[str, ...] = (FOUR_LAYER_DATA,)


def rebuilt_images(network: nn.Module, config: RunConfig, count: int) -> dict[str, Any]:
    """Return how near images are that are rebuilt from every layer, and some of them.

    Args:
        network: trained.
        config: of its run; the network at its start is measured too.
        count: test images that are rebuilt.
    """
    x = network_inputs(config, count)
    networks = {"trained": network, "at the start": folded(initial_network(config).eval())}
    near: dict[str, dict[str, dict[str, float]]] = {}
    rebuilt: dict[str, list[Tensor]] = {}
    for kind, model in networks.items():
        rebuilt[kind] = _rebuild(model, x)
        near[kind] = {}
        for layer, image in zip(LAYERS, rebuilt[kind], strict=True):
            near[kind][layer] = nearness(x, image)
    # (shown, 1 + layers, 3, h, w)
    shown = torch.stack([x.double(), *rebuilt["trained"]], 1)[:SHOWN]
    data = data_of(config)
    return {"near": near, "pictures": _bytes(shown, data.mean, data.std)}


TABLE = ErrorTable(
    {"CReLU": FOUR_LAYER_FORMS["CReLU"]},
    FOUR_LAYER_MODEL,
    measures=lambda settings, form: {BUILT: (rebuilt_images, settings.images)},
)


def findings(values: CellValues) -> Findings:
    """Compare the images that are rebuilt after each layer with the originals."""
    cells: Cells = {}
    measured = TABLE.measurements(values, "CReLU", BUILT)[FOUR_LAYER_DATA]
    for seed, one in zip(values.seeds, measured, strict=True):
        cells[seed] = {"errors": one["errors"], **one["measured"]}
    panels = [_picture(cells[values.seeds[0]])]
    panels += [_panel(cells, measure) for measure in MEASURES]
    notes = (
        f"{INSTEAD}. Ratios are of images with the mean taken off and divided by the deviation, as "
        "the network reads them. Layers are undone one after another.",
        *values.settings.notes,
    )
    return Findings(panels, _rows(cells), [_claim(cells)], notes)


def _rebuild(network: nn.Module, x: Tensor) -> list[Tensor]:
    """Return the images rebuilt from the features of each layer."""
    return [inverted(network, list(LAYERS[: count + 1]), x) for count in range(len(LAYERS))]


def nearness(x: Tensor, image: Tensor) -> dict[str, float]:
    """Return the ratio |x - x'| / |x| and the correlation, in the mean over images.

    Args:
        x: images (n, ...).
        image: rebuilt images of the same shape.
    """
    original = x.double().flatten(1)
    rebuilt = image.flatten(1)
    ratio = (original - rebuilt).norm(dim=1) / original.norm(dim=1)
    correlation = torch.cosine_similarity(original, rebuilt)
    return {"ratio": float(ratio.mean()), "correlation": float(correlation.mean())}


def _bytes(images: Tensor, center: tuple[float, ...], spread: tuple[float, ...]) -> list[Any]:
    """Return normalised images as pictures again, each colour from 0 to 255."""
    centers = torch.tensor(center, dtype=torch.float64)[:, None, None]
    spreads = torch.tensor(spread, dtype=torch.float64)[:, None, None]
    return ((images * spreads + centers).clamp(0, 1) * 255).round().to(torch.uint8).tolist()


def _picture(cell: Any) -> Picture:
    """Show some images and what is rebuilt from each layer."""
    pictures = torch.tensor(cell["pictures"]).double() / 255
    title = f"image, and from {LAYERS[0]} to {LAYERS[-1]}"
    return mosaic(title, pictures.flatten(0, 1), len(LAYERS) + 1)


def _values(cells: Cells, kind: str, layer: str, measure: str) -> list[float]:
    """Return one measure by seed."""
    return [cell["near"][kind][layer][measure] for cell in cells.values()]


def _panel(cells: Cells, measure: str) -> Panel:
    """Return the plot of one measure by layer."""
    lines = []
    for kind in KINDS:
        by_layer = [_values(cells, kind, layer, measure) for layer in LAYERS]
        lines.append(line(kind, FOUR_LAYERS, list(zip(*by_layer, strict=True))))
    return Panel(MEASURES[measure], "convolution", measure, lines)


def _rows(cells: Cells) -> list[Row]:
    """Return a row for every measure, layer and network, and the test error."""
    rows = []
    for measure in MEASURES:
        for layer in LAYERS:
            for kind in KINDS:
                values = _values(cells, kind, layer, measure)
                rows.append(row(f"{layer}, {kind}: {measure}", values))
    return rows + fit_rows(f"{CIFAR[FOUR_LAYER_DATA]}, CReLU", cells.values())


def _claim(cells: Cells) -> Claim:
    """Decide whether images rebuilt by the trained network resemble the originals."""
    texts = []
    for kind in KINDS:
        for measure in MEASURES:
            means = []
            for layer in LAYERS:
                means.append(f"{layer} {mean(_values(cells, kind, layer, measure)):.2f}")
            texts.append(f"{measure}, {kind}: {', '.join(means)}")
    pairs = {}
    for layer in LAYERS:
        values = _values(cells, "trained", layer, "correlation")
        pairs[layer] = (values, [REASONABLE] * len(values))
    words = f"a correlation of {REASONABLE} was asked for; {'; '.join(texts)}; above it by"
    return judged(published.REASONABLE_IMAGES, all_better(pairs), before=words)


EXPERIMENT = Experiment(
    name="crelu/figure6",
    title="images from the features of four convolutions with CReLU",
    scales={
        "tiny": CreluFigure6Settings(
            f"{INSTEAD}; a 24th of the filters, 60 images, 1 epoch, 4 test images",
            **TINY,
            images=4,
        ),
        "desk": CreluFigure6Settings(
            f"{INSTEAD}; a 6th of the filters, 15 epochs, batch norm, 60 test images",
            width=1 / 6,
            epochs=15,
            batch=128,
            images=60,
            norm=True,
        ),
        "full": CreluFigure6Settings(INSTEAD),
    },
    cells=TABLE.cells,
    findings=findings,
    trainings=TABLE.trainings,
    seeds=8,
    needs=(CIFAR[FOUR_LAYER_DATA],),
    levels=levels_of("CReLU", FOUR_LAYER_DATA, published.TABLE1),
)
