"""What the exact partition of a plane costs for each region, in its compiled and in its numpy form.

    python benchmarks/partition.py      # about half a minute; appends to
    benchmarks/results/partition.csv python benchmarks/partition.py --splinecam PYTHON COPY      #
    beside SplineCam: some minutes

One thread, processor time, everything included: reading the model (some 25 ms in the numpy form,
which reads a graph), splitting, maps and patterns. The machine's noise is some 20 %.

By itself: medians of alternating repeats. Beside SplineCam (`partition_splinecam.py` says how to
have it, and what is counted): the same weights, slice and polygon for both; the lowest of our
repeats and one run of the peer. There must be as many regions, and the same set of activation
patterns at points inside them, or there is no result. Ratios are given with and without the peer's
search for cycles, in which a stand-in for graph-tool may have worked: those without it are what we
claim.
"""

import argparse
import itertools
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from kept import keep
from torch import Tensor, nn

import gatewise as gw

PEER = Path(__file__).parent / "partition_splinecam.py"
REPEATS = 5
FORMS = ("native", "numpy")
Network = tuple[tuple[int, ...], float]  # widths, half side of the window
NETWORKS: tuple[Network, ...] = (
    ((10, 20, 20, 20, 1), 5.0),
    ((2, 64, 64, 64, 64, 1), 10.0),
    ((2, 128, 128, 128, 1), 5.0),
)
BESIDE_SPLINECAM: tuple[Network, ...] = (
    ((10, 10, 10, 1), 4.0),
    ((10, 20, 20, 20, 1), 1.5),
    ((784, 50, 50, 50, 1), 1.0),
    ((10, 50, 50, 50, 50, 1), 2.2),
    ((2, 64, 64, 64, 64, 1), 5.0),
)


def dense(widths: tuple[int, ...]) -> nn.Sequential:
    """A ReLU network, the same in every run."""
    torch.manual_seed(0)
    layers = [part for a, b in itertools.pairwise(widths) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1]).double()


def measured(network: Network) -> tuple[gw.analysis.Partition, dict[str, list[float]]]:
    """The partition, and the processor seconds that each form took for it, time after time."""
    widths, half = network
    model, points = dense(widths), torch.eye(3, widths[0], dtype=torch.float64).roll(1, 0)
    times: dict[str, list[float]] = {form: [] for form in FORMS}
    counts = set()
    for repeat, form in itertools.product(range(REPEATS + 1), FORMS):
        start = time.process_time()
        found = gw.analysis.partition(model, points, extent=(-half, half, -half, half), form=form)
        taken = time.process_time() - start
        counts.add((found.count, len(set(found.patterns.tolist()))))
        if repeat:
            times[form].append(taken)
    if len(counts) != 1 or len(set(counts.pop())) != 1:
        raise SystemExit("the forms disagree, or a pattern has two regions")
    return found, times


def alone() -> Iterator[dict[str, object]]:
    """One row for each network and form."""
    for network in NETWORKS:
        found, times = measured(network)
        for form in FORMS:
            yield row(
                network, form, found.count, statistics.median(times[form]), f"median of {REPEATS}"
            )


def beside_splinecam(python: str, copy: str) -> Iterator[dict[str, object]]:
    """For each network a row for each form, with its ratios, and two for SplineCam."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ours = [measured(network) for network in BESIDE_SPLINECAM]
        for i, (network, (found, _)) in enumerate(zip(BESIDE_SPLINECAM, ours, strict=True)):
            hand_over(folder / f"{i}.npz", dense(network[0]), found)
        command = [python, str(PEER), copy, name]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603 (our own script)
        told = json.loads(done.stdout.splitlines()[-1])
        peer = ", ".join(f"{name} {version}" for name, version in told["versions"].items())
        for i, (network, (found, times)) in enumerate(zip(BESIDE_SPLINECAM, ours, strict=True)):
            check_same(dense(network[0]), found, np.load(folder / f"{i}.npy", allow_pickle=False))
            whole = told["times"][str(i)]["seconds"]
            without = whole - told["times"][str(i)]["search"]
            yield row(network, "splinecam", found.count, whole, "one run", peer=peer)
            yield row(
                network, "splinecam without search", found.count, without, "one run", peer=peer
            )
            for form in FORMS:
                lowest = min(times[form])
                ratios = {
                    "splinecam_times": whole / lowest,
                    "splinecam_without_search_times": without / lowest,
                }
                yield row(
                    network, form, found.count, lowest, f"lowest of {REPEATS}", peer=peer, **ratios
                )


def hand_over(path: Path, model: nn.Sequential, found: gw.analysis.Partition) -> None:
    """Write the network, the slice and the window's corners for the peer."""
    layers = [part for part in model if isinstance(part, nn.Linear)]
    arrays = {f"weight{i}": layer.weight.detach().numpy() for i, layer in enumerate(layers)}
    arrays |= {f"bias{i}": layer.bias.detach().numpy() for i, layer in enumerate(layers)}
    (left, bottom), (right, top) = found.slice.low, found.slice.high
    polygon = np.array([(left, bottom), (right, bottom), (right, top), (left, top)])
    plane = (
        torch.cat((found.slice.axes, found.slice.origin[None])).T.contiguous().numpy()
    )  # (inputs, 3)
    np.savez(path, slice=plane, polygon=polygon, **arrays)


def check_same(model: nn.Sequential, found: gw.analysis.Partition, theirs: np.ndarray) -> None:
    """No result if there are not as many regions, or not the same patterns inside them."""
    sets = [
        patterns(model, found.slice.inputs(torch.from_numpy(each)))
        for each in (found.polygons.middles, theirs)
    ]
    counts = (found.count, len(sets[0]), len(theirs), len(sets[1]))
    if len(set(counts)) != 1 or sets[0] != sets[1]:
        raise SystemExit(
            f"regions and patterns, ours and SplineCam's: {counts}; "
            f"shared: {len(sets[0] & sets[1])}"
        )


def patterns(model: nn.Sequential, x: Tensor) -> set[bytes]:
    """Which units are active at each of the inputs."""
    active = []
    with torch.no_grad():
        for part in model:
            x = part(x)
            if isinstance(part, nn.ReLU):
                active.append(x > 0)
    return {each.tobytes() for each in np.packbits(torch.cat(active, 1).numpy(), axis=1)}


def row(
    network: Network,
    form: str,
    regions: int,
    seconds: float,
    how: str,
    peer: str = "",
    **ratios: float,
) -> dict[str, object]:
    """As it is written to the file."""
    return {
        "network": "-".join(map(str, network[0])),
        "form": form,
        "regions": regions,
        "ms": f"{seconds * 1e3:.1f}",
        "us_per_region": f"{seconds / regions * 1e6:.2f}",
        "time": how,
        "splinecam_times": f"{ratios['splinecam_times']:.1f}" if ratios else "",
        "splinecam_without_search_times": f"{ratios['splinecam_without_search_times']:.1f}"
        if ratios
        else "",
        "peer": peer,
    }


def main() -> None:
    """Measure, print, and append to the file of results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--splinecam", nargs=2, metavar=("PYTHON", "COPY"), help="its Python, and where its copy is"
    )
    asked = parser.parse_args()
    torch.set_num_threads(1)
    for each in beside_splinecam(*asked.splinecam) if asked.splinecam else alone():
        keep("partition", each)
        print(*each.values(), flush=True)


if __name__ == "__main__":
    main()
