"""Figure 5: ReLU and GaLU networks on MNIST, with its labels, with random labels and with random pixels."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from gatewise.models import DeepGatedNetwork
from gatewise.papers.common import (
    Claim,
    Experiment,
    Findings,
    Line,
    Numbers,
    Panel,
    Row,
    Run,
    deviation,
    finite,
    line,
    mean,
    row,
)
from gatewise.papers.deep_gated.shared import ManySeeds, generator, images, published, shares, train

Cell = dict[str, Any]
GATES = {"ReLU": "relu", "GaLU": "galu"}
KINDS = ("labels as published", "random labels", "random pixels")
CLASSES = 10


@dataclass(frozen=True)
class Settings:
    """Sizes; the widths are the paper's, which does not say how it trains."""

    reduced: str = ""
    widths: tuple[int, ...] = (512, 512, 256, 256, 128, 64)  # and 10 outputs
    examples: int = 60_000
    epochs: int = 50
    batch: int = 128
    lr: float = 3e-4


def measure(run: Run) -> Findings:
    """Train both networks on all three kinds of data."""
    found = {
        (kind, name): run.cell(f"{name}, {kind}", lambda k=kind, n=name: fit(run, k, GATES[n]))
        for kind in KINDS
        for name in GATES
    }
    panels = [_panel(f"training, {kind}", kind, "train", found) for kind in KINDS]
    panels.append(_panel("test, labels as published", KINDS[0], "test", found))
    return Findings(panels, _rows(found), _claims(found), [NOTE])


NOTE = (
    "Adam with step size 3e-4 as for the paper's Table 4, cross-entropy; "
    "training accuracy is that on the first 5,000 images trained on"
)


def fit(run: Run, kind: str, gate: str) -> Cell:
    """By seed, the accuracy on what was trained on and on the test images after each epoch."""
    sizes: Settings = run.settings
    x, y = _data(kind, sizes.examples, run.seeds)
    test = images("test")
    test_x = test.images.flatten(1).float() / 255
    many = ManySeeds([_network(gate, sizes, seed) for seed in run.seeds])
    seen: dict[str, list[list[float]]] = {"train": [], "test": []}

    def look(_: int) -> None:
        seen["train"].append(_accuracies(many, x[:LOOKED_AT], y[:, :LOOKED_AT]))
        seen["test"].append(_accuracies(many, test_x, test.labels))

    training = train(
        many,
        x,
        y,
        seeds=run.seeds,
        optimiser="adam",
        lr=sizes.lr,
        epochs=sizes.epochs,
        batch=sizes.batch,
        loss=F.cross_entropy,
        watch=look,
    )
    return {
        name: [list(each) for each in zip(*values, strict=True)] for name, values in seen.items()
    } | {"loss": training.by_seed()}


def _network(gate: str, sizes: Settings, seed: int) -> DeepGatedNetwork:
    depth = len(sizes.widths) + 1
    return DeepGatedNetwork(
        784, sizes.widths, depth, gate=gate, d_out=CLASSES, generator=generator(seed, "network")
    )


LOOKED_AT = 5000  # training images whose accuracy is looked at


def _data(kind: str, count: int, seeds: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Images (n, 784) and every seed's labels (seeds, n).

    Random labels differ by seed, random pixels do not.
    """
    chosen = images("train").first(count)
    x, labels = chosen.images.flatten(1).float() / 255, chosen.labels
    if kind == "random pixels":
        x = torch.rand(x.shape, generator=generator(0, "pixels"))
    if kind == "random labels":
        drawn = [
            torch.randint(CLASSES, labels.shape, generator=generator(seed, "labels"))
            for seed in seeds
        ]
        return x, torch.stack(drawn)
    return x, labels.expand(len(seeds), -1)


@torch.no_grad()
def _accuracies(many: ManySeeds, x: Tensor, y: Tensor) -> list[float]:
    outputs = many.outputs(x)
    return shares(outputs.argmax(-1) == y, outputs)


def _panel(title: str, kind: str, which: str, found: dict[tuple[str, str], Cell]) -> Panel:
    lines: list[Line] = []
    for name in GATES:
        seeds = [seed[1:] for seed in found[kind, name][which]]
        lines.append(line(name, range(1, len(seeds[0]) + 1), seeds))
    return Panel(title, "epochs", "accuracy", lines)


def _rows(found: dict[tuple[str, str], Cell]) -> list[Row]:
    printed = {"ReLU": published.MNIST_TEST_RELU, "GaLU": published.MNIST_TEST_GALU}
    rows = [
        row(f"test accuracy, {name}", _last(found[KINDS[0], name], "test"), published=printed[name])
        for name in GATES
    ]
    return rows + [
        row(f"training accuracy, {kind}, {name}", _last(cell, "train"))
        for (kind, name), cell in found.items()
    ]


def _last(cell: Cell, which: str) -> Numbers:
    return [seed[-1] for seed in cell[which]]


def _claims(found: dict[tuple[str, str], Cell]) -> list[Claim]:
    tests = {name: finite(_last(found[KINDS[0], name], "test")) for name in GATES}
    said = ", ".join(
        f"{name} {100 * mean(each):.2f} ± {100 * deviation(each):.2f} %"
        for name, each in tests.items()
    )
    first = {key: mean(finite([seed[1] for seed in cell["train"]])) for key, cell in found.items()}
    faster = [first[kind, "GaLU"] > first[kind, "ReLU"] for kind in KINDS]
    speeds = "; ".join(
        f"{kind}: GaLU {first[kind, 'GaLU']:.3f}, ReLU {first[kind, 'ReLU']:.3f}" for kind in KINDS
    )
    return [
        Claim(published.RELU_GENERALISES_BETTER, mean(tests["ReLU"]) > mean(tests["GaLU"]), said),
        Claim(
            published.GALU_TRAINS_FASTER,
            all(faster),
            f"training accuracy after one epoch, {speeds}",
        ),
    ]


EXPERIMENT = Experiment(
    name="deep_gated/figure5",
    title="ReLU and GaLU on MNIST",
    scales={
        "tiny": Settings(
            "widths 16, 12, 300 images, 2 epochs", widths=(16, 12), examples=300, epochs=2
        ),
        "cpu": Settings("first 5,000 images, 5 epochs", examples=5_000, epochs=5),
        "full": Settings(),
    },
    measure=measure,
    needs=("MNIST",),
)
