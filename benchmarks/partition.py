"""What the exact partition of a plane costs for each region, in its compiled and in its numpy form.

    python benchmarks/partition.py      # about half a minute; appends to benchmarks/results/partition.csv

One thread, processor time, medians of alternating repeats, everything included: reading the model (some 30 ms, whatever
its size), splitting, maps and patterns. The machine's noise is some 20 %. SplineCam, the program to compare with, is
not on PyPI, so it is not run here; measured once on such a machine it took about 3 ms a region.
"""

import csv
import itertools
import platform
import statistics
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import torch
from torch import nn

import gatewise as gw

RESULTS = Path(__file__).parent / "results" / "partition.csv"
REPEATS = 5
FORMS = ("native", "numpy")
NETWORKS = (
    ((10, 20, 20, 20, 1), 5.0),
    ((2, 64, 64, 64, 64, 1), 10.0),
    ((2, 128, 128, 128, 1), 5.0),
)  # widths, half side


def dense(widths: tuple[int, ...]) -> nn.Module:
    """A ReLU network, the same in every run."""
    torch.manual_seed(0)
    layers = [part for a, b in itertools.pairwise(widths) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1]).double()


def measurements() -> Iterator[dict[str, object]]:
    """One row for each network and form."""
    for widths, half in NETWORKS:
        model, points = dense(widths), torch.eye(3, widths[0], dtype=torch.float64).roll(1, 0)
        times: dict[str, list[float]] = {form: [] for form in FORMS}
        counts = set()
        for repeat, form in itertools.product(range(REPEATS + 1), FORMS):
            start = time.process_time()
            found = gw.partition(model, points, extent=(-half, half, -half, half), form=form)
            taken = time.process_time() - start
            counts.add((found.count, len(set(found.patterns.tolist()))))
            if repeat:
                times[form].append(taken)
        if len(counts) != 1 or len(set(counts.pop())) != 1:
            raise SystemExit("the forms disagree, or a pattern has two regions")
        for form in FORMS:
            yield row("-".join(map(str, widths)), form, found.count, statistics.median(times[form]))


def row(network: str, form: str, regions: int, seconds: float) -> dict[str, object]:
    """As it is written to the file."""
    return {
        "date": date.today().isoformat(),
        "machine": f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}",
        "torch": torch.__version__,
        "network": network,
        "form": form,
        "regions": regions,
        "ms": f"{seconds * 1e3:.1f}",
        "us_per_region": f"{seconds / regions * 1e6:.2f}",
    }


def main() -> None:
    """Measure, print, and append to the file of results."""
    torch.set_num_threads(1)
    new = not RESULTS.exists()
    with RESULTS.open("a", newline="") as file:
        for number, each in enumerate(measurements()):
            writer = csv.DictWriter(file, each.keys(), lineterminator="\n")
            if new and not number:
                writer.writeheader()
            writer.writerow(each)
            print(*each.values())


if __name__ == "__main__":
    main()
