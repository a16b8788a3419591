"""Accuracy of the network and recipe ``fast_cifar`` on CIFAR-10, and the processor time it takes.

    python benchmarks/fast_cifar.py FOLDER                      # widths 32-128-128, 8 epochs
    python benchmarks/fast_cifar.py FOLDER --widths 64,256,256 --epochs 11 --unit gelu
    python benchmarks/fast_cifar.py FOLDER --change "optimiser.lr = 0.5"

FOLDER holds `cifar-10-batches-py`. One run on all 50,000 training images, in as many threads as
torch has (set OMP_NUM_THREADS). What counts is the time of the whole run, with augmentation,
metrics, checkpoints and the evaluation at its end. Appends to ``results/fast_cifar.csv``.
"""

import argparse
import tempfile
import time

import torch
from kept import keep

from gatewise.data import load
from gatewise.native import tune_allocator
from gatewise.train.config import find_recipe, run_config
from gatewise.train.loop import Pace
from gatewise.train.run import train

# Accuracy that is asked for, by widths.
TARGETS = {(32, 128, 128): 0.90, (64, 256, 256): 0.93}


def main(asked: argparse.Namespace) -> None:
    """Train once, print, and append."""
    tune_allocator()
    sizes = [int(width) for width in asked.widths.split(",")]
    changes = [f"epochs = {asked.epochs}", *asked.change]
    recipe = find_recipe("fast_cifar", changes=changes)
    config = run_config(
        model="fast_cifar",
        unit=asked.unit,
        model_options={"widths": sizes},
        data="cifar10",
        recipe=recipe,
        seed=asked.seed,
        evaluate_every=asked.epochs,
    )
    data = load("cifar10", folder=asked.folder)
    began = time.perf_counter()
    used = time.process_time()
    with tempfile.TemporaryDirectory() as out:
        result = train(config, f"{out}/run", data=data, pace=Pace(checkpoint_seconds=300))
    seconds = time.perf_counter() - began
    row = {
        "threads": torch.get_num_threads(),
        "network": f"fast_cifar {asked.widths}",
        "unit": asked.unit,
        "precision": recipe.precision,
        "epochs": asked.epochs,
        "seed": asked.seed,
        "changes": "; ".join(asked.change),
        "seconds": round(seconds),
        "processor seconds": round(time.process_time() - used),
        "test accuracy": result.metrics["test_accuracy"],
        "target": TARGETS.get(tuple(sizes), ""),
    }
    print(row)
    keep("fast_cifar", row)


def arguments() -> argparse.Namespace:
    """Return what was asked for on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", help="holds cifar-10-batches-py")
    parser.add_argument("--widths", default="32,128,128", help="of the three blocks")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--unit", default="relu", help="a name of gatewise list units")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--change", action="append", default=[], help="a line of the recipe")
    return parser.parse_args()


if __name__ == "__main__":
    main(arguments())
