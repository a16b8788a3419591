"""The bound of theorem 2.2 on what CReLU and max-pooling lose, for inputs made of known shifts of the filters."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.filters.conv_operator import KnownResponses, respond, won_indices
from gatewise.errors import ArgumentError


def synthesise(conv: Any, coefficients: Tensor, x: Tensor) -> Tensor:
    """The sum of the filters' shifts, each times its coefficient (n, K, *responses).

    An input of the size of ``x``.
    """
    return KnownResponses(
        conv, x[:1].expand(len(coefficients), *x.shape[1:]).contiguous(), None
    ).transpose(coefficients)


def pooling_bound(
    conv: Any, x: Tensor, pool: nn.Module | None, coefficients: Tensor
) -> tuple[Tensor, Tensor]:
    """The eigenvalues (n, 2), least of the shifts in ``x`` and largest of those that won, and the bound (n,).

    NaN where a phase that is needed has no positive response, so that nothing of it is known.
    """
    given = _check(conv, x, pool, coefficients)
    response = respond(conv, x)
    if conv.bias is not None:
        response = response + conv.bias.detach().double().reshape(-1, *[1] * (response.dim() - 2))
    eigenvalues = torch.stack(
        [
            _eigenvalues(conv, x[n : n + 1], pool, given[n : n + 1], response[n : n + 1])
            for n in range(len(x))
        ]
    )
    least, largest = eigenvalues.unbind(1)
    return eigenvalues, ((largest - least).clamp(min=0) / least).sqrt()


def _eigenvalues(conv: Any, x: Tensor, pool: Any, coefficients: Tensor, response: Tensor) -> Tensor:
    places = coefficients[0].nonzero()  # (k, 1 + dims): filter and shift
    if not len(places):
        return torch.full((2,), torch.nan, dtype=torch.float64)
    present = shifted_filters(conv, x, places)
    winners = _winning(places, coefficients[0], response, pool)
    if winners is None:
        return torch.full((2,), torch.nan, dtype=torch.float64)
    own = torch.linalg.svdvals(present).square()
    rounding = own[0] * max(present.shape) * torch.finfo(torch.float64).eps
    return torch.stack(
        (
            own[own > rounding].min(),
            torch.linalg.svdvals(shifted_filters(conv, x, winners))[0].square(),
        )
    )


def shifted_filters(conv: Any, x: Tensor, places: Tensor) -> Tensor:
    """The shifted filters at ``places``, one a column (unknowns, k)."""
    shape = respond(conv, x).shape[1:]
    impulses = torch.zeros(len(places), *shape, dtype=torch.float64)
    impulses[(torch.arange(len(places)), *places.T)] = 1.0
    return synthesise(conv, impulses, x).flatten(1).T


def _winning(places: Tensor, coefficients: Tensor, response: Tensor, pool: Any) -> Tensor | None:
    """For each shift present, the one of its filter that won its region, in the phase of its coefficient's sign."""
    phases = (response.clamp(min=0), (-response).clamp(min=0))
    won = [
        won_indices(phase, pool)[0] for phase in phases
    ]  # (K, *regions), flat places within the map
    values = [phase[0].flatten(1) for phase in phases]
    size, step = (
        torch.tensor(response.shape[2:]),
        torch.tensor(_per_dim(pool.kernel_size, response.dim() - 2)),
    )
    found = []
    for place in places:
        phase = int(coefficients[tuple(place)] < 0)
        filter_, region = int(place[0]), place[1:] // step
        if bool((region >= torch.tensor(won[phase].shape[1:])).any()):
            return None  # at the border, in no region
        flat = int(won[phase][(filter_, *region)])
        if values[phase][filter_, flat] <= 0:
            return None
        found.append(
            [
                filter_,
                *(
                    int(each)
                    for each in torch.unravel_index(torch.tensor(flat), tuple(size.tolist()))
                ),
            ]
        )
    return torch.tensor(found)


def _check(conv: Any, x: Tensor, pool: nn.Module | None, coefficients: Tensor) -> Tensor:
    if pool is None:
        raise ArgumentError("reconstruct: the bound is of max-pooling", fix="pass pool=")
    kernel, stride, padding, dilation = (
        _per_dim(getattr(pool, name), x.dim() - 2)
        for name in ("kernel_size", "stride", "padding", "dilation")
    )
    if kernel != stride or any(padding) or set(dilation) != {1}:
        raise ArgumentError(
            "reconstruct: the bound needs pooling regions that do not overlap", got=pool
        )
    shape = respond(conv, x).shape
    if not isinstance(coefficients, Tensor) or coefficients.shape != shape:
        got = (
            tuple(coefficients.shape)
            if isinstance(coefficients, Tensor)
            else type(coefficients).__name__
        )
        raise ArgumentError(
            "reconstruct: coefficients must be one a response", got=got, allowed=tuple(shape)
        )
    given = coefficients.detach().double()
    if not torch.allclose(
        synthesise(conv, given, x), x, rtol=1e-5, atol=1e-6 * float(x.abs().max())
    ):
        raise ArgumentError(
            "reconstruct: x is not the sum of the filters' shifts with these coefficients"
        )
    present = (given != 0).double()
    area = math.prod(kernel)
    pooling = getattr(nn.functional, f"avg_pool{x.dim() - 2}d")
    if bool(
        (
            pooling(present, kernel, stride, ceil_mode=True, count_include_pad=True) * area > 1.5
        ).any()
    ):
        raise ArgumentError(
            "reconstruct: a pooling region holds two shifts of one filter, which theorem 2.2 rules out"
        )
    return given


def _per_dim(value: Any, dims: int) -> tuple[int, ...]:
    return (value,) * dims if isinstance(value, int) else tuple(value)
