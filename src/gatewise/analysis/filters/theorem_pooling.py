"""The bound of theorem 2.2 on the loss of CReLU and max-pooling, for sums of shifted filters.

Note [Bound]. Let x be the sum of c_i w_i, r_i the inner product of w_i and x, lambda_min the
smallest eigenvalue of the shifts in x, and lambda_max the largest of the shifts that pooling keeps
with the signs of the c_i. Then |x|^2 is the sum of c_i r_i, at most the sum over those i for which
c_i and r_i have one sign. For such an i pooling keeps a response of that sign that is at least as
large as r_i. With r' for these, |x|^2 <= |c| |r'|, and |c| <= |x| / sqrt(lambda_min). This gives
lambda_min |x|^2 <= |r'|^2 <= lambda_max |x~|^2 with the projection x~ of x on the kept shifts.
Hence |x - x'| <= |x - x~| <= sqrt(1 - lambda_min / lambda_max) |x|. This is at most the printed
sqrt(lambda_max / lambda_min - 1) |x|. It needs no sign of a response to be that of its coefficient,
which the printed proof takes for granted. A bias may switch off a response that is needed; then
there is no bound.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.filters.conv_operator import (
    KnownResponses,
    biased_response,
    linear_response,
    pooling_indices,
)
from gatewise.errors import ArgumentError


def synthesise(conv: Any, coefficients: Tensor, x: Tensor) -> Tensor:
    """The sum of the shifted filters, each times its coefficient: inputs of the size of ``x``.

    Args:
        conv: the convolution.
        coefficients: (n, K, *responses).
        x: a batch, for the size of an input.
    """
    inputs = x[:1].expand(len(coefficients), *x.shape[1:]).contiguous()
    return KnownResponses(conv, inputs, None).transpose(coefficients)


def pooling_bound(
    conv: Any,
    x: Tensor,
    pool: nn.Module | None,
    coefficients: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """The eigenvalues and bounds of theorem 2.2. See Note [Bound].

    Args:
        conv: the convolution.
        x: inputs (n, C, *size), sums of shifted filters.
        pool: the max-pooling after CReLU.
        coefficients: the factors of the shifted filters, (n, K, *responses).

    Returns:
        The smallest eigenvalue of the shifts in ``x`` and the largest of the shifts that pooling
        keeps (n, 2), the bound as printed (n,), and the tighter one (n,). They are NaN where a
        shift that is needed is outside of all regions, or is hidden by a bias.
    """
    coefficients = _check(conv, x, pool, coefficients)
    response = biased_response(conv, x)
    plain = linear_response(conv, x)
    rows = []
    for n in range(len(x)):
        row = slice(n, n + 1)
        rows.append(_eigenvalues(conv, x[row], pool, coefficients[row], response[row], plain[row]))
    eigenvalues = torch.stack(rows)
    smallest, largest = eigenvalues.unbind(1)
    gap = (largest - smallest).clamp(min=0)
    return eigenvalues, (gap / smallest).sqrt(), (gap / largest).sqrt()


def _eigenvalues(
    conv: Any, x: Tensor, pool: Any, coefficients: Tensor, response: Tensor, plain: Tensor
) -> Tensor:
    places = coefficients[0].nonzero()  # (k, 1 + dims): filter and shift
    factors = coefficients[0][tuple(places.T)]
    needed = factors * plain[0][tuple(places.T)] > 0
    pooled = _pooled_places(places, needed, coefficients[0], response, pool)
    if pooled is None:
        return torch.full((2,), torch.nan, dtype=torch.float64)
    present = shifted_filters(conv, x, places)
    squares = torch.linalg.svdvals(present).square()
    rounding = squares[0] * max(present.shape) * torch.finfo(torch.float64).eps
    smallest = squares[squares > rounding].min()
    if len(squares) < len(factors) or bool(squares[-1] <= rounding):
        # Linearly dependent shifts have many coefficients, of which these may be long.
        smallest = torch.minimum(smallest, x.square().sum() / factors.square().sum())
    largest = torch.linalg.svdvals(shifted_filters(conv, x, pooled))[0].square()
    return torch.stack((smallest, largest))


def shifted_filters(conv: Any, x: Tensor, places: Tensor) -> Tensor:
    """The shifted filters at ``places`` as columns: (unknowns, k).

    Args:
        conv: the convolution.
        x: a batch, for the size of an input.
        places: (k, 1 + dims), filter and shift.
    """
    shape = linear_response(conv, x).shape[1:]
    impulses = torch.zeros(len(places), *shape, dtype=torch.float64)
    impulses[(torch.arange(len(places)), *places.T)] = 1.0
    return synthesise(conv, impulses, x).flatten(1).T


def _pooled_places(
    places: Tensor,
    needed: Tensor,
    coefficients: Tensor,
    response: Tensor,
    pool: Any,
) -> Tensor | None:
    """For each shift of a filter, the shift of that filter that pooling keeps in its region.

    The sign of a coefficient says which of the two outputs of CReLU matters. A shift without a kept
    one is left out. If the bound needs it, or if none is kept, the result is None.
    """
    signs = (response.clamp(min=0), (-response).clamp(min=0))
    kept = [pooling_indices(sign, pool)[0] for sign in signs]  # (K, *regions), flat places
    values = [sign[0].flatten(1) for sign in signs]
    size = tuple(response.shape[2:])
    step = torch.tensor(_per_dim(pool.kernel_size, len(size)))
    pooled = []
    for place, is_needed in zip(places, needed.tolist(), strict=True):
        sign = int(coefficients[tuple(place)] < 0)
        number = int(place[0])
        region = place[1:] // step
        # At the border a shift may be outside of all regions.
        is_outside = bool((region >= torch.tensor(kept[sign].shape[1:])).any())
        flat = None if is_outside else kept[sign][(number, *region)]
        if flat is not None and values[sign][number, flat] > 0:
            pooled.append([number, *map(int, torch.unravel_index(flat, size))])
        elif is_needed:
            return None
    return torch.tensor(pooled) if pooled else None


def _check(conv: Any, x: Tensor, pool: nn.Module | None, coefficients: Tensor) -> Tensor:
    if pool is None:
        raise ArgumentError("reconstruct: the bound needs max-pooling", fix="pass pool=")
    dims = x.dim() - 2
    kernel = _per_dim(pool.kernel_size, dims)
    options = (
        _per_dim(pool.stride, dims),
        _per_dim(pool.padding, dims),
        _per_dim(pool.dilation, dims),
    )
    if options != (kernel, (0,) * dims, (1,) * dims):
        raise ArgumentError(
            "reconstruct: the bound needs pooling regions that do not overlap", got=pool
        )
    shape = linear_response(conv, x).shape
    is_tensor = isinstance(coefficients, Tensor)
    if not is_tensor or coefficients.shape != shape:
        raise ArgumentError(
            "reconstruct: coefficients must have one number for each response",
            got=tuple(coefficients.shape) if is_tensor else type(coefficients).__name__,
            allowed=tuple(shape),
        )
    coefficients = coefficients.detach().double()
    # Inputs may have been computed in float32.
    atol = 1e-6 * float(x.abs().max())
    if not torch.allclose(synthesise(conv, coefficients, x), x, rtol=1e-5, atol=atol):
        raise ArgumentError(
            "reconstruct: x is not the sum of the filters' shifts with these coefficients"
        )
    present = (coefficients != 0).double()
    mean_pool = getattr(nn.functional, f"avg_pool{dims}d")
    means = mean_pool(present, kernel, kernel, ceil_mode=True, count_include_pad=True)
    if bool((means * math.prod(kernel) > 1.5).any()):
        raise ArgumentError(
            "reconstruct: a pooling region holds two shifts of one filter, "
            "which theorem 2.2 rules out"
        )
    return coefficients


def _per_dim(value: Any, dims: int) -> tuple[int, ...]:
    if isinstance(value, int):
        return (value,) * dims
    return tuple(value)
