"""What a study of ImageNet size would cost, from operation counts and measured throughput.

    python benchmarks/study_cost.py                  # print the table of docs/scale.md
    python benchmarks/study_cost.py --tflops 100     # with another speed of one GPU
    python benchmarks/study_cost.py --write          # put the table into docs/scale.md
    python benchmarks/study_cost.py --count          # count the operations again first

Operations are those that ``gatewise compare`` prints: of one forward pass of one image, with a
multiplication and an addition as two. The throughput of this machine's processor is that of
``cifar_epoch.csv``. The speed of a GPU is an assumption: none was measured here.
"""

import argparse
import math
from dataclasses import dataclass
from pathlib import Path

from kept import keep, rows_of

from gatewise.studies.engine.tuning import REACH, ROUNDS

PAGE = Path(__file__).parents[1] / "docs" / "scale.md"
BEGIN = "<!-- the table of benchmarks/study_cost.py begins -->\n"
END = "<!-- the table of benchmarks/study_cost.py ends -->\n"

IMAGES = 1_281_167  # training images of ImageNet
EPOCHS = 90
PASSES = 3  # a backward pass costs about two forward passes
TFLOPS = 60.0  # that one GPU achieves in training: an assumption
SEEDS = 10
NETWORK = "resnet50"
MEASURED = "convpool_cnn"
STUDIES = {"8 units, ResNet-50": (8, 1), "24 units, 3 networks of that size": (24, 3)}
GPUS = (8, 1000)


@dataclass(frozen=True)
class Row:
    """What one study costs on so many GPUs."""

    study: str
    gpus: int
    runs: int
    gpu_days: float
    days: float
    most_at_once: int


def stages(units: int, networks: int) -> list[int]:
    """How many runs each stage has: rounds of tuning, final runs, and confirmation at worst."""
    groups = units * networks
    rates = 2 * REACH + 1
    tuning = [int(min(keep_best, rates)) * seeds * groups for keep_best, seeds in ROUNDS["quick"]]
    return [*tuning, SEEDS * groups, 2 * SEEDS * (units - 1) * networks]


def run_days(flops: float, tflops: float) -> float:
    """Days that one run takes on one GPU."""
    return EPOCHS * IMAGES * PASSES * flops / (tflops * 1e12) / 86400


def rows(flops: float, tflops: float) -> list[Row]:
    """The table. The runs of a stage wait for those of the stage before."""
    one = run_days(flops, tflops)
    table = []
    for name, size in STUDIES.items():
        counts = stages(*size)
        for gpus in GPUS:
            waves = sum(math.ceil(count / gpus) for count in counts)
            runs = sum(counts)
            most = min(gpus, max(counts))
            table.append(Row(name, gpus, runs, runs * one, waves * one, most))
    return table


def counted(network: str) -> float:
    """The operations of a network that are kept."""
    return float([row for row in rows_of("study_cost") if row["network"] == network][-1]["flops"])


def count_again() -> None:
    """Count the operations of both networks, and keep them."""
    import torch

    import gatewise as gw
    from gatewise.studies.engine import cost_of

    networks = {
        NETWORK: (gw.create_model("resnet", depth=50, unit="relu"), 224),
        MEASURED: (gw.create_model("convpool_cnn", unit="relu"), 32),
    }
    for name, (network, size) in networks.items():
        cost = cost_of(network, torch.randn(2, 3, size, size))
        keep("study_cost", {"network": name, "flops": cost.flops, "parameters": cost.parameters})


def table(tflops: float = TFLOPS) -> str:
    """The table and what it rests on, in Markdown."""
    flops = counted(NETWORK)
    one = run_days(flops, tflops)
    speed = IMAGES * EPOCHS / (one * 86400)
    measured = rows_of("cifar_epoch")[0]
    here = float(measured["images/s"]) * PASSES * counted(MEASURED)
    lines = [
        f"One run: {EPOCHS} epochs x {IMAGES:,} images x {PASSES} x {flops / 1e9:.2f} GFLOP "
        f"= {EPOCHS * IMAGES * PASSES * flops / 1e18:.2f} EFLOP. At {tflops:g} TFLOP/s "
        f"({speed:,.0f} images/s) it takes {one * 24:.1f} hours on one GPU.",
        "",
        "| study | runs, at most | GPU-days | GPUs | at work at once | days |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows(flops, tflops):
        lines.append(
            f"| {row.study} | {row.runs:,} | {row.gpu_days:,.0f} | {row.gpus:,} "
            f"| {row.most_at_once:,} | {row.days:,.1f} |"
        )
    lines += [
        "",
        f"On the {measured['threads']} processor threads of the machine that this was written on, "
        f"training reaches {here / 1e9:.0f} GFLOP/s (measured with {MEASURED}: "
        f"{float(measured['images/s']):.0f} images/s). One such run would take "
        f"{run_days(flops, here / 1e12):,.0f} days there.",
        "",
    ]
    return "\n".join(lines)


def page_table() -> str:
    """The table that the page has."""
    return PAGE.read_text().partition(BEGIN)[2].partition(END)[0]


def main() -> None:
    """Print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tflops", type=float, default=TFLOPS, help="that one GPU achieves")
    parser.add_argument("--write", action="store_true", help="put the table into docs/scale.md")
    parser.add_argument("--count", action="store_true", help="count the operations again")
    options = parser.parse_args()
    if options.count:
        count_again()
    text = table(options.tflops)
    if options.write:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(before + BEGIN + text + END + rest.partition(END)[2])
    print(text)


if __name__ == "__main__":
    main()
