"""What units cost in eager mode.

Time of our function over torch's own, forward and with backward, one thread.

    python benchmarks/units.py            # about a minute; appends to benchmarks/results/units.csv

Alternating repeats, medians, maps in float32: one of 24 MiB (32 x 64 x 56 x 56), where memory
counts, and one of 0.4 MiB (100 x 16 x 8 x 8), where the cost of a call does. The machine's noise is
some 10 %.
"""

import statistics
import time
from collections.abc import Callable

import torch
from kept import keep
from torch import Tensor

import gatewise as gw
from gatewise.testing import TORCH_OWN

MAPS = {(32, 64, 56, 56): 7, (100, 16, 8, 8): 301}  # shape: repeats


def backward(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], object]:
    """Forward and the gradient to the input."""

    def step(x: Tensor) -> object:
        leaf = x.detach().requires_grad_()
        y = function(leaf)
        return torch.autograd.grad(y, leaf, torch.ones_like(y))

    return step


def ratio(
    ours: Callable[[Tensor], object], theirs: Callable[[Tensor], object], x: Tensor, repeats: int
) -> float:
    """Median time of ``ours`` over that of ``theirs``, taken in turns."""
    times: dict[Callable, list[float]] = {ours: [], theirs: []}
    for repeat in range(repeats + 1):
        for function, taken in times.items():
            start = time.process_time()
            function(x)
            if repeat:
                taken.append(time.process_time() - start)
    return statistics.median(times[ours]) / statistics.median(times[theirs])


def main() -> None:
    """Measure every unit that torch has too, print, and append."""
    torch.set_num_threads(1)
    print(f"{'unit':12} {'map':>14} forward  with backward   (times torch's own)")
    for shape, repeats in MAPS.items():
        x, size = torch.randn(shape), "x".join(map(str, shape))
        for name, own in TORCH_OWN.items():
            ours = gw.get_unit(name).function
            row = {
                "forward": f"{ratio(ours, own, x, repeats):.1f}",
                "with_backward": f"{ratio(backward(ours), backward(own), x, repeats):.1f}",
            }
            keep("units", {"unit": name, **row, "map": size})
            print(f"{name:12} {size:>14} {row['forward']:>7} {row['with_backward']:>14}")


if __name__ == "__main__":
    main()
