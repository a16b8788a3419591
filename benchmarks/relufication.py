"""What ReLU in place of SiLU costs a small language model, with and without a penalty.

    python benchmarks/relufication.py      # about 15 minutes of one core; appends to
    benchmarks/results/relufication.csv

A decoder of 0.5 million parameters with SwiGLU is trained on the text of the library. Then
``gw.sparsity.relufy`` replaces its activations and trains a copy, once for each setting and seed.
Reported are the share of zeros that linear layers read, and the loss in nats per byte on text that
was not trained on. The first row is the unchanged model, trained for as many steps.
"""

import copy
import sys
import time
from typing import Any

import torch
from kept import keep
from torch import Tensor, nn
from torch.nn import functional as F

import gatewise as gw

STEPS, EPOCHS, ROWS = 500, 2, 16
PEAK, FINE = 6e-3, 1e-3
SEEDS = 3
SETTINGS: dict[str, dict[str, Any]] = {
    "relu": {"penalties": (0.0,)},
    "relu, penalty to 10": {"penalties": (0.0, 3.0, 10.0)},
    "relu, penalty to 30": {"penalties": (0.0, 10.0, 30.0)},
    "relu, after norms too": {"norms": True, "penalties": (0.0,)},
    "relu, after norms too, penalty to 30": {"norms": True, "penalties": (0.0, 10.0, 30.0)},
}
Batch = tuple[Tensor, Tensor]


def split(data: Any, count: int) -> list[Batch]:
    """Return the first batches of a split."""
    rows = data.first(ROWS * count)
    return list(zip(rows.images.long().split(ROWS), rows.labels.split(ROWS), strict=True))


def train(
    model: nn.Module, batches: list[Batch], steps: int, peak: float, *, rising: float
) -> None:
    """Train with AdamW, up for a share ``rising`` of the steps and then down to 0."""
    optimizer = torch.optim.AdamW(model.parameters(), peak, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, peak, total_steps=steps, pct_start=rising
    )
    model.train()
    for step in range(steps):
        inputs, labels = batches[step % len(batches)]
        loss = F.cross_entropy(model(inputs).flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    model.eval()


@torch.no_grad()
def loss_of(model: nn.Module, batches: list[Batch]) -> float:
    """Return the mean loss in nats per byte."""
    losses = [F.cross_entropy(model(x).flatten(0, 1), y.flatten()) for x, y in batches]
    return float(torch.stack(losses).mean())


def main() -> None:
    """Train, replace, train again, and append a row for each setting and seed."""
    torch.set_num_threads(1)
    data = gw.data.load("text", train=1600, test=400)
    torch.manual_seed(0)
    model = gw.models.create_model("small_llama", unit="swiglu", width=96, depth=4, heads=4)
    batches = split(data.train, 100)
    train(model, batches, STEPS, PEAK, rising=0.1)
    held_out = split(data.test, 16)
    measured = held_out[8:]  # relufy calibrates on the first half of the batches
    print(f"trained for {STEPS} steps: loss {loss_of(model, measured):.4f}", file=sys.stderr)
    for seed in range(SEEDS):
        same = copy.deepcopy(model)
        torch.manual_seed(seed)
        order = torch.randperm(len(batches)).tolist()
        train(same, [batches[number] for number in order], EPOCHS * len(batches), FINE, rising=0.01)
        write("as it was", seed, 0.0, None, loss_of(same, measured), 0.0)
        for name, options in SETTINGS.items():
            start = time.process_time()
            found = gw.sparsity.relufy(
                model,
                batches,
                held_out,
                lr=FINE,
                epochs=EPOCHS,
                levels=(),
                per_layer=False,
                repeats=1,
                seed=seed,
                **options,
            )
            seconds = time.process_time() - start
            loss = loss_of(found.model, measured)
            untrained = found.training.untrained.loss if found.training else None
            write(name, seed, found.sparsity, untrained, loss, seconds)


def write(
    name: str, seed: int, zeros: float, untrained: float | None, loss: float, seconds: float
) -> None:
    """Print a row and append it to the file of results."""
    row = {
        "setting": name,
        "seed": seed,
        "zeros": f"{zeros:.4f}",
        "loss_before_training": "" if untrained is None else f"{untrained:.4f}",
        "loss": f"{loss:.4f}",
        "seconds": f"{seconds:.0f}",
    }
    keep("relufication", row)
    print(*row.values(), flush=True)


if __name__ == "__main__":
    main()
