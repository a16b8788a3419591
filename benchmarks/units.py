"""What units cost in eager mode: time of our function over torch's own, forward and with backward, one thread.

    python benchmarks/units.py            # about a minute; appends to benchmarks/results/units.csv

Alternating repeats, medians, a feature map of 24 MiB in float32 (32 x 64 x 56 x 56). The machine's noise is some 10 %.
"""

import statistics
import time
from collections.abc import Callable

import torch
from kept import keep
from torch import Tensor

import gatewise as gw
from gatewise.testing._errors import TORCH_OWN

REPEATS = 7


def backward(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], object]:
    """Forward and the gradient to the input."""

    def step(x: Tensor) -> object:
        leaf = x.detach().requires_grad_()
        y = function(leaf)
        return torch.autograd.grad(y, leaf, torch.ones_like(y))

    return step


def ratio(ours: Callable[[Tensor], object], theirs: Callable[[Tensor], object], x: Tensor) -> float:
    """Median time of ``ours`` over that of ``theirs``, taken in turns."""
    times: dict[Callable, list[float]] = {ours: [], theirs: []}
    for repeat in range(REPEATS + 1):
        for function, taken in times.items():
            start = time.process_time()
            function(x)
            if repeat:
                taken.append(time.process_time() - start)
    return statistics.median(times[ours]) / statistics.median(times[theirs])


def main() -> None:
    """Measure every unit that torch has too, print, and append."""
    torch.set_num_threads(1)
    x = torch.randn(32, 64, 56, 56)
    print(f"{'unit':12} forward  with backward   (times torch's own)")
    for name, own in TORCH_OWN.items():
        ours = gw.unit(name).function
        row = {
            "forward": f"{ratio(ours, own, x):.1f}",
            "with_backward": f"{ratio(backward(ours), backward(own), x):.1f}",
        }
        keep("units", {"unit": name, **row})
        print(f"{name:12} {row['forward']:>7} {row['with_backward']:>14}")


if __name__ == "__main__":
    main()
