"""Tangent kernels: time, peak memory and error beside torch.func and neural-tangents, in one run.

    python benchmarks/ntk.py            # about five minutes with the peers

Appends to ``benchmarks/results/ntk.csv``.

How to have the peers is said in `ntk_methods.py`; without them their rows say "absent". One thread,
methods in turn within each round, CPU time, medians over rounds: only ratios are worth comparing.
Peak memory is what a process of its own needs beyond model, inputs and compiled code. Errors are
against explicit Jacobians in float64.
"""

import argparse
import gc
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

import torch
from kept import keep
from ntk_methods import METHODS, as_square, peer_versions
from torch import Tensor, nn

import gatewise as gw

ROUNDS, SLOW_ROUNDS = (
    15,
    2,
)  # slow ones need fewer rounds: their spread is small beside their distance
QUICK = {"gatewise", "neural-tangents structured"}
NOT_RUN = {("flatten cnn", "neural-tangents vector products")}  # many minutes


def mlp() -> tuple[nn.Module, Tensor]:
    """Depth 6, width 500, 200 samples of 784 numbers."""
    sizes = (784, *(500 for _ in range(5)))
    hidden = [layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(500, 1)), torch.randn(200, 784)


def flatten_cnn() -> tuple[nn.Module, Tensor]:
    """The convolution network of arXiv:2002.03996, experiment 6, with one output.

    33.8 million parameters.
    """
    channels = (3, 64, 64, 128, 128)
    hidden = [
        layer for a, b in pairwise(channels) for layer in (nn.Conv2d(a, b, 3, padding=1), nn.ReLU())
    ]
    dense = (
        nn.Linear(128 * 32 * 32, 256),
        nn.ReLU(),
        nn.Linear(256, 256),
        nn.ReLU(),
        nn.Linear(256, 1),
    )
    return nn.Sequential(*hidden, nn.Flatten(), *dense), torch.randn(12, 3, 32, 32)


CASES: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "mlp 6x500": mlp,
    "flatten cnn": flatten_cnn,
}


def built(case: str) -> tuple[nn.Module, Tensor]:
    """A case's model and inputs, the same in every process."""
    torch.manual_seed(0)
    return CASES[case]()


def reference(model: nn.Module, x: Tensor) -> Tensor:
    """The kernel by definition, in float64, the largest parameter apart from the others.

    Shape: ``(n, n)``.
    """
    model, x = model.double(), x.double()
    *others, largest = sorted(model.parameters(), key=torch.numel)
    total = torch.zeros(len(x), len(x), dtype=torch.float64)
    for group in (others, [largest]):
        gradients = (torch.autograd.grad(model(sample[None]).sum(), group) for sample in x)
        jacobian = torch.stack([torch.cat([each.flatten() for each in row]) for row in gradients])
        total += jacobian @ jacobian.mT
    return total


def measure(kernels: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Median CPU seconds of each method, taken in turn."""
    taken: dict[str, list[float]] = {name: [] for name in kernels}
    for each in range(ROUNDS + 1):
        for name, kernel in kernels.items():
            if name not in QUICK and each > SLOW_ROUNDS:
                continue
            gc.collect()
            start = time.process_time()
            kernel()
            taken[name].append(time.process_time() - start)
    return {
        name: statistics.median(times[1:]) for name, times in taken.items()
    }  # the first warms up


def resident(what: str) -> int:
    """A line of /proc/self/status, in bytes: VmRSS now, VmHWM at its highest."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(what))


def peak(case: str, method: str) -> int:
    """Bytes that one call needs beyond what was there before it; for a process of its own."""
    torch.set_num_threads(1)
    small = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    METHODS[method](small, torch.randn(3, 4))()  # what is loaded at the first call is not counted
    kernel = METHODS[method](*built(case))
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the highest so far is forgotten
    before = resident("VmRSS")
    kernel()
    return resident("VmHWM") - before


def peak_in_child(case: str, method: str) -> float:
    """The same in MiB, from a new process; NaN where the system does not tell."""
    if not Path("/proc/self/clear_refs").exists():
        return float("nan")
    command = [sys.executable, __file__, "--peak", case, method]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 (our own script)
    return int(done.stdout.split()[-1]) / 2**20


def compare(case: str, methods: list[str]) -> list[dict[str, str]]:
    """One row for each method."""
    model, x = built(case)
    kernels = {
        method: METHODS[method](model, x) for method in methods if (case, method) not in NOT_RUN
    }
    seconds = measure(kernels)
    found = {method: as_square(kernel(), len(x)) for method, kernel in kernels.items()}
    del kernels
    want = reference(model, x)
    found["gatewise, float64"] = gw.analysis.ntk(model, x.double())
    rows = []
    for method in [*METHODS, "gatewise, float64"]:
        row = {
            "case": case,
            "method": method,
            "times_gatewise": "absent",
            "peak_mib": "",
            "error": "",
        }
        if (case, method) in NOT_RUN:
            row["times_gatewise"] = "not run"
        elif method in found:
            timed = method in seconds
            row["times_gatewise"] = f"{seconds[method] / seconds['gatewise']:.2f}" if timed else ""
            row["peak_mib"] = f"{peak_in_child(case, method):.1f}" if timed else ""
            row["error"] = f"{((found[method] - want).abs().max() / want.abs().max()).item():.1e}"
        rows.append(row)
        print(
            f"  {method:40}{row['times_gatewise']:>10}{row['peak_mib']:>12}{row['error']:>10}",
            flush=True,
        )
    print(f"  ours takes {1e3 * seconds['gatewise']:.1f} ms of CPU time")
    return rows


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--peak", nargs=2, metavar=("CASE", "METHOD"), help="print the peak of one method, in bytes"
    )
    parser.add_argument("--case", choices=CASES, action="append", help="measure this case only")
    asked = parser.parse_args()
    if asked.peak is not None:
        print(peak(*asked.peak))
        return
    torch.set_num_threads(1)
    versions = peer_versions()
    methods = [
        name for name in METHODS if "absent" not in versions.values() or "neural" not in name
    ]
    rows = []
    for case in asked.case or CASES:
        print(f"{case:42}{'x ours':>10}{'peak MiB':>12}{'error':>10}")
        rows += compare(case, methods)
    keep("ntk", *({**versions, **row} for row in rows))


if __name__ == "__main__":
    main()
