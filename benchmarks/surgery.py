"""How long surgery takes on 34 networks.

To read one, to plan a swap, and to carry it out with its proof.

    OMP_NUM_THREADS=1 python benchmarks/surgery.py  # half an hour; goes on where it was stopped

Processor seconds of a run on one thread. Networks and inputs are those of the tests
(``tests/zoo.py``), and ResNet-50 also at 224 pixels, the least of three runs there. *plan* includes
reading. A swap that changes nothing in a network has a row without times. *load*: how many
processes wanted to run, for a busy machine takes more; to measure a row again, delete it.
"""

import gc
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from kept import keep, rows_of
from torch import nn

import gatewise as gw
from gatewise.errors import ArgumentError
from gatewise.graph import find_sites

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from zoo import ZOO, build, image

SWAPS: dict[str, dict[str, Any]] = {
    "crelu": {"width": "same", "preserve": True},
    "concat_act": {"width": "same", "preserve": True},
    "psc": {"preserve": True},
    "iieu_b": {},
}
LARGE = "timm:resnet50 at 224"
RUNS = 3  # at 224 pixels, of which the least counts; elsewhere one


def network(name: str) -> tuple[nn.Module, Any]:
    """A network and its example."""
    if name == LARGE:
        return build("timm:resnet50")[0], image(224)
    return build(name)


def seconds(action: Callable[[], Any]) -> tuple[float, Any]:
    """Processor time, and what was made."""
    gc.collect()
    start = time.process_time()
    made = action()
    return time.process_time() - start, made


def measure(model: nn.Module, example: Any, swap: str, runs: int) -> dict[str, Any] | None:
    """One row; ``None`` where nothing would change."""
    planned, applied = [], []
    for _ in range(runs):
        try:
            took, plan = seconds(lambda: gw.plan(model, swap, example, **SWAPS[swap]))
        except ArgumentError as problem:
            if "nothing would change" not in str(problem):
                raise
            return None
        planned.append(took)
        applied.append(seconds(lambda plan=plan: plan.apply(model, inplace=False))[0])
    times = {"plan": min(planned), "apply": min(applied), "total": min(planned) + min(applied)}
    return {"sites": len(plan.swapped), **{name: round(value, 2) for name, value in times.items()}}


def rows(done: set[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    """Those of each network that are not there yet."""
    for name in (LARGE, *ZOO):
        missing = [swap for swap in SWAPS if (name, swap) not in done]
        if not missing:
            continue
        (model, example), runs = network(name), RUNS if name == LARGE else 1
        read = min(
            seconds(lambda model=model, example=example: find_sites(model, example))[0]
            for _ in range(runs)
        )
        for swap in missing:
            found = measure(model, example, swap, runs)
            yield {
                "network": name,
                "swap": swap,
                "sites": 0,
                "read": round(read, 2),
                **(found or {}),
            }


def main() -> None:
    """Measure what is missing, print and append."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # said by the libraries about themselves
    done = {(row["network"], row["swap"]) for row in rows_of("surgery")}
    for row in rows(done):
        keep("surgery", row)
        print(*row.values(), sep="\t", flush=True)


if __name__ == "__main__":
    main()
