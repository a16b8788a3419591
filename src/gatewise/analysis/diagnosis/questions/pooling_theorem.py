"""Theorem 2.2 of paper 002 on real images.

What CReLU and max-pooling lose at most, and what they do lose.

The theorem is about inputs that are sums of shifts of the filters, at most one shift of a filter in
a pooling region. An image is brought to that by its largest responses: in each region the one
shift, of whichever filter, that responds most; the image is projected on their span. Filters are
taken at length 1: where they win, and what is then known, does not depend on their lengths, but the
bound does.
"""

from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.filters import reconstruct, respond, shifted_filters, synthesise

SIDE = (
    24  # pixels of the part of an image: the eigenvalues are those of matrices that are written out
)
TOLERANCE = 1e-6


def theorem_facts(conv: Any, pool: nn.MaxPool2d, x: Tensor) -> dict[str, Any] | None:
    """Eigenvalues, bound and ratio by image.

    None where pooling regions are single places or there is none.
    """
    region = _region(pool)
    plain = _of_length_one(conv)
    x = x[:, :, :SIDE, :SIDE].double()
    response = respond(plain, x)
    if region == (1, 1) or any(
        size < step for size, step in zip(response.shape[2:], region, strict=True)
    ):
        return None
    rows = [_of_one(plain, x[n : n + 1], response[n], region) for n in range(len(x))]
    return {"region": list(region), "side": list(x.shape[2:]), "images": rows}


def _of_one(conv: Any, x: Tensor, response: Tensor, region: tuple[int, int]) -> dict[str, Any]:
    places = _largest(response, region)
    columns = shifted_filters(conv, x, places)
    factors = torch.linalg.lstsq(columns, x.flatten()[:, None], driver="gelsd").solution[:, 0]
    coefficients = torch.zeros(1, *response.shape, dtype=torch.float64)
    coefficients[(0, *places.T)] = factors
    made = synthesise(conv, coefficients, x)
    found = reconstruct(
        conv,
        made,
        pool=nn.MaxPool2d(region),
        coefficients=coefficients,
        tolerance=TOLERANCE,
        most_iterations=3000,
    )
    assert found.eigenvalues is not None and found.bound is not None  # noqa: S101 - coefficients were given
    least, largest = found.eigenvalues[0].tolist()
    held = float(made.norm() / x.norm().clamp_min(1e-300))
    return {
        "shifts": len(places),
        "held": held,
        "least": least,
        "largest": largest,
        "bound": float(found.bound[0]),
        "ratio": float(found.ratio[0]),
    }


def _largest(response: Tensor, region: tuple[int, int]) -> Tensor:
    """Filter and place (k, 3) of the largest response in each region."""
    filters, high, wide = response.shape
    down, across = region
    rows, columns = high // down, wide // across
    cut = (
        response[:, : rows * down, : columns * across]
        .abs()
        .reshape(filters, rows, down, columns, across)
    )
    best = (
        cut.permute(1, 3, 0, 2, 4).flatten(2).argmax(-1)
    )  # (rows, columns) in filters x down x across
    row, column = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    filter_, inside = best // (down * across), best % (down * across)
    found = torch.stack(
        (filter_, row * down + inside // across, column * across + inside % across), -1
    )
    return found.reshape(-1, 3)


def _region(pool: nn.MaxPool2d) -> tuple[int, int]:
    """Regions that do not overlap, as the theorem has them.

    As far apart as those of the pooling.
    """
    down, across = (
        (pool.stride, pool.stride) if isinstance(pool.stride, int) else tuple(pool.stride)
    )
    return down, across


def _of_length_one(conv: Any) -> nn.Module:
    """The convolution with filters of length 1, its offsets with them.

    Filters that are all zero stay.
    """
    made = type(conv)(
        conv.in_channels,
        conv.out_channels,
        conv.kernel_size,
        conv.stride,
        conv.padding,
        conv.dilation,
        conv.groups,
        bias=conv.bias is not None,
        padding_mode=conv.padding_mode,
    )
    weight = conv.weight.detach().cpu()
    lengths = weight.flatten(1).norm(dim=1)
    lengths = torch.where(lengths == 0, 1.0, lengths)
    made.weight.data = weight / lengths[:, None, None, None]
    if conv.bias is not None:
        made.bias.data = conv.bias.detach().cpu() / lengths
    return made
