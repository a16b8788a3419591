"""Figure 5: ReLU and GaLU networks on MNIST, with its labels, random labels and random pixels."""

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from gatewise.studies import CellCall, FunctionCell
from gatewise_papers.common import (
    CellValues,
    Claim,
    Experiment,
    Findings,
    Level,
    Line,
    Numbers,
    Panel,
    Row,
    all_better,
    column,
    judge,
    judged,
    line,
    row,
)
from gatewise_papers.deep_gated.experiments.shared import (
    generator,
    images,
    orders,
    published,
    read_mnist,
)
from gatewise_papers.deep_gated.networks import DeepGatedNetwork
from gatewise_papers.deep_gated.stacked import StackedNetworks, accuracy_by_seed, train_stacked

GATES = {"ReLU": "relu", "GaLU": "galu"}
PUBLISHED = "labels as published"
KINDS = (PUBLISHED, "random labels", "random pixels")
CLASSES = 10
PIXELS = 784
FITTED = 0.95  # the training accuracy from which claims are judged; the paper's networks fit all
PARTS = ("train", "test", "loss")
EVALUATED = 5000  # training images on which the training accuracy is measured
NOTE = (
    "Adam with step size 3e-4 as for the paper's Table 4, cross-entropy; "
    "training accuracy is that on the first 5,000 images trained on"
)
NOT_CENTRED = (
    "pixels are from 0 to 1 and are not centred: three quarters of the squared length of a random "
    "image are then the mean that all of them share, and the networks have no biases. With 1/2 "
    "subtracted, the same ReLU network (seed 0) fits 82 % of the random pixels after six epochs; "
    "the paper does not say how it reads them"
)

Curves = dict[str, Any]  # "train", "test" and "loss", by seed
ByKind = dict[tuple[str, str], Curves]  # by kind of data and network


@dataclass(frozen=True)
class GatedFigure5Settings:
    """Sizes; the widths are the paper's, which does not say how it trains."""

    reduced: str = ""
    widths: tuple[int, ...] = (512, 512, 256, 256, 128, 64)  # and 10 outputs
    examples: int = 60_000
    epochs: int = 50
    batch: int = 128
    lr: float = 3e-4


def cells(settings: GatedFigure5Settings, seeds: tuple[int, ...]) -> list[FunctionCell]:
    """Return one cell for every kind of data, network and seed."""
    made = []
    for kind in KINDS:
        for name, gate in GATES.items():
            for seed in seeds:
                chosen = {"kind": kind, "gate": gate, "seed": seed, "sizes": asdict(settings)}
                made.append(FunctionCell(_cell_name(kind, name, seed), fit_cell, chosen))
    return made


def findings(values: CellValues) -> Findings:
    """Compare both networks on all three kinds of data."""
    curves: ByKind = {}
    for kind in KINDS:
        for name in GATES:
            by_seed = [values[_cell_name(kind, name, seed)] for seed in values.seeds]
            curves[kind, name] = {part: column(by_seed, part) for part in PARTS}
    panels = [_panel(f"training, {kind}", kind, "train", curves) for kind in KINDS]
    panels.append(_panel(f"test, {PUBLISHED}", PUBLISHED, "test", curves))
    return Findings(panels, _rows(curves), _claims(curves), [NOTE, NOT_CENTRED])


def _cell_name(kind: str, name: str, seed: int) -> str:
    return f"{name}, {kind}, seed {seed}"


def fit_cell(cell: CellCall) -> dict[str, list[float]]:
    """Train one network with one seed on one kind of data.

    Args:
        cell: its settings are ``kind``, ``gate``, ``seed`` and ``sizes``.

    Returns:
        The training and test accuracy from the start on, and the loss of each epoch. There are test
        accuracies only with the labels as published.
    """
    settings = GatedFigure5Settings(**cell.settings["sizes"])
    kind, seed = cell.settings["kind"], cell.settings["seed"]
    x, y = _data(kind, settings.examples, seed)
    test = images("test")
    test_x = test.images.flatten(1).float() / 255
    networks = StackedNetworks([_network(cell.settings["gate"], settings, seed)])
    curves: dict[str, list[float]] = {part: [] for part in PARTS}

    def evaluate(_: int) -> None:
        """Keep the accuracies after an epoch."""
        cell.stop.halt()
        curves["train"].append(_accuracy(networks, x[:EVALUATED], y[:EVALUATED]))
        if kind == PUBLISHED:  # else the test images have nothing to do with the training
            curves["test"].append(_accuracy(networks, test_x, test.labels))

    history = train_stacked(
        networks,
        x,
        y,
        orders=partial(orders, len(x), (seed,)),
        optimizer="adam",
        lr=settings.lr,
        epochs=settings.epochs,
        batch=settings.batch,
        loss=F.cross_entropy,
        watch=evaluate,
    )
    (curves["loss"],) = history.by_seed()
    return curves


def _network(gate: str, settings: GatedFigure5Settings, seed: int) -> DeepGatedNetwork:
    """Return a network with its initial weights."""
    depth = len(settings.widths) + 1
    stream = generator(seed, "network")
    return DeepGatedNetwork(
        PIXELS,
        settings.widths,
        depth,
        gate=gate,
        d_out=CLASSES,
        generator=stream,
    )


def _data(kind: str, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return images (n, 784) and labels (n,).

    Random labels differ by seed, random pixels do not.
    """
    split = images("train").first(count)
    x = split.images.flatten(1).float() / 255
    if kind == "random pixels":
        x = torch.rand(x.shape, generator=generator(0, "pixels"))
    if kind == "random labels":
        stream = generator(seed, "labels")
        return x, torch.randint(CLASSES, split.labels.shape, generator=stream)
    return x, split.labels


@torch.no_grad()
def _accuracy(networks: StackedNetworks, x: Tensor, y: Tensor) -> float:
    """Return the accuracy of the one network."""
    outputs = networks.outputs(x)
    (accuracy,) = accuracy_by_seed(outputs.argmax(-1) == y, outputs)
    return accuracy


def _panel(title: str, kind: str, which: str, curves: ByKind) -> Panel:
    """Return the plot of accuracies after each epoch."""
    lines: list[Line] = []
    for name in GATES:
        seeds = [seed[1:] for seed in curves[kind, name][which]]
        lines.append(line(name, range(1, len(seeds[0]) + 1), seeds))
    return Panel(title, "epochs", "accuracy", lines)


def _rows(curves: ByKind) -> list[Row]:
    """Return rows of final test and training accuracies."""
    printed = {"ReLU": published.MNIST_TEST_RELU, "GaLU": published.MNIST_TEST_GALU}
    rows = []
    for name in GATES:
        test = _last(curves[PUBLISHED, name], "test")
        rows.append(row(f"test accuracy, {name}", test, published=printed[name]))
    for (kind, name), cell in curves.items():
        rows.append(row(f"training accuracy, {kind}, {name}", _last(cell, "train")))
    return rows


def _last(curves: Curves, which: str) -> Numbers:
    """Return the last accuracy by seed."""
    return column(curves[which], -1)


def _claims(curves: ByKind) -> list[Claim]:
    """Judge which network generalises better and which trains faster."""
    tests = {name: _last(curves[PUBLISHED, name], "test") for name in GATES}
    first = {key: column(cell["train"], 1) for key, cell in curves.items()}
    pairs = {kind: (first[kind, "GaLU"], first[kind, "ReLU"]) for kind in KINDS}
    faster = all_better(pairs)
    words = "training accuracy after one epoch, GaLU less ReLU"
    return [
        judge(published.RELU_GENERALISES_BETTER, tests, ["ReLU"], ["GaLU"]),
        judged(published.GALU_TRAINS_FASTER, faster, before=words),
    ]


EXPERIMENT = Experiment(
    name="deep_gated/figure5",
    title="ReLU and GaLU on MNIST",
    scales={
        "tiny": GatedFigure5Settings(
            "widths 16, 12, 300 images, 2 epochs",
            widths=(16, 12),
            examples=300,
            epochs=2,
        ),
        "desk": GatedFigure5Settings("15 epochs", epochs=15),
        "full": GatedFigure5Settings(),
    },
    cells=cells,
    findings=findings,
    read_data=read_mnist,
    seeds=8,  # the paper does not say how many
    own_loop=True,
    levels=(
        Level(f"training accuracy, {PUBLISHED}, ReLU", 1.0, at_least=FITTED),
        Level("test accuracy, ReLU", published.MNIST_TEST_RELU),
        *(
            Level(
                f"training accuracy, {kind}, ReLU",
                1.0,
                at_least=FITTED,
                claims=(published.GALU_TRAINS_FASTER,),
            )
            for kind in KINDS[1:]
        ),
    ),
    needs=("MNIST",),
)
