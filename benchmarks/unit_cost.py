"""What units cost inside a ResNet-26: the table of paper 003's section G on this machine, as ratios to ReLU.

    python benchmarks/unit_cost.py      # some minutes; appends to benchmarks/results/unit_cost.csv

One thread, the least of alternating repeats, through gw.cost. Batches of 2 images of 224 x 224; forward in eval mode,
and a training step (forward and backward). Operations count activations as the operators they are made of, two for a
multiplication with its addition. The paper's throughput is of one A100 (table 5): another machine and another batch, so
only ratios to ReLU stand beside each other.
"""

import csv
import platform
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import torch

import gatewise as gw

RESULTS = Path(__file__).parent / "results" / "unit_cost.csv"
ROUNDS = 3
PUBLISHED = {"relu": 4688.4, "silu": 4559.5, "meta_acon": 3449.1, "pserf": 3417.8, "smu": 3444.6, "iieu_b": 3630.3}


def measurements() -> Iterator[dict[str, object]]:
    """One row a unit."""
    torch.manual_seed(0)
    x = torch.randn(2, 3, 224, 224)
    models = {unit: gw.model("resnet", depth=26, unit=unit) for unit in PUBLISHED}
    best: dict[str, list[gw.analysis.Cost]] = {unit: [] for unit in PUBLISHED}
    for _ in range(ROUNDS):
        for unit, model in models.items():
            best[unit].append(gw.cost(model, x, repeats=2))
    base = best["relu"]
    for unit, found in best.items():
        yield row(unit, found, base)


def row(unit: str, found: list[gw.analysis.Cost], base: list[gw.analysis.Cost]) -> dict[str, object]:
    """As it is written to the file."""
    forward, train = least(found)
    forward_relu, train_relu = least(base)
    return {
        "date": date.today().isoformat(),
        "machine": f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}",
        "torch": torch.__version__,
        "unit": unit,
        "parameters": found[0].parameters,
        "operations": f"{found[0].operations / base[0].operations:.3f}",
        "throughput": f"{forward_relu / forward:.3f}",
        "train_throughput": f"{train_relu / train:.3f}",
        "saved_bytes": f"{(found[0].saved_bytes or 0) / (base[0].saved_bytes or 1):.3f}",
        "share_of_time": f"{min(each.site_share for each in found):.3f}",
        "paper_throughput": f"{PUBLISHED[unit] / PUBLISHED['relu']:.3f}",
    }


def least(found: list[gw.analysis.Cost]) -> tuple[float, float]:
    """Seconds forward and of a training step."""
    return min(each.seconds for each in found), min(each.train_seconds or 0.0 for each in found)


def main() -> None:
    """Measure, print, and append to the file of results."""
    torch.set_num_threads(1)
    new, rows = not RESULTS.exists(), list(measurements())
    with RESULTS.open("a", newline="") as file:
        for number, each in enumerate(rows):
            writer = csv.DictWriter(file, each.keys(), lineterminator="\n")
            if new and not number:
                writer.writeheader()
            writer.writerow(each)
            print(*each.values())


if __name__ == "__main__":
    main()
