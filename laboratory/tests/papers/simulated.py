"""Monte Carlo over first weights, and what it means for a theory to be inside its interval."""

from collections.abc import Sequence
from itertools import product
from statistics import NormalDist

import torch
from gatewise_papers.deep_gated import DeepGatedNetwork
from torch import Tensor
from torch.func import functional_call, jacrev, vmap

CONFIDENCE = 0.999


def signs(shapes: dict[str, torch.Size], draws: int, sigma: float, seed: int) -> dict[str, Tensor]:
    """Assumption 1: ``draws`` independent sets of weights, each entry -sigma or sigma."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: sigma
        * (2.0 * torch.randint(2, (draws, *shape), generator=generator, dtype=torch.float64) - 1)
        for name, shape in shapes.items()
    }


def tangents(
    network: DeepGatedNetwork,
    x: Tensor,
    weights: dict[str, Tensor],
    by: str,
    gates: Sequence[Tensor] | None = None,
) -> Tensor:
    """The derivative of every output by the parameters whose names begin with ``by``.

    (draws, n, parameters).

    ``weights`` are drawn; the other parameters are the network's own. ``gates`` (n, w) are held
    fixed if given.
    """
    fixed = {name: p.detach() for name, p in network.named_parameters() if name not in weights}

    def output(
        chosen: dict[str, Tensor], others: dict[str, Tensor], x: Tensor, *gates: Tensor
    ) -> Tensor:
        options = {"gates": [gate[None] for gate in gates]} if gates else {}
        return functional_call(network, chosen | others, (x[None],), options)[0, 0]

    def of_draw(drawn: dict[str, Tensor]) -> Tensor:
        everything = fixed | drawn
        chosen = {name: value for name, value in everything.items() if name.startswith(by)}
        others = {name: value for name, value in everything.items() if not name.startswith(by)}
        per_sample = vmap(lambda *sample: jacrev(output)(chosen, others, *sample))(
            x, *(gates or ())
        )
        return torch.cat([each.flatten(1) for each in per_sample.values()], 1)

    return vmap(of_draw)(weights)


def kernels(*arguments, **options) -> Tensor:
    """The Gram matrices of :func:`tangents`: (draws, n, n)."""
    psi = tangents(*arguments, **options)
    return psi @ psi.mT


def worst_miss(samples: Tensor, theory: Tensor) -> float:
    """How far the theory is outside, in half widths of the interval of the mean.

    At most 1 for a right theory.

    The interval is that of 99.9 % for all entries together (Bonferroni). An entry that does not
    vary must be met.
    """
    limit = NormalDist().inv_cdf(1 - (1 - CONFIDENCE) / (2 * theory.numel()))
    error = samples.std(0) / len(samples) ** 0.5 + 1e-12 * (1 + theory.abs())
    return float(((samples.mean(0) - theory).abs() / error).max()) / limit


def enumerated_paths(d_in: int, width: int, depth: int) -> list[tuple[int, ...]]:
    """Every path: an input and a unit of each hidden layer."""
    return list(product(range(d_in), *(range(width) for _ in range(depth - 1))))


def activity(gates: Sequence[Tensor], path: tuple[int, ...]) -> Tensor:
    """The product of the gates on a path: (n,)."""
    return torch.stack([gate[..., unit] for gate, unit in zip(gates, path[1:], strict=True)]).prod(
        0
    )


def overlap(gates: Sequence[Tensor], width: int) -> Tensor:
    """Lambda (n, n) by its definition.

    Over the paths that begin at one input, the sum of products of activities.
    """
    found = [activity(gates, path) for path in enumerated_paths(1, width, len(gates) + 1)]
    return sum(torch.outer(each, each) for each in found)
