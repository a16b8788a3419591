"""Training several seeds at once against one after another.

Processor time per step and seed, one thread.

    python benchmarks/seeds_at_once.py    # under two minutes; appends to
    benchmarks/results/seeds_at_once.csv

Each row is one shape of network and number of seeds. Both ways take the same steps on the same
data, in turns, each with torch's own optimiser; the median over repeats of the ratio of their times
is what is kept. Small networks gain
most: their time goes into starting operations, and the seeds share that. The results are the same
up to rounding, which tests/train/test_stacked.py shows.
"""

import statistics
import time
from collections.abc import Callable
from functools import partial

import torch
from gatewise_papers.deep_gated import (
    DeepGatedNetwork,
    StackedNetworks,
    mean_squared_error,
    train_stacked,
)
from gatewise_papers.deep_gated.experiments import generator, orders, uniform
from kept import keep
from torch import Tensor, nn

REPEATS = 5
LR = 1e-4
# d_in, width, depth, batch, steps
SHAPES = ((2, 25, 4, 50, 40), (2, 100, 6, 100, 20), (784, 100, 6, 64, 20), (784, 400, 6, 64, 4))
SEEDS = (5, 20)


def one_after_another(networks: list[nn.Module], x: Tensor, y: Tensor, batch: int) -> None:
    """An epoch for each network, alone, written as anyone would."""
    for seed, network in enumerate(networks):
        optimiser = torch.optim.RMSprop(network.parameters(), lr=LR)
        for rows in orders(len(x), (seed,), 0)[0].split(batch):
            optimiser.zero_grad()
            mean_squared_error(network(x[rows]), y[rows]).backward()
            optimiser.step()


def at_once(networks: list[nn.Module], x: Tensor, y: Tensor, batch: int) -> None:
    """The same epoch for all of them."""
    seeds = tuple(range(len(networks)))
    train_stacked(
        StackedNetworks(networks),
        x,
        y,
        orders=partial(orders, len(x), seeds),
        optimizer="rmsprop",
        lr=LR,
        epochs=1,
        batch=batch,
        loss=mean_squared_error,
    )


def taken(work: Callable[..., None], *arguments: object) -> float:
    """Processor time."""
    start = time.process_time()
    work(*arguments)
    return time.process_time() - start


def measure(
    d_in: int, width: int, depth: int, batch: int, steps: int, seeds: int
) -> dict[str, object]:
    """One row."""
    x, y = uniform((batch * steps, d_in), 0, "x").float(), uniform((batch * steps,), 0, "y").float()
    times: list[tuple[float, float]] = []
    for _ in range(REPEATS + 1):
        networks = [
            DeepGatedNetwork(d_in, width, depth, gate="relu", generator=generator(seed, "network"))
            for seed in range(seeds)
        ]
        together = taken(at_once, networks, x, y, batch)
        times.append((taken(one_after_another, networks, x, y, batch), together))
    apart, together = (statistics.median(each) for each in zip(*times[1:], strict=True))
    ratio = statistics.median(a / b for a, b in times[1:])
    return {
        "network": f"ReLU {d_in}-{width}^{depth - 1}-1",
        "batch": batch,
        "seeds": seeds,
        "alone_ms_per_step_and_seed": f"{1000 * apart / steps / seeds:.3f}",
        "at_once_ms_per_step_and_seed": f"{1000 * together / steps / seeds:.3f}",
        "times_faster": f"{ratio:.1f}",
    }


def main() -> None:
    """Measure every shape and number of seeds, print, and append."""
    torch.set_num_threads(1)
    for shape in SHAPES:
        for seeds in SEEDS:
            row = measure(*shape, seeds)
            keep("seeds_at_once", row)
            print(row, flush=True)


if __name__ == "__main__":
    main()
