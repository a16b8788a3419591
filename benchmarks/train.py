"""What a run costs: processor time against plain loops, and share of matrix-multiply speed.

    python benchmarks/train.py            # about two minutes

Appends to ``benchmarks/results/train.csv``.

Small networks are bound by overhead, so an MLP 784-100x6-10 at batch 32 on 3,200 examples shows
what the loop adds to torch. "plain loop" is the same training with nothing but torch: in-memory
batches, the same fused optimiser, no seeds, metrics, checks or checkpoints. ConvPool-CNN-C at batch
64 on 32x32x3 is bound by arithmetic. One thread, in turns, the lowest of nine: other work on a
machine only adds. Nothing here depends on what the images show: they are noise.
"""

import statistics
import tempfile
import time
from collections.abc import Callable

import torch
from kept import keep
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset
from torch.utils.flop_counter import FlopCounterMode

from gatewise.data import DataSet, Split
from gatewise.models import create_model
from gatewise.train.config import read_recipe, run_config
from gatewise.train.loop import Pace, Watcher
from gatewise.train.run import train

REPEATS, EPOCHS = 9, 2
WIDTHS = [100] * 6
SGD = "batch = {batch}\nepochs = {epochs}\noptimiser = {{name = 'sgd', lr = 0.01}}"


class Stopwatch(Watcher):
    """Processor time from before the first step to after the last one."""

    def start(self, start: object) -> None:
        """Begin."""
        self.begin = time.process_time()

    def step(self, step: object) -> None:
        """So far."""
        self.taken = time.process_time() - self.begin


def noise(count: int, shape: tuple[int, int, int]) -> DataSet:
    """A data set of random images and labels."""
    made = torch.Generator().manual_seed(0)
    part = Split(
        torch.randn(count, *shape, generator=made), torch.randint(0, 10, (count,), generator=made)
    )
    return DataSet(
        "digits",
        part,
        Split(part.images[:2], part.labels[:2]),
        10,
        shape,
        (0.0,) * shape[0],
        (1.0,) * shape[0],
        "noise",
    )


def ours(data: DataSet, name: str, batch: int, epochs: int, pace: Pace, **options: object) -> float:
    """Seconds of an epoch in a run of ours."""
    watch = Stopwatch()
    recipe = read_recipe(SGD.format(batch=batch, epochs=epochs))
    config = run_config(model=name, model_options=options, recipe=recipe, evaluate_every=1000)
    with tempfile.TemporaryDirectory() as folder:
        train(config, f"{folder}/run", data=data, pace=pace, watchers=[watch])
    return watch.taken / epochs


def by_loop(batches: Callable[[], object], net: nn.Module, epochs: int, fused: bool) -> float:
    """Seconds of an epoch of the loop that every tutorial shows."""
    optimiser = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, fused=fused)
    begin = time.process_time()
    for _ in range(epochs):
        for images, labels in batches():
            optimiser.zero_grad()
            F.cross_entropy(net(images), labels).backward()
            optimiser.step()
    return (time.process_time() - begin) / epochs


class Items(Dataset):
    """Images as arrays that are made tensors one by one, as with most image folders."""

    def __init__(self, split: Split) -> None:
        self.images, self.labels = split.images.numpy(), split.labels.numpy()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, place: int) -> tuple[Tensor, int]:
        return torch.from_numpy(self.images[place]), int(self.labels[place])


def in_memory(split: Split, batch: int) -> Callable[[], object]:
    """Batches by indexing."""
    return lambda: (
        (split.images[i], split.labels[i]) for i in torch.randperm(len(split)).split(batch)
    )


def contenders(data: DataSet) -> dict[str, Callable[[], float]]:
    """Seconds of an epoch, in each way."""
    split, shape = data.train, {"features": 784, "widths": WIDTHS}

    def net() -> nn.Module:
        return create_model("mlp", **shape)

    return {
        "plain loop in memory": lambda: by_loop(in_memory(split, 32), net(), EPOCHS, True),
        "gatewise": lambda: ours(
            data, "mlp", 32, EPOCHS, Pace(checkpoint_seconds=1e6), widths=WIDTHS
        ),
        "gatewise, saving every second": lambda: ours(
            data, "mlp", 32, EPOCHS, Pace(checkpoint_seconds=1), widths=WIDTHS
        ),
        "DataLoader(TensorDataset)": lambda: by_loop(
            lambda: DataLoader(TensorDataset(split.images, split.labels), 32, shuffle=True),
            net(),
            EPOCHS,
            False,
        ),
        "DataLoader, item by item": lambda: by_loop(
            lambda: DataLoader(Items(split), 32, shuffle=True), net(), EPOCHS, False
        ),
    }


def lowest(ways: dict[str, Callable[[], float]]) -> dict[str, float]:
    """Each way in turn, again and again."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for repeat in range(REPEATS + 1):
        for name, way in ways.items():
            taken = way()
            if repeat:
                times[name].append(taken)
    return {name: min(taken) for name, taken in times.items()}


def multiply_speed(size: int = 1024) -> float:
    """Operations a second of a square matrix product."""
    a, b, taken = torch.randn(size, size), torch.randn(size, size), []
    for _ in range(8):
        begin = time.process_time()
        a @ b
        taken.append(time.process_time() - begin)
    return 2 * size**3 / min(taken)


def convpool_share(unit: str) -> tuple[float, float]:
    """Images a second of ConvPool-CNN-C, and its share of the speed of matrix products."""
    data, batch = noise(256, (3, 32, 32)), 64
    with FlopCounterMode(display=False) as count:
        net = create_model("convpool_cnn", unit=unit)
        net(torch.randn(1, 3, 32, 32)).sum().backward()
    shares = []
    for _ in range(3):
        speed = multiply_speed()
        seconds = ours(data, "convpool_cnn", batch, 1, Pace(checkpoint_seconds=1e6), unit=unit)
        shares.append((256 / seconds, count.get_total_flops() * 256 / seconds / speed))
    return max(rate for rate, _ in shares), statistics.median(share for _, share in shares)


def main() -> None:
    """Measure, print, and append."""
    torch.set_num_threads(1)
    rows = []
    found = lowest(contenders(noise(3200, (1, 28, 28))))
    for name, seconds in found.items():
        rows.append(
            [
                "mlp 784-100x6-10 batch 32",
                name,
                "times plain loop",
                round(seconds / found["plain loop in memory"], 2),
            ]
        )
    for unit in ("relu", "crelu"):
        rate, share = convpool_share(unit)
        rows.append([f"convpool_cnn {unit} 32x32 batch 64", "gatewise", "images/s", round(rate, 1)])
        rows.append(
            [
                f"convpool_cnn {unit} 32x32 batch 64",
                "gatewise",
                "share of matrix-multiply speed",
                round(share, 2),
            ]
        )
    for row in rows:
        keep("train", dict(zip(("what", "way", "measure", "value"), row, strict=True)))
        print(f"{row[0]:36} {row[1]:32} {row[3]:8} {row[2]}")


if __name__ == "__main__":
    main()
