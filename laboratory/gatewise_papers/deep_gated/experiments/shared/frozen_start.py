"""What Experiments 1 and 2 share: initial networks, their kernels, and descent from there."""

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis import ntk, spectrum
from gatewise.studies import CellCall
from gatewise_papers.common import (
    Claim,
    Numbers,
    Panel,
    Row,
    by_seed,
    column,
    finite_mean,
    judge_trend,
    judged,
    line,
    row,
)
from gatewise_papers.deep_gated.experiments.shared.randomness import generator, uniform
from gatewise_papers.deep_gated.networks import DeepGatedNetwork
from gatewise_papers.deep_gated.stacked import StackedNetworks, descend_stacked

DEPTHS = (2, 4, 6, 8, 12, 16, 20)
STEP = 0.1  # step size times the largest eigenvalue

DepthCells = Mapping[int, Mapping[str, Any]]  # what :func:`descend` returns, by depth


def start(
    gate: str,
    d_in: int,
    width: int,
    depth: int,
    seed: int,
    *,
    n: int,
    mu: float = 0.5,
) -> DeepGatedNetwork:
    """Return a network with its initial weights, in float64.

    Args:
        gate: the kind of gates.
        d_in: size of an input.
        width: of each layer.
        depth: layers.
        seed: of the weights.
        n: number of examples; random gates need one gate per example.
        mu: the probability that a random gate is open.
    """
    return DeepGatedNetwork(
        d_in,
        width,
        depth,
        gate=gate,
        mu=mu,
        examples=n if gate == "random" else None,
        generator=generator(seed, "network", width, depth),
        dtype=torch.float64,
    )


class _Gated(nn.Module):
    """The network with its gates as inputs."""

    def __init__(self, network: DeepGatedNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor, *gates: Tensor) -> Tensor:
        return self.network(x, gates=gates)


def kernel(network: DeepGatedNetwork, x: Tensor) -> Tensor:
    """Return the tangent kernel with the gates fixed.

    Weights of equal size often cancel exactly, and then rounding decides whether a hard gate is
    open. With the gates of one pass, every entry of the kernel has the same gates.

    Args:
        network: with its initial weights.
        x: inputs (n, d_in), which are the training examples in order.
    """
    index = torch.arange(len(x)) if network.gate == "random" else None
    inputs = (x, *network.gates(x, index))
    return ntk(_Gated(network), inputs, parameters=network.strength_parameters())


def inputs(d_in: int, n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return inputs (n, d_in) and random targets (n,).

    For ``d_in`` = 1 the inputs are those of Experiment 1, all 1; for 2 those of Experiment 2, drawn
    from a square.
    """
    x = torch.ones(n, 1, dtype=torch.float64) if d_in == 1 else uniform((n, d_in), seed, "inputs")
    return x, uniform((n,), seed, "targets")


def descend(
    gate: str,
    width: int,
    depth: int,
    d_in: int,
    n: int,
    steps: int,
    seeds: Sequence[int],
    _: CellCall,
) -> dict[str, list[list[float]]]:
    """Run gradient descent on half the sum of squares, in float32.

    The step size is 0.1 over the largest eigenvalue of the kernel.

    Args:
        gate: the kind of gates.
        width: of each layer.
        depth: layers.
        d_in: size of an input.
        n: number of examples.
        steps: of descent.
        seeds: one network each.

    Returns:
        By seed: ``ratio``, the norm of the error over its initial norm after each step; and
        ``eigenvalues`` of the initial kernel over the largest, ascending.
    """
    data = [inputs(d_in, n, seed) for seed in seeds]
    networks = [start(gate, d_in, width, depth, seed, n=n) for seed in seeds]
    spectra = []
    for network, (inside, _targets) in zip(networks, data, strict=True):
        spectra.append(spectrum(kernel(network, inside)))
    x = torch.stack([x for x, y in data]).float()
    y = torch.stack([y for x, y in data]).float()
    history = descend_stacked(
        StackedNetworks([network.float() for network in networks]),
        x,
        y,
        step_sizes=[STEP / float(values.eigenvalues[-1]) for values in spectra],
        steps=steps,
        index=torch.arange(n) if gate == "random" else None,
    )
    ratios = []
    for losses in history.by_seed():
        ratios.append([math.sqrt(loss / losses[0]) for loss in losses])
    normalised = [values.normalised().eigenvalues.tolist() for values in spectra]
    return {"ratio": ratios, "eigenvalues": normalised}


def ratio_panel(title: str, cells: DepthCells) -> Panel:
    """Return the plot of the error over its initial size, by step, one line per depth."""
    lines = []
    for depth, cell in cells.items():
        lines.append(line(f"d={depth}", range(len(cell["ratio"][0])), cell["ratio"]))
    return Panel(f"convergence, {title}", "steps", "|e_t| / |e_0|", lines, log_y=True)


def spectrum_panel(title: str, cells: DepthCells) -> Panel:
    """Return the plot of the cumulative eigenvalues over the largest, one line per depth."""
    lines = []
    for depth, cell in cells.items():
        cumulative = [list(accumulate(values)) for values in cell["eigenvalues"]]
        lines.append(line(f"d={depth}", range(1, len(cumulative[0]) + 1), cumulative))
    return Panel(
        f"spectrum, {title}",
        "eigenvalues, smallest first",
        "cumulative sum over the largest",
        lines,
    )


def depth_rows(title: str, cells: DepthCells) -> list[Row]:
    """Return for each depth the error that is left and the sum of normalised eigenvalues."""
    rows = []
    for depth, cell in cells.items():
        about = f"{title}, d={depth}"
        traces = [sum(values) for values in cell["eigenvalues"]]
        rows.append(row(f"error left, {about}", column(cell["ratio"], -1)))
        rows.append(row(f"trace over largest eigenvalue, {about}", traces))
    return rows


def final_ratios(cells: DepthCells) -> dict[int, Numbers]:
    """Return the error that is left, by depth and seed."""
    return {depth: column(cell["ratio"], -1) for depth, cell in cells.items()}


def steps_until(cells: DepthCells, share: float) -> dict[int, Numbers]:
    """Return after how many steps a share of the error is left, by depth and seed.

    It is one more than the number of steps if more is left at the end. Unlike the error at the end,
    it does not depend on the rounding of float32, which is all that is left of an error of 1e-6.

    Args:
        cells: curves by depth.
        share: of the initial error.
    """
    steps: dict[int, Numbers] = {}
    for depth, cell in cells.items():
        by_seed_of_depth = []
        for ratios in cell["ratio"]:
            reached = [step for step, ratio in enumerate(ratios) if ratio <= share]
            by_seed_of_depth.append(float(reached[0] if reached else len(ratios)))
        steps[depth] = by_seed_of_depth
    return steps


def whiteness(cells: DepthCells) -> dict[int, Numbers]:
    """Return the trace over the largest eigenvalue, by depth and seed.

    It is n for a white kernel and 1 for a kernel of rank 1.
    """
    traces = {}
    for depth, cell in cells.items():
        traces[depth] = [sum(values) for values in cell["eigenvalues"]]
    return traces


def depth_trend(
    published: str,
    values: Mapping[int, Numbers],
    what: str,
    *,
    rises: bool = True,
    monotone: bool = True,
) -> Claim:
    """Judge that a number rises, or falls, with depth.

    Args:
        published: what the paper says.
        values: one per seed, by depth.
        what: names the number.
        rises: False for a claim that it falls.
        monotone: whether it does so with every step; False to judge the slope alone.
    """
    levels = {depth: by_seed(seeds) for depth, seeds in values.items()}
    trend = judge_trend(levels, rises=rises, monotone=monotone)
    return judged(published, trend, before=f"{what}: {in_words(values)}")


def in_words(values: Mapping[int, Numbers]) -> str:
    """Return the means over seeds by depth, for a sentence."""
    return ", ".join(f"d={depth} {finite_mean(seeds):.3g}" for depth, seeds in values.items())
