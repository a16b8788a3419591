"""Table 5: parameters, FLOPs and throughput of activations inside a ResNet-26."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from statistics import median

import torch
from torch import Tensor, nn

from gatewise.models import create_model
from gatewise.stats import mean, standard_deviation
from gatewise.studies import CellCall, FunctionCell
from gatewise.units import IIEUB
from gatewise_papers.common import (
    CellValues,
    Claim,
    Experiment,
    Findings,
    Line,
    Panel,
    Row,
    all_better,
    all_comparable,
    column,
    depends_on,
    judged,
    not_tested,
    row,
)
from gatewise_papers.iieu.experiments import published
from gatewise_papers.iieu.experiments.counting import GIGA, MILLION, count

UNITS = tuple(published.THROUGHPUT)
CLOSE = 0.1  # the paper calls 5 and 6 % close
Counts = Mapping[str, Mapping[str, int]]  # by unit
Speeds = Mapping[str, list[float]]  # throughput over ReLU's by unit, one per seed
PLAIN = "plain PyTorch"  # every operator by itself, as in the authors' code
OWN = "gatewise's kernels"
KERNELS = (PLAIN, OWN)
NOT_TIMED = (
    "the authors' code runs every operator of PyTorch by itself; only gatewise's own kernels have "
    "been timed"
)
NOTES = (
    "throughput: forward in eval mode on one thread of a CPU, by processor time; in every turn "
    "each network is run once, the median of the turns' ratios to ReLU is taken, and the mean of "
    "those over seeds; the paper has an A100",
    "each activation is timed in plain PyTorch and with gatewise's kernels, both over ReLU's time; "
    "claims are judged in plain PyTorch",
    "FLOPs: products of convolutions and linear layers, as in Table 3; "
    "operations count every operator's elements, as ratios to ReLU's",
    "Meta-ACON stands in place of every ReLU; after the 3x3 convolutions alone, where its authors "
    "put it, it has the 16.1 million parameters that are printed",
    "Top-1 accuracies are of ImageNet, which could not be had: they are left out",
)


@dataclass(frozen=True)
class IieuTable5Settings:
    """Sizes; the paper does not say its batch."""

    reduced: str
    depth: int = 26
    size: int = 224
    batch: int = 4
    turns: int = 9  # of all networks, one after another
    scale: float = 1.0
    units: tuple[str, ...] = UNITS
    kernels: tuple[str, ...] = KERNELS


def cells(settings: IieuTable5Settings, seeds: tuple[int, ...]) -> list[FunctionCell]:
    """Return a count of each network, and for each seed the times of all, taken in turns."""
    depends = depends_on(settings, ())
    found = []
    for unit in settings.units:
        found.append(FunctionCell(f"count {unit}", partial(_count, settings, unit), depends))
    for seed in seeds:
        name = f"throughput, seed {seed}"
        found.append(FunctionCell(name, partial(_ratios, settings, seed), depends))
    return found


def findings(values: CellValues) -> Findings:
    """Compare throughputs and counts with the printed ones."""
    settings: IieuTable5Settings = values.settings
    counts = {unit: values[f"count {unit}"] for unit in settings.units}
    ratios = [values[f"throughput, seed {seed}"] for seed in values.seeds]
    speeds: dict[str, Speeds] = {}
    for kernels in settings.kernels:
        by_seed = column(ratios, kernels)
        speeds[kernels] = {unit: column(by_seed, unit) for unit in settings.units}
    rows = _rows(settings, counts, speeds)
    panels = [_panel(kernels, speed) for kernels, speed in speeds.items()]
    return Findings(panels, rows, claims(counts, speeds), NOTES)


def _count(settings: IieuTable5Settings, unit: str, _: CellCall) -> dict[str, int]:
    """Count the network with one unit."""
    return count(_network(settings, unit), settings.size)


def _network(settings: IieuTable5Settings, unit: str) -> nn.Module:
    """Return a ResNet with this unit, in evaluation mode."""
    return create_model("resnet", depth=settings.depth, unit=unit, scale=settings.scale).eval()


def _ratios(settings: IieuTable5Settings, seed: int, _: CellCall) -> dict[str, dict[str, float]]:
    """Return throughput over ReLU's by kernels and unit: the median over turns."""
    with torch.random.fork_rng(devices=[]), _one_thread(), torch.no_grad():
        torch.manual_seed(seed)
        own = {unit: _network(settings, unit) for unit in settings.units}
        plain = {unit: in_plain_torch(deepcopy(net)) for unit, net in own.items()}
        networks = {PLAIN: plain, OWN: own}
        x = torch.randn(settings.batch, 3, settings.size, settings.size)
        turns = []
        for _turn in range(settings.turns + 1):
            turn = {}
            for kernels in settings.kernels:
                chosen = networks[kernels]
                turn[kernels] = {unit: _seconds(net, x) for unit, net in chosen.items()}
            turns.append(turn)
    # The first turn warms up: buffers are allocated, and some units are compiled.
    ratios: dict[str, dict[str, float]] = {}
    for kernels in settings.kernels:
        times = [turn[kernels] for turn in turns[1:]]
        ratios[kernels] = {
            unit: median(one["relu"] / one[unit] for one in times) for unit in settings.units
        }
    return ratios


class PlainIIEUB(IIEUB):
    """IIEU-B computed operator by operator: gatewise's C code takes only IIEU-B itself."""


def in_plain_torch(network: nn.Module) -> nn.Module:
    """Change every IIEU-B of a network so that PyTorch computes each of its operators."""
    for module in network.modules():
        if type(module) is IIEUB:
            module.__class__ = PlainIIEUB
    return network


def _seconds(network: nn.Module, x: Tensor) -> float:
    """Return the processor time of one forward pass."""
    start = time.process_time()
    network(x)
    return time.process_time() - start


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread: processor time adds up all threads, and a throughput needs wall time."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _rows(settings: IieuTable5Settings, counts: Counts, speeds: Mapping[str, Speeds]) -> list[Row]:
    """Return rows of throughput, parameters, products and operations."""
    base = counts["relu"]["operations"]
    rows = []
    for unit in settings.units:
        # The printed numbers are of the network at full width. The ratio of throughputs depends on
        # the machine too, but can be compared.
        printed: dict[str, float | None] = dict.fromkeys(("ratio", "parameters", "flops"))
        if settings.scale == 1.0:
            printed = {
                "ratio": published.THROUGHPUT[unit] / published.THROUGHPUT["relu"],
                "parameters": published.PARAMETERS[unit],
                "flops": published.FLOPS[unit],
            }
        parameters = counts[unit]["parameters"] / MILLION
        products = counts[unit]["products"] / GIGA
        operations = counts[unit]["operations"] / base
        rows += [
            *(
                row(throughput_of(unit, kernels), speed[unit], published=printed["ratio"])
                for kernels, speed in speeds.items()
            ),
            row(f"parameters, millions, {unit}", [parameters], published=printed["parameters"]),
            row(f"FLOPs as products, G, {unit}", [products], published=printed["flops"]),
            row(f"operations over ReLU's, {unit}", [operations]),
        ]
    return rows


def throughput_of(unit: str, kernels: str) -> str:
    """Return the name of a throughput in the results."""
    return f"throughput over ReLU's, {unit}, {kernels}"


def _panel(kernels: str, speed: Speeds) -> Panel:
    """Return the plot of our throughputs and the paper's."""
    places = list(range(1, len(speed) + 1))
    ours = [mean(values) for values in speed.values()]
    theirs = [published.THROUGHPUT[unit] / published.THROUGHPUT["relu"] for unit in speed]
    lines = [Line("ours", places, ours), Line("paper, A100", places, theirs)]
    return Panel(f"{kernels}: {', '.join(speed)}", "activation", "throughput over ReLU's", lines)


def claims(counts: Counts, speeds: Mapping[str, Speeds]) -> list[Claim]:
    """Judge both claims about throughput, in plain PyTorch.

    Args:
        counts: by unit.
        speeds: by kernels.
    """
    if PLAIN not in speeds:
        both = (published.SLOWER_THAN_COUNTED, published.CLOSE_TO_OTHERS)
        return [not_tested(claim, NOT_TIMED) for claim in both]
    speed = speeds[PLAIN]
    return [_slower(counts, speed), _close(speed)]


def _slower(counts: Counts, speed: Speeds) -> Claim:
    """Decide whether IIEU-B loses more throughput than the operations it adds."""
    pairs = {}
    texts = []
    for other in ("relu", "silu"):
        work = counts["iieu_b"]["operations"] / counts[other]["operations"] - 1
        ratio = mean(speed["iieu_b"]) / mean(speed[other])
        lost = _quotients(speed[other], speed["iieu_b"])
        pairs[f"time less operations, against {other}"] = (lost, [1 + work] * len(lost))
        texts.append(
            f"against {other} {100 * work:.1f} % more operations, "
            f"{100 * (1 - ratio):.1f} % less throughput"
        )
    return judged(published.SLOWER_THAN_COUNTED, all_better(pairs), before="; ".join(texts))


def _close(speed: Speeds) -> Claim:
    """Decide whether IIEU-B's throughput is close to that of the other activations."""
    pairs = {}
    texts = []
    for unit, values in speed.items():
        if unit in ("relu", "silu", "iieu_b"):
            continue
        gap = mean(speed["iieu_b"]) / mean(values) - 1
        ratios = _quotients(speed["iieu_b"], values)
        pairs[f"ratio less 1, against {unit}"] = (ratios, [1.0] * len(ratios))
        spread = 100 * standard_deviation(values)
        texts.append(f"{100 * gap:+.0f} % against {unit} (± {spread:.0f})")
    words = f"margin {CLOSE:.0%}; {'; '.join(texts)}"
    return judged(published.CLOSE_TO_OTHERS, all_comparable(pairs, CLOSE), before=words)


def _quotients(above: list[float], below: list[float]) -> list[float]:
    """Return the ratios of two throughputs, repetition by repetition."""
    return [one / other for one, other in zip(above, below, strict=True)]


EXPERIMENT = Experiment(
    name="iieu/table5",
    title="cost of activations in ResNet-26",
    scales={
        "tiny": IieuTable5Settings(
            "ResNet-14 at a quarter of the width, 32 pixels, 2 images, 2 turns, four activations",
            depth=14,
            size=32,
            batch=2,
            turns=2,
            scale=0.25,
            units=("relu", "silu", "smu", "iieu_b"),
        ),
        "desk": IieuTable5Settings("one thread of a CPU instead of an A100, batches of 4"),
        "full": IieuTable5Settings(
            "one thread of a CPU instead of an A100, batches of 32",
            batch=32,
            turns=51,
        ),
    },
    cells=cells,
    findings=findings,
    seeds=3,
    measures_time=True,
)
