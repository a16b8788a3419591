"""What orthonormal filters cost.

Forward and backward of each map, in percent of the convolution's own step.

    python benchmarks/orthogonal.py            # about two minutes; appends to
    benchmarks/results/orthogonal.csv

One thread, methods in turn within each round, CPU time, medians over rounds. Only ratios are worth
comparing: percent of the step, and how many times cheaper than Gram-Schmidt as its formula is
written ("pair by pair": one projection at a time) and as ``method="gram_schmidt"`` does it (all
projections of a row at once).
"""

import statistics
import time
from collections.abc import Callable

import torch
from kept import keep
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from gatewise.layers.orthonormal import orthogonal

BATCH = 64
CASES = ((96, 32), (192, 16))  # channels in and out of a 3x3 convolution, side of its maps
OURS = ("gram_schmidt", "modified_gram_schmidt", "qr", "cholesky", "newton_schulz")
SLOW = {"pair by pair", "gram_schmidt", "modified_gram_schmidt", "newton_schulz", "torch cayley"}
ROUNDS, SLOW_ROUNDS = (
    15,
    2,
)  # slow ones need fewer rounds: their spread is small beside their distance


def convolution_step(channels: int, side: int) -> Callable[[], None]:
    """Forward and backward of the convolution alone, to input and weight."""
    layer = nn.Conv2d(channels, channels, 3, padding=1)
    x = torch.randn(BATCH, channels, side, side, requires_grad=True)
    slope = torch.randn(BATCH, channels, side, side)
    return lambda: torch.autograd.backward(layer(x), slope)


def map_step(parametrised: nn.Module) -> Callable[[], None]:
    """Forward and backward of the weight's parametrisation alone."""
    slope = torch.randn_like(parametrised.weight)
    return lambda: torch.autograd.backward(parametrised.weight, slope)


def pair_by_pair(w: Tensor) -> Tensor:
    """Gram-Schmidt as its formula is written: every earlier row is taken out by itself."""
    found: list[Tensor] = []
    for row in w.unbind():
        rest = row - sum((torch.dot(q, row) * q for q in found), torch.zeros_like(row))
        found.append(rest / rest.norm())
    return torch.stack(found)


def pair_by_pair_step(channels: int) -> Callable[[], None]:
    """The same for that formula."""
    w = torch.randn(channels, 9 * channels, requires_grad=True)
    slope = torch.randn_like(w)
    return lambda: torch.autograd.backward(pair_by_pair(w), slope)


def steps(channels: int, side: int) -> dict[str, Callable[[], None]]:
    """Everything that is compared, by name."""
    made = {
        "convolution": convolution_step(channels, side),
        "pair by pair": pair_by_pair_step(channels),
    }
    for method in OURS:
        made[method] = map_step(orthogonal(nn.Conv2d(channels, channels, 3), method=method))
    flat = nn.Linear(
        9 * channels, channels
    )  # torch would take each 3x3 kernel of a convolution for a matrix
    made["torch cayley"] = map_step(parametrizations.orthogonal(flat, orthogonal_map="cayley"))
    return made


def measure(compared: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Median CPU seconds of each step, taken in turn."""
    taken: dict[str, list[float]] = {name: [] for name in compared}
    for each in range(ROUNDS + 1):
        for name, step in compared.items():
            if name in SLOW and each > SLOW_ROUNDS:
                continue
            start = time.process_time()
            step()
            taken[name].append(time.process_time() - start)
    return {
        name: statistics.median(times[1:]) for name, times in taken.items()
    }  # the first warms up


def main() -> None:
    """Measure, print and record."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rows: list[dict[str, object]] = []
    for channels, side in CASES:
        seconds = measure(steps(channels, side))
        shape = f"{channels}x{9 * channels} @{side}x{side}"
        print(f"{shape}, batch {BATCH}: convolution {1e3 * seconds['convolution']:.0f} ms")
        print(f"  {'':22}{'% of step':>10}{'x pairs':>10}{'x g.-s.':>10}")
        for name, taken in seconds.items():
            if name == "convolution":
                continue
            row = {
                "percent_of_step": f"{100 * taken / seconds['convolution']:.2f}",
                "cheaper_than_pair_by_pair": f"{seconds['pair by pair'] / taken:.1f}",
                "cheaper_than_gram_schmidt": f"{seconds['gram_schmidt'] / taken:.1f}",
            }
            rows.append({"case": shape, "batch": BATCH, "method": name, **row})
            print(f"  {name:22}" + "".join(f"{value:>10}" for value in row.values()))
    keep("orthogonal", *rows)


if __name__ == "__main__":
    main()
