"""Images a second of the recipe ``fast_cifar`` against a bare loop and against float32.

    python benchmarks/fast_training.py    # about five minutes

Appends to ``results/fast_training.csv``.

The bare loop is the same training with nothing but torch: images that are normalised and padded
once, mirror images and shifts by indexing, autocast, Nesterov's SGD with torch's fused step; no
seeds, metrics, checks or checkpoints. The recipe's average of weights is left out everywhere. All
ways train the same network on the same noise, one thread, in turns. What counts is processor time
from the end of the third step to the end of the last one, the lowest of several runs: other work on
a machine only adds.
"""

import tempfile
import time
from collections.abc import Callable

import torch
from kept import keep
from torch import Tensor, nn
from torch.nn import functional as F

from gatewise.data import DataSet, Split
from gatewise.models import create_model
from gatewise.native import tune_allocator
from gatewise.train.config import find_recipe, run_config
from gatewise.train.loop import Pace, Watcher
from gatewise.train.run import train

WIDTHS = ((8, 32, 32), (32, 128, 128))
BATCH, STEPS, SKIPPED, REPEATS = 512, 11, 3, 4
SHIFT = 2
MEAN, STD = (0.49, 0.48, 0.45), (0.25, 0.24, 0.26)
LOOP = "bare loop, bfloat16, channels_last"
OURS = "gatewise, bfloat16, channels_last"
FLOAT32 = "gatewise, float32, channels_last"
CONTIGUOUS = "gatewise, float32, contiguous"
# What is asked for: images a second of the first over those of the second.
TARGETS = {(OURS, LOOP): 0.95, (OURS, CONTIGUOUS): 2.0}


class Clock(Watcher):
    """Processor time from the end of the last skipped step to the end of the last one."""

    steps = 0
    begun = 0.0
    ended = 0.0

    def step(self, step: object) -> None:
        """Note the time."""
        self.steps += 1
        self.ended = time.process_time()
        if self.steps == SKIPPED:
            self.begun = self.ended

    def images_per_second(self) -> float:
        """Return the speed."""
        return BATCH * (self.steps - SKIPPED) / (self.ended - self.begun)


def noise() -> DataSet:
    """Return random images and labels, one epoch of steps."""
    made = torch.Generator().manual_seed(0)
    count = BATCH * STEPS
    images = torch.randint(0, 256, (count, 3, 32, 32), dtype=torch.uint8, generator=made)
    part = Split(images, torch.randint(0, 10, (count,), generator=made))
    few = Split(part.images[:2], part.labels[:2])
    return DataSet("cifar10", part, few, 10, (3, 32, 32), MEAN, STD, "noise")


def ours(data: DataSet, widths: tuple[int, ...], changes: list[str]) -> float:
    """Return images a second of a run of ours."""
    clock = Clock()
    recipe = find_recipe("fast_cifar", changes=["epochs = 1", "ema = 0.0", *changes])
    config = run_config(
        model="fast_cifar",
        unit="relu",
        model_options={"widths": list(widths)},
        data="cifar10",
        recipe=recipe,
        evaluate_every=1000,
    )
    with tempfile.TemporaryDirectory() as folder:
        train(
            config,
            f"{folder}/run",
            data=data,
            pace=Pace(checkpoint_seconds=1e6),
            watchers=[clock],
        )
    return clock.images_per_second()


def bare_loop(data: DataSet, widths: tuple[int, ...]) -> float:
    """Return images a second of a loop with nothing but torch."""
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (MEAN, STD))
    padded = F.pad((data.train.images.float() / 255 - mean) / std, (SHIFT,) * 4, mode="reflect")
    network = create_model("fast_cifar", unit="relu", widths=list(widths))
    network = network.to(memory_format=torch.channels_last)
    groups = _groups(network)
    optimiser = torch.optim.SGD(groups, lr=0.1, momentum=0.85, nesterov=True, fused=True)
    clock = Clock()
    for rows in torch.randperm(len(padded)).split(BATCH):
        images = _shifted(padded, rows).contiguous(memory_format=torch.channels_last)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            outputs = network(images)
        labels = data.train.labels[rows]
        optimiser.zero_grad()
        F.cross_entropy(outputs.float(), labels, label_smoothing=0.2).backward()
        optimiser.step()
        clock.step(None)
    return clock.images_per_second()


def _groups(network: nn.Module) -> list[dict[str, object]]:
    """Return the trained parameters, norms apart from the others."""
    norms = [p for m in network.modules() if isinstance(m, nn.BatchNorm2d) for p in m.parameters()]
    known = {id(parameter) for parameter in norms}
    others = [p for p in network.parameters() if id(p) not in known]
    groups = []
    for parameters, lr in ((norms, 6.4), (others, 0.1)):
        groups.append({"params": [p for p in parameters if p.requires_grad], "lr": lr})
    return groups


def _shifted(padded: Tensor, rows: Tensor) -> Tensor:
    """Return a batch of images, each shifted by up to two pixels, half of them mirrored."""
    sides = 2 * SHIFT + 1
    offsets = torch.randint(0, sides, (len(rows), 2))
    images = torch.empty(len(rows), 3, 32, 32)
    for down in range(sides):
        for right in range(sides):
            chosen = (offsets == torch.tensor([down, right])).all(1)
            images[chosen] = padded[rows[chosen], :, down : down + 32, right : right + 32]
    mirrored = torch.rand(len(rows)) < 0.5
    images[mirrored] = images[mirrored].flip(-1)
    return images


def fastest(ways: dict[str, Callable[[], float]]) -> dict[str, float]:
    """Run each way in turn, again and again."""
    speeds: dict[str, float] = dict.fromkeys(ways, 0.0)
    for _ in range(REPEATS):
        for name, way in ways.items():
            speeds[name] = max(speeds[name], way())
    return speeds


def main() -> None:
    """Measure, print, and append."""
    torch.set_num_threads(1)
    tune_allocator()
    data = noise()
    bfloat16, float32 = 'precision = "bfloat16"', 'precision = "float32"'
    for widths in WIDTHS:
        ways = {
            LOOP: lambda widths=widths: bare_loop(data, widths),
            OURS: lambda widths=widths: ours(data, widths, [bfloat16]),
            FLOAT32: lambda widths=widths: ours(data, widths, [float32]),
            CONTIGUOUS: lambda widths=widths: ours(
                data, widths, [float32, "channels_last = false"]
            ),
        }
        speeds = fastest(ways)
        network = f"fast_cifar {'-'.join(map(str, widths))}"
        for name, speed in speeds.items():
            print(f"{network:24} {name:36} {speed:6.0f} images/s")
            keep("fast_training", {"network": network, "what": name, "images/s": round(speed)})
        for (first, second), target in TARGETS.items():
            ratio = speeds[first] / speeds[second]
            met = "met" if ratio >= target else "missed"
            print(f"{network:24} {first} / {second}: {ratio:.2f} (target {target}: {met})")
            row = {"network": network, "what": f"{first} / {second}", "ratio": round(ratio, 3)}
            keep("fast_training", row | {"target": target, "verdict": met})


if __name__ == "__main__":
    main()
