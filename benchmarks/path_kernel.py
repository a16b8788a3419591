"""What the path kernel costs.

Layer by layer against walking every path, and how it grows where none can be walked.

    python benchmarks/path_kernel.py      # about half a minute; appends to
    benchmarks/results/path_kernel.csv

One thread, processor time, medians of alternating repeats. The machine's noise is some 20 %.
"""

import statistics
import time
from collections.abc import Callable, Iterator

import torch
from gatewise_papers import deep_gated
from kept import keep
from torch import Tensor

REPEATS = 5
WALKED = ((4, 4), (6, 5), (8, 6), (8, 7))  # width, depth
LARGE = ((100, 6), (500, 6), (1000, 6), (500, 12))
MAPS = (8, 16, 32)


def median_times(*functions: Callable[[], object]) -> list[float]:
    """Median seconds of each, taken in turns, the first round not counted."""
    times: list[list[float]] = [[] for _ in functions]
    for repeat in range(REPEATS + 1):
        for function, taken in zip(functions, times, strict=True):
            start = time.process_time()
            function()
            if repeat:
                taken.append(time.process_time() - start)
    return [statistics.median(taken) for taken in times]


def walk(model: deep_gated.DeepGatedNetwork, x: Tensor) -> Tensor:
    """The kernel by enumeration, vectorised."""
    return deep_gated.paths(model, x).kernel("activity")


def measurements() -> Iterator[dict[str, object]]:
    """One row for each network."""
    for width, depth in WALKED:
        model, x = deep_gated.DeepGatedNetwork(1, width, depth, gate="galu"), torch.randn(20, 1)
        if not torch.equal(walk(model, x), deep_gated.path_kernel(model, x)):
            raise SystemExit("the kernel is not that of the paths walked")
        ours, walked = median_times(
            lambda m=model, x=x: deep_gated.path_kernel(m, x), lambda m=model, x=x: walk(m, x)
        )
        yield row(f"dense w={width} d={depth}", 20, width ** (depth - 1), ours, walked)
    for width, depth in LARGE:
        model, x = (
            deep_gated.DeepGatedNetwork(784, width, depth, gate="galu"),
            torch.randn(200, 784),
        )
        (ours,) = median_times(lambda m=model, x=x: deep_gated.path_kernel(m, x, kind="log_lambda"))
        yield row(f"dense w={width} d={depth}", 200, 784.0 * width ** (depth - 1), ours)
    for size in MAPS:
        model = deep_gated.DeepGatedConvNetwork(
            (3, size, size), (64, 64, 128, 128), dense=(256,), gate="galu"
        )
        x = torch.randn(8, 3, size, size)
        (ours,) = median_times(lambda m=model, x=x: deep_gated.path_kernel(m, x, kind="features"))
        yield row(f"conv 64,64,128,128 on {size}x{size}", 8, None, ours)


def row(
    network: str, inputs: int, paths: float | None, ours: float, walked: float | None = None
) -> dict[str, object]:
    """One measurement, in words."""
    times = "" if walked is None else f"{walked / ours:.0f}"
    count = "" if paths is None else f"{paths:.3g}"
    return {
        "network": network,
        "inputs": inputs,
        "paths": count,
        "ms": f"{1000 * ours:.2f}",
        "times": times,
    }


def main() -> None:
    """Measure, print, and append."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(
        f"{'network':32} {'inputs':>6} {'paths':>9} {'ms':>9}   "
        "walking every path takes times as long"
    )
    for found in measurements():
        keep("path_kernel", found)
        print(
            f"{found['network']:32} {found['inputs']:>6} {found['paths']:>9} {found['ms']:>9}   "
            f"{found['times']}"
        )


if __name__ == "__main__":
    main()
