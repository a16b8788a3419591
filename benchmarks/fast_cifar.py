"""Accuracy of the network and recipe ``fast_cifar`` on CIFAR-10, and the processor time it takes.

    python benchmarks/fast_cifar.py FOLDER                      # widths 32-128-128, 8 epochs
    python benchmarks/fast_cifar.py FOLDER 64,256,256 12        # other widths and epochs

FOLDER holds `cifar-10-batches-py`. One run on all 50,000 training images, in as many threads as
torch has (set OMP_NUM_THREADS). What counts is the time of the whole run, with augmentation,
metrics, checkpoints and the evaluation at its end. Appends to ``results/fast_cifar.csv``.
"""

import sys
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


def main(folder: str, widths: str = "32,128,128", epochs: str = "8", *changes: str) -> None:
    """Train once, print, and append."""
    tune_allocator()
    sizes = [int(width) for width in widths.split(",")]
    recipe = find_recipe("fast_cifar", changes=[f"epochs = {epochs}", *changes])
    config = run_config(
        model="fast_cifar",
        model_options={"widths": sizes},
        data="cifar10",
        recipe=recipe,
        evaluate_every=int(epochs),
    )
    data = load("cifar10", folder=folder)
    began = time.perf_counter()
    used = time.process_time()
    with tempfile.TemporaryDirectory() as out:
        result = train(config, f"{out}/run", data=data, pace=Pace(checkpoint_seconds=300))
    seconds = time.perf_counter() - began
    row = {
        "threads": torch.get_num_threads(),
        "network": f"fast_cifar {widths}",
        "unit": "relu",
        "precision": recipe.precision,
        "epochs": epochs,
        "changes": "; ".join(changes),
        "seconds": round(seconds),
        "processor seconds": round(time.process_time() - used),
        "test accuracy": result.metrics["test_accuracy"],
        "target": TARGETS.get(tuple(sizes), ""),
    }
    print(row)
    keep("fast_cifar", row)


if __name__ == "__main__":
    main(*sys.argv[1:])
