"""Two ways to train small networks faster, measured: several seeds at once, and a compiled step.

    python benchmarks/small_networks.py   # about five minutes; appends to
    benchmarks/results/small_networks.csv

Processor time of one step (forward, loss, backward, fused SGD with momentum), one thread, in turns,
the lowest of
many: other work on a machine only adds. Images of the digits' size, 8x8, which are noise: nothing
here depends on what they show. Several seeds at once are torch.func.vmap over stacked weights, each
seed with a batch of its own; a seed alone is what two processes side by side do on two cores, each
at that speed. The cost of compiling is that of the first step, with an empty cache, helpers
included. docs/training.md says what follows from it.
"""

import os
import resource
import tempfile
import time
from collections.abc import Callable

import torch
from kept import keep
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn import functional as F

from gatewise.models import create_model

NETWORKS = {
    "mlp 64-128-128-10": ("mlp", (64,), {}),
    "mlp 784-100x6-10": ("mlp", (784,), {"features": 784, "widths": [100] * 6}),
    "small_cnn": ("small_cnn", (1, 8, 8), {}),
    "small_cnn without norm": ("small_cnn", (1, 8, 8), {"norm": False}),
}
Step = Callable[[], None]


def optimiser(parameters: list[Tensor]) -> torch.optim.Optimizer:
    """As the trainer's."""
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9, fused=True)


def alone(net: nn.Module, batch: int, shape: tuple[int, ...]) -> Step:
    """A step of one network; ``net`` may be compiled."""
    images, labels, descent = (
        torch.randn(batch, *shape),
        torch.randint(0, 10, (batch,)),
        optimiser([*net.parameters()]),
    )

    def step() -> None:
        descent.zero_grad()
        F.cross_entropy(net(images), labels).backward()
        descent.step()

    return step


def at_once(networks: list[nn.Module], batch: int, shape: tuple[int, ...]) -> Step:
    """A step of all ``networks``."""
    count = len(networks)
    images, labels = torch.randn(count, batch, *shape), torch.randint(0, 10, (count, batch))
    weights, buffers = stack_module_state(networks)
    base, descent = networks[0], optimiser(list(weights.values()))

    def loss(weights: dict, buffers: dict, x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(base, (weights, buffers), (x,)), y)

    def step() -> None:
        descent.zero_grad()
        vmap(loss, randomness="different")(weights, buffers, images, labels).sum().backward()
        descent.step()

    return step


def lowest(steps: dict[str, Step], repeats: int = 60) -> dict[str, float]:
    """Milliseconds of each step, in turns."""
    taken = dict.fromkeys(steps, float("inf"))
    for repeat in range(repeats):
        for name, step in steps.items():
            begin = time.process_time()
            step()
            if repeat > 4:
                taken[name] = min(taken[name], 1000 * (time.process_time() - begin))
    return taken


def processor_seconds() -> float:
    """Of this process and of helpers that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def compiled(name: str, batch: int) -> list[dict[str, object]]:
    """A compiled step against a plain one, and after how many steps compiling has paid."""
    kind, shape, options = NETWORKS[name]
    plain, fast = (
        alone(net, batch, shape)
        for net in (create_model(kind, **options), torch.compile(create_model(kind, **options)))
    )
    plain()
    begin = processor_seconds()
    fast()
    cost = processor_seconds() - begin
    taken = lowest({"plain": plain, "compiled": fast})
    saved = taken["plain"] - taken["compiled"]
    pays = f"pays after {1000 * cost / saved:.0f} steps" if saved > 0 else "never pays"
    note = f"compiling takes {cost:.0f} s of processor time; {pays}"
    return [
        row(name, batch, "alone", taken["plain"], 1.0, ""),
        row(name, batch, "compiled", taken["compiled"], taken["plain"] / taken["compiled"], note),
    ]


def many_seeds(name: str, batch: int, count: int) -> dict[str, object]:
    """Seeds at once against one after another."""
    kind, shape, options = NETWORKS[name]
    together = at_once([create_model(kind, **options) for _ in range(count)], batch, shape)
    taken = lowest(
        {"alone": alone(create_model(kind, **options), batch, shape), "together": together}, 30
    )
    faster = taken["alone"] * count / taken["together"]
    return row(
        name,
        batch,
        f"{count} seeds at once",
        taken["together"] / count,
        faster,
        "per step and seed",
    )


def row(
    name: str, batch: int, way: str, milliseconds: float, faster: float, note: str
) -> dict[str, object]:
    """One line of the table."""
    numbers = {"ms_per_step": f"{milliseconds:.3f}", "times_faster_per_core": f"{faster:.2f}"}
    return {"network": name, "batch": batch, "way": way, **numbers, "note": note}


def main() -> None:
    """Measure, print, and append."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as cache:
        os.environ |= {"TORCHINDUCTOR_CACHE_DIR": cache, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        for name in NETWORKS:
            for count in (2, 5, 20):
                note(many_seeds(name, 50, count))
            for each in compiled(name, 32):
                note(each)


def note(found: dict[str, object]) -> None:
    """Print a row, and append it."""
    keep("small_networks", found)
    print(found, flush=True)


if __name__ == "__main__":
    main()
