"""What reconstruction from a layer's features costs.

Without a matrix, against a dense pseudo-inverse.

    python benchmarks/reconstruct.py      # about a minute; appends to
    benchmarks/results/reconstruct.csv

3 channels, 8 filters of 5 x 5, float64, one thread, processor time, the least of alternating
repeats. The dense form is what a person would write: the convolution's matrix (or its rows that
pooling keeps), torch.linalg.pinv, one product. A call straight after it finds the caches full of
the matrix, and a call after another of its own kind does not: both are given, since which of them a
user sees depends on what else is done. Memory is the most that the process grew by, measured in a
process of its own (on Linux).
"""

import functools
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from kept import keep
from torch import Tensor, nn
from torch.nn import functional as F

import gatewise as gw

REPEATS = 5
CASES: dict[str, tuple[dict[str, Any], nn.Module | None]] = {
    "circular, fft": ({"padding_mode": "circular"}, None),
    "zeros, cg": ({}, None),
    "zeros, 2x2 pooling, cg": ({}, nn.MaxPool2d(2)),
}


def layer(options: dict[str, Any]) -> nn.Conv2d:
    """The same in every run."""
    torch.manual_seed(0)
    return nn.Conv2d(3, 8, 5, padding=2, bias=False, **options).double()


def dense(conv: nn.Conv2d, x: Tensor, pool: nn.Module | None) -> Tensor:
    """By the pseudo-inverse of the matrix whose rows are the known responses' filters."""
    units = torch.eye(x[0].numel(), dtype=torch.float64).reshape(-1, *x.shape[1:])
    matrix = conv(units).flatten(1).T.detach()
    rows = matrix if pool is None else matrix[survivors(conv(x), pool).flatten()]
    return (torch.linalg.pinv(rows) @ (rows @ x.flatten())).reshape(x.shape)


def survivors(responses: Tensor, pool: nn.Module) -> Tensor:
    """Which responses CReLU and the pooling keep: the largest in a window, of either sign."""
    kept = torch.zeros_like(responses, dtype=torch.bool).flatten(2)
    for feature in (torch.relu(responses), torch.relu(-responses)):
        largest, places = F.max_pool2d(feature, pool.kernel_size, return_indices=True)
        winners = torch.zeros_like(kept).scatter_(2, places.flatten(2), (largest > 0).flatten(2))
        kept |= winners
    return kept


def seconds(run: Callable[[], object]) -> float:
    """Processor time of one call."""
    start = time.process_time()
    run()
    return time.process_time() - start


def measurements() -> Iterator[dict[str, object]]:
    """One row for each case and size."""
    for name, (options, pool) in CASES.items():
        conv = layer(options)
        x = torch.randn(1, 3, 16, 16, dtype=torch.float64)
        found, want = gw.analysis.reconstruct(conv, x, pool=pool), dense(conv, x, pool)
        error = float((found.image - want).norm() / want.norm())
        if error > 1e-6:
            raise SystemExit(f"{name}: differs from the pseudo-inverse by {error:.2g}")
        cold, warm, theirs = [], [], []
        for _ in range(REPEATS):
            theirs.append(seconds(lambda: dense(conv, x, pool)))  # noqa: B023 - called at once
            ours = functools.partial(gw.analysis.reconstruct, conv, x, pool=pool)
            taken = [seconds(ours) for _ in range(REPEATS)]
            cold.append(taken[0])
            warm += taken[1:]
        yield row(
            f"{name}, called again",
            16,
            min(warm),
            min(theirs) / min(warm),
            error,
            found.iterations,
            "",
        )
        yield row(
            f"{name}, after the matrix",
            16,
            min(cold),
            min(theirs) / min(cold),
            error,
            found.iterations,
            "",
        )
        large = torch.randn(1, 3, 128, 128, dtype=torch.float64)
        gw.analysis.reconstruct(conv, large, pool=pool)
        again = functools.partial(gw.analysis.reconstruct, conv, large, pool=pool)
        taken = min(seconds(again) for _ in range(2))
        yield row(
            name,
            128,
            taken,
            None,
            None,
            gw.analysis.reconstruct(conv, large, pool=pool).iterations,
            memory(name),
        )


def memory(name: str) -> str:
    """MiB that a fresh process grows by at 128 x 128, over its size after one at 16 x 16."""
    found = subprocess.run(  # noqa: S603  our own command, with fixed arguments
        [sys.executable, __file__, name], capture_output=True, text=True, check=True
    )
    return found.stdout.strip()


def grow(name: str) -> None:
    """Print by how much the largest memory of this process grows."""
    options, pool = CASES[name]
    conv = layer(options)
    gw.analysis.reconstruct(conv, torch.randn(1, 3, 16, 16, dtype=torch.float64), pool=pool)
    x = torch.randn(1, 3, 128, 128, dtype=torch.float64)
    Path("/proc/self/clear_refs").write_text(
        "5"
    )  # forget the largest so far, which was at the imports
    before = peak()
    gw.analysis.reconstruct(conv, x, pool=pool)
    print(f"{(peak() - before) / 1024:.1f}")


def peak() -> int:
    """The most memory this process has had, in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


def row(
    name: str,
    size: int,
    taken: float,
    ratio: float | None,
    error: float | None,
    iterations: int,
    mib: str,
) -> dict[str, object]:
    """As it is written to the file."""
    return {
        "case": name,
        "size": size,
        "ms": f"{taken * 1e3:.2f}",
        "times_faster_than_pinv": "" if ratio is None else f"{ratio:.0f}",
        "difference": "" if error is None else f"{error:.1e}",
        "iterations": iterations,
        "mib": mib,
    }


def main() -> None:
    """Measure, print, and append to the file of results."""
    torch.set_num_threads(1)
    if len(sys.argv) > 1:
        return grow(sys.argv[1])
    for each in measurements():
        keep("reconstruct", each)
        print(*each.values(), flush=True)


if __name__ == "__main__":
    main()
