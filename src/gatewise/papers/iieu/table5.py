"""Table 5: what activations cost inside a ResNet-26.

Parameters, FLOPs, and throughput as a ratio to ReLU's.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.models import create_model
from gatewise.papers.common import (
    Claim,
    Experiment,
    Findings,
    Line,
    Panel,
    Row,
    Run,
    deviation,
    mean,
    row,
)
from gatewise.papers.iieu import published
from gatewise.papers.iieu.counting import GIGA, MILLION, count

UNITS = tuple(published.THROUGHPUT)
CLOSE = 0.1  # the paper calls 5 and 6 % close


@dataclass(frozen=True)
class Settings:
    """The paper does not say its batch."""

    reduced: str
    depth: int = 26
    size: int = 224
    batch: int = 4
    turns: int = 9  # of all networks, one after another
    scale: float = 1.0
    units: tuple[str, ...] = UNITS


def measure(run: Run) -> Findings:
    """Count each network once, and time all in turns, with the first weights and images of each seed."""
    sizes: Settings = run.settings
    counts = {
        unit: run.cell(f"count {unit}", lambda unit=unit: _count(sizes, unit))
        for unit in sizes.units
    }
    ratios = [
        run.cell(f"throughput, seed {seed}", lambda seed=seed: _ratios(sizes, seed))
        for seed in run.seeds
    ]
    speed = {unit: [each[unit] for each in ratios] for unit in sizes.units}
    return Findings(_panels(speed), _rows(sizes, counts, speed), _claims(counts, speed), NOTES)


NOTES = (
    "throughput: forward in eval mode on one thread of a CPU, by processor time; in every turn each network is run "
    "once, the median of the turns' ratios to ReLU is taken, and the mean of those over seeds; the paper has an A100",
    "FLOPs: products of convolutions and linear layers, as in Table 3; operations count every operator's elements, as "
    "ratios to ReLU's",
    "Meta-ACON stands in place of every ReLU; after the 3x3 convolutions alone, where its authors put it, it has "
    "the 16.1 million parameters that are printed",
    "Top-1 accuracies are of ImageNet, which could not be had: they are left out",
)


def _network(sizes: Settings, unit: str) -> nn.Module:
    return create_model("resnet", depth=sizes.depth, unit=unit, scale=sizes.scale).eval()


def _count(sizes: Settings, unit: str) -> dict[str, int]:
    return count(_network(sizes, unit), sizes.size)


def _ratios(sizes: Settings, seed: int) -> dict[str, float]:
    """Throughput over ReLU's, by unit: the median over turns."""
    with torch.random.fork_rng(devices=[]), _one_thread(), torch.no_grad():
        torch.manual_seed(seed)
        networks = {unit: _network(sizes, unit) for unit in sizes.units}
        x = torch.randn(sizes.batch, 3, sizes.size, sizes.size)
        turns = [
            {unit: _seconds(each, x) for unit, each in networks.items()}
            for _ in range(sizes.turns + 1)
        ]
    # The first turn warms up: buffers are allocated, and some units are compiled.
    return {unit: median(turn["relu"] / turn[unit] for turn in turns[1:]) for unit in networks}


def _seconds(network: nn.Module, x: Tensor) -> float:
    start = time.process_time()
    network(x)
    return time.process_time() - start


@contextmanager
def _one_thread() -> Iterator[None]:
    """Processor time is that of all threads together.

    With one, it is what a throughput is made of.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _rows(
    sizes: Settings, counts: Mapping[str, Mapping[str, int]], speed: Mapping[str, list[float]]
) -> list[Row]:
    base, rows = counts["relu"], []
    for unit in sizes.units:
        # The printed sizes are of the network as it is; the ratio does not depend on the machine
        # alone, but can be had.
        printed = sizes.scale == 1.0
        ratio = published.THROUGHPUT[unit] / published.THROUGHPUT["relu"]
        rows += [
            row(
                f"throughput over ReLU's, {unit}", speed[unit], published=ratio if printed else None
            ),
            row(
                f"parameters, millions, {unit}",
                [counts[unit]["parameters"] / MILLION],
                published=published.PARAMETERS[unit] if printed else None,
            ),
            row(
                f"FLOPs as products, G, {unit}",
                [counts[unit]["products"] / GIGA],
                published=published.FLOPS[unit] if printed else None,
            ),
            row(
                f"operations over ReLU's, {unit}", [counts[unit]["operations"] / base["operations"]]
            ),
        ]
    return rows


def _panels(speed: Mapping[str, list[float]]) -> list[Panel]:
    places = range(1, len(speed) + 1)
    ours = Line("ours", list(places), [mean(values) for values in speed.values()])
    ratios = [published.THROUGHPUT[unit] / published.THROUGHPUT["relu"] for unit in speed]
    return [
        Panel(
            ", ".join(speed),
            "activation",
            "throughput over ReLU's",
            [ours, Line("paper, A100", places, ratios)],
        )
    ]


def _claims(
    counts: Mapping[str, Mapping[str, int]], speed: Mapping[str, list[float]]
) -> list[Claim]:
    return [_slower(counts, speed), _close(speed)]


def _slower(counts: Mapping[str, Any], speed: Mapping[str, list[float]]) -> Claim:
    holds, texts = [], []
    for other in ("relu", "silu"):
        work = counts["iieu_b"]["operations"] / counts[other]["operations"] - 1
        ratio = mean(speed["iieu_b"]) / mean(speed[other])
        holds.append(1 / ratio - 1 > work)
        texts.append(
            f"against {other} {100 * work:.1f} % more operations, {100 * (1 - ratio):.1f} % less throughput"
        )
    return Claim(published.SLOWER_THAN_COUNTED, all(holds), "; ".join(texts))


def _close(speed: Mapping[str, list[float]]) -> Claim:
    others = [unit for unit in speed if unit not in ("relu", "silu", "iieu_b")]
    gaps = {unit: mean(speed["iieu_b"]) / mean(speed[unit]) - 1 for unit in others}
    texts = [
        f"{100 * gap:+.0f} % against {unit} (± {100 * deviation(speed[unit]):.0f})"
        for unit, gap in gaps.items()
    ]
    return Claim(
        published.CLOSE_TO_OTHERS, all(abs(gap) <= CLOSE for gap in gaps.values()), "; ".join(texts)
    )


EXPERIMENT = Experiment(
    name="iieu/table5",
    title="cost of activations in ResNet-26",
    scales={
        "tiny": Settings(
            "ResNet-14 at a quarter of the width, 32 pixels, 2 images, 2 turns, four activations",
            depth=14,
            size=32,
            batch=2,
            turns=2,
            scale=0.25,
            units=("relu", "silu", "smu", "iieu_b"),
        ),
        "cpu": Settings("one thread of a CPU instead of an A100, batches of 4"),
        "full": Settings(
            "one thread of a CPU instead of an A100, batches of 32", batch=32, turns=51
        ),
    },
    measure=measure,
    seeds=3,
)
