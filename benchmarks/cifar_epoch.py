"""One epoch of ConvPool-CNN-C on CIFAR-10, as a share of the matrix-multiply speed.

    python benchmarks/cifar_epoch.py FOLDER    # about 20 minutes on two cores

Appends to ``results/cifar_epoch.csv``.

FOLDER holds `cifar-10-batches-py`. A whole run of ours: paper 002's recipe for one epoch of the
50,000 training images at a rate of its warm-up, augmentation, metrics, a checkpoint every minute
and the evaluation at its end. What counts is the time from the first step to the last, on the
clock; products of two 1024 x 1024 matrices are timed before and after, on as many threads.
"""

import sys
import tempfile
import time

import torch
from kept import keep
from torch.utils.flop_counter import FlopCounterMode

from gatewise.data import load
from gatewise.models import create_model
from gatewise.train.config import find_recipe, run_config
from gatewise.train.loop import Pace, Watcher
from gatewise.train.run import train


class Clock(Watcher):
    """Seconds between the first step's end and the last one's, and images in between."""

    begun = last = steps = 0

    def step(self, step: object) -> None:
        """Note the time."""
        self.last = time.perf_counter()
        self.begun = self.begun or self.last
        self.steps += 1
        if self.steps % 50 == 0:
            print(f"{self.steps} steps, {self.last - self.begun:.0f} s", flush=True)


def multiply_speed(size: int = 1024) -> float:
    """Operations a second of a square matrix product, the best of 20."""
    a, b, taken = torch.randn(size, size), torch.randn(size, size), []
    for _ in range(20):
        begin = time.perf_counter()
        a @ b
        taken.append(time.perf_counter() - begin)
    return 2 * size**3 / min(taken)


def image_operations(unit: str) -> int:
    """Operations of a step for one image, forward and backward."""
    with FlopCounterMode(display=False) as count:
        create_model("convpool_cnn", unit=unit)(torch.randn(1, 3, 32, 32)).sum().backward()
    return count.get_total_flops()


def main(folder: str, unit: str = "relu") -> None:
    """Train for an epoch, print, and append."""
    data = load("cifar10", folder=folder)
    recipe = find_recipe(
        "crelu_cifar", changes=["epochs=1", "schedule={name='constant'}", "optimiser.lr=0.001"]
    )
    config = run_config(
        model="convpool_cnn", model_options={"unit": unit}, data="cifar10", recipe=recipe
    )
    clock, before = Clock(), multiply_speed()
    with tempfile.TemporaryDirectory() as out:
        result = train(
            config, f"{out}/run", data=data, pace=Pace(checkpoint_seconds=60), watchers=[clock]
        )
    images, seconds = recipe.batch * (clock.steps - 1), clock.last - clock.begun
    share = image_operations(unit) * images / seconds / max(before, multiply_speed())
    row = {
        "threads": torch.get_num_threads(),
        "network": f"convpool_cnn {unit}",
        "images": images,
        "seconds": round(seconds),
        "images/s": round(images / seconds, 1),
        "share of matrix-multiply speed": round(share, 3),
        "test accuracy": round(result.metrics["test_accuracy"], 4),
        "note": "whole epoch",
    }
    keep("cifar_epoch", row)
    print(row)


if __name__ == "__main__":
    main(*sys.argv[1:])
