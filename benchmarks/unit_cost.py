"""What units cost inside a ResNet-26.

The table of paper 003's section G on this machine, as ratios to ReLU.

    python benchmarks/unit_cost.py      # a minute or two a unit; appends to
    benchmarks/results/unit_cost.csv

One thread, through gw.cost: each unit and ReLU in turns, the least of both. Every row is written as
soon as it is had, and a unit that has a row of this machine, torch and scale is not measured again,
so a run that was stopped goes on where it was (--again measures all). The row of ReLU against
itself says how large the machine's noise is. Forward in eval mode, and a training step (forward and
backward). Operations count activations as the operators they are made of, two for a multiplication
with its addition. The paper's throughput is of one A100 at another batch (table 5), so only ratios
to ReLU stand beside each other. `gatewise reproduce iieu/table5` is the paper's table alone, with
spreads; this has training, memory and the units' share of the time too.
"""

import argparse
import sys
import time

import torch
from gatewise_papers.iieu.experiments import THROUGHPUT as PUBLISHED
from kept import facts, keep, rows_of

import gatewise as gw

TURNS, REPEATS = 2, 2
Costs = list[gw.analysis.Cost]


def measure(unit: str, x: torch.Tensor) -> tuple[Costs, Costs]:
    """The unit's network and ReLU's, each looked at in turns."""
    found: tuple[Costs, Costs] = ([], [])
    for turn in range(TURNS):
        for name, costs in zip((unit, "relu"), found, strict=True):
            began = time.monotonic()
            torch.manual_seed(0)
            costs.append(
                gw.cost(gw.models.create_model("resnet", depth=26, unit=name), x, repeats=REPEATS)
            )
            say(f"{unit}: turn {turn + 1} of {TURNS}, {name}, {time.monotonic() - began:.0f} s")
    return found


def row(unit: str, scale: str, found: Costs, base: Costs) -> dict[str, object]:
    """As it is written to the file."""
    forward, train = least(found)
    forward_relu, train_relu = least(base)
    return {
        "scale": scale,
        "unit": unit,
        "parameters": found[0].parameters,
        "operations": f"{found[0].operations / base[0].operations:.3f}",
        "throughput": f"{forward_relu / forward:.3f}",
        "train_throughput": f"{train_relu / train:.3f}",
        "saved_bytes": f"{(found[0].saved_bytes or 0) / (base[0].saved_bytes or 1):.3f}",
        "share_of_time": f"{min(each.site_share for each in found):.3f}",
        "paper_throughput": f"{PUBLISHED[unit] / PUBLISHED['relu']:.3f}",
    }


def least(found: Costs) -> tuple[float, float]:
    """Seconds forward and of a training step."""
    return min(each.seconds for each in found), min(each.train_seconds or 0.0 for each in found)


def say(text: str) -> None:
    """What is being done, beside the rows."""
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Measure, print, and append to the file of results."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--size", type=int, default=224, help="pixels along a side")
    arguments.add_argument("--batch", type=int, default=2, help="images")
    arguments.add_argument("--again", action="store_true", help="measure units that have a row too")
    given = arguments.parse_args()
    torch.set_num_threads(1)
    scale = (
        f"{given.batch} images of {given.size}x{given.size}; 1 thread; least of {TURNS * REPEATS}"
    )
    x = torch.randn(
        given.batch, 3, given.size, given.size, generator=torch.Generator().manual_seed(0)
    )
    here = {"scale": scale, **{name: facts()[name] for name in ("machine", "torch")}}
    done = (
        set()
        if given.again
        else {each["unit"] for each in rows_of("unit_cost") if here.items() <= each.items()}
    )
    for unit in PUBLISHED:
        if unit in done:
            say(f"{unit}: has its row")
            continue
        made = row(unit, scale, *measure(unit, x))
        keep("unit_cost", made)
        print(*made.values(), flush=True)


if __name__ == "__main__":
    main()
