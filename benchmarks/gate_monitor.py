"""What gw.GateMonitor costs: the time of training steps and of records, in turns.

    python benchmarks/gate_monitor.py            # measure, print, and append to results/
    python benchmarks/gate_monitor.py --rounds 3 # fewer turns

One turn makes a few training steps, one record, and a few calls of ``step`` at which no record is
due. Numbers are medians of the processor time over the turns. The share is the time of one record
and of ``every`` such calls, divided by that of ``every`` training steps. The probe is 32 inputs.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from kept import keep
from torch import Tensor, nn
from torch.nn import functional as F

import gatewise as gw

EVERY = 100
PROBE = 32
STEPS = 3  # training steps of one turn


def small_cnn() -> tuple[nn.Module, Callable[[], Tensor]]:
    """A convolutional network on images of 32 x 32 pixels in batches of 64."""
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]
        layers += [nn.MaxPool2d(2)]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 16, 10))
    return model, lambda: torch.randn(64, 3, 32, 32)


def mlp() -> tuple[nn.Module, Callable[[], Tensor]]:
    """A multilayer perceptron with GELU in batches of 128."""
    layers: list[nn.Module] = []
    for inputs, outputs in ((784, 512), (512, 512), (512, 512)):
        layers += [nn.Linear(inputs, outputs), nn.GELU()]
    return nn.Sequential(*layers, nn.Linear(512, 10)), lambda: torch.randn(128, 784)


def small_llama() -> tuple[nn.Module, Callable[[], Tensor]]:
    """The decoder of the language-model track with SwiGLU, in batches of 16 x 64 bytes."""
    model = gw.models.create_model("small_llama", unit="swiglu")
    return model, lambda: torch.randint(256, (16, 64))


NETWORKS = {"small_cnn": small_cnn, "mlp": mlp, "small_llama": small_llama}


def loss_of(output: Tensor) -> Tensor:
    """The cross entropy with random labels."""
    labels = torch.randint(output.shape[-1], output.shape[:-1])
    return F.cross_entropy(output.flatten(0, -2), labels.flatten())


def measure(name: str, rounds: int, every: int) -> dict[str, object]:
    """Time training steps and records in turns, and return the row of the table."""
    torch.manual_seed(0)
    model, draw = NETWORKS[name]()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    inputs = draw()
    monitor = gw.GateMonitor(model, inputs[:PROBE], every=every, budget=None)

    def train() -> None:
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss_of(model(inputs)).backward()
            optimizer.step()

    steps = []
    records = []
    counts = []
    for number in range(rounds + 1):
        spent = [
            _processor_time(train) / STEPS,
            _processor_time(lambda: monitor.measure()),
            _processor_time(lambda: [monitor.step(every + 1) for _ in range(STEPS)]) / STEPS,
        ]
        if number:  # the first turn warms up
            for times, seconds in zip((steps, records, counts), spent, strict=True):
                times.append(seconds)
    step, record, count = map(statistics.median, (steps, records, counts))
    return {
        "network": name,
        "every": every,
        "probe": min(PROBE, len(inputs)),
        "batch": len(inputs),
        "sites": len(monitor.records[0].sites),
        "rounds": rounds,
        "step_ms": f"{1e3 * step:.2f}",
        "record_ms": f"{1e3 * record:.2f}",
        "idle_step_us": f"{1e6 * count:.2f}",
        "share_percent": f"{100 * (record / every + count) / step:.3f}",
        "setup_seconds": f"{monitor.setup_seconds:.2f}",
    }


def _processor_time(function: Callable[[], object]) -> float:
    begun = time.process_time()
    function()
    return time.process_time() - begun


def main() -> None:
    """Measure all networks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--every", type=int, default=EVERY)
    arguments = parser.parse_args()
    for name in NETWORKS:
        row = measure(name, arguments.rounds, arguments.every)
        print(row)
        keep("gate_monitor", row)


if __name__ == "__main__":
    main()
