"""What Experiments 1 and 2 share.

Networks at their start, their kernels, and gradient descent from there.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gatewise.analysis import ntk, spectrum
from gatewise.models import DeepGatedNetwork
from gatewise.papers.deep_gated.shared.many_seeds import ManySeeds, descend
from gatewise.papers.deep_gated.shared.randomness import generator, uniform

DEPTHS = (2, 4, 6, 8, 12, 16, 20)
STEP = 0.1  # times 1 / the largest eigenvalue


def start(
    gate: str, d_in: int, width: int, depth: int, seed: int, *, n: int, mu: float = 0.5
) -> DeepGatedNetwork:
    """A network at its start, in float64, for ``n`` examples."""
    examples = n if gate == "random" else None
    return DeepGatedNetwork(
        d_in,
        width,
        depth,
        gate=gate,
        mu=mu,
        examples=examples,
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
    """The tangent kernel at the inputs ``x`` (n, d_in), which are the training examples in order, its gates held fixed.

    Weights of equal size often cancel exactly, and then rounding decides whether a hard gate is open. Taken from one
    pass and held fixed, the gates are the same for every entry.
    """
    index = torch.arange(len(x)) if network.gate == "random" else None
    return ntk(
        _Gated(network), (x, *network.gates(x, index)), parameters=network.strength_parameters()
    )


def normalised_eigenvalues(kernel: Tensor) -> list[float]:
    """Of the kernel divided by its largest eigenvalue, ascending."""
    return spectrum(kernel).normalised().eigenvalues.tolist()


def inputs(d_in: int, n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Random targets, and for ``d_in`` = 1 Experiment 1's inputs, all 1, for 2 those of Experiment 2, from a square."""
    x = torch.ones(n, 1, dtype=torch.float64) if d_in == 1 else uniform((n, d_in), seed, "inputs")
    return x, uniform((n,), seed, "targets")


def convergence(
    gate: str, width: int, depth: int, *, d_in: int, n: int, steps: int, seeds: Sequence[int]
) -> dict[str, list[list[float]]]:
    """For each seed, the error's length over its first one after each step, and the kernel's spectrum at the start.

    Full gradient descent on half the sum of squares, in float32, with step size 0.1 over the largest eigenvalue.
    """
    data = [inputs(d_in, n, seed) for seed in seeds]
    networks = [start(gate, d_in, width, depth, seed, n=n) for seed in seeds]
    kernels = [kernel(network, x) for network, (x, _) in zip(networks, data, strict=True)]
    sizes = [STEP / float(spectrum(each).eigenvalues[-1]) for each in kernels]
    x, y = (torch.stack(each).float() for each in zip(*data, strict=True))
    index = torch.arange(n) if gate == "random" else None
    many = ManySeeds([network.float() for network in networks])
    losses = descend(many, x, y, step_sizes=sizes, steps=steps, index=index).by_seed()
    ratios = [[math.sqrt(each / of_seed[0]) for each in of_seed] for of_seed in losses]
    return {"ratio": ratios, "eigenvalues": [normalised_eigenvalues(each) for each in kernels]}
