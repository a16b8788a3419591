"""Theorem 2.2 of the CReLU paper on images: what CReLU and max-pooling lose, and its bound.

The theorem is about inputs that are sums of shifted filters, with at most one shift of a filter in
a pooling region. An image is brought into this form by its largest responses: in each region, the
one shift of any filter that responds most. The image is projected on their span. Filters are
scaled to unit length. Where they win, and what is then known, does not depend on their lengths, but
the bound does.
"""

from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.filters import (
    empty_like,
    linear_response,
    reconstruct,
    shifted_filters,
    synthesise,
)

SIDE = 24  # pixels of the part of an image: the eigenvalues are those of dense matrices
TOLERANCE = 1e-6
ITERATIONS = 3000


def theorem_facts(conv: Any, pool: nn.MaxPool2d, x: Tensor) -> dict[str, Any] | None:
    """Return eigenvalues, bound and ratio for each image.

    Args:
        conv: The convolution.
        pool: The max-pooling after it.
        x: Images of shape (n, channels, height, width).

    Returns:
        ``None`` if a pooling region is a single position, or larger than the image.
    """
    region = _region(pool)
    unit_conv = _with_unit_filters(conv)
    x = x[:, :, :SIDE, :SIDE].double()
    responses = linear_response(unit_conv, x)
    sizes = zip(responses.shape[2:], region, strict=True)
    if region == (1, 1) or any(size < step for size, step in sizes):
        return None
    rows = []
    for image, response in zip(x, responses, strict=True):
        rows.append(_image_facts(unit_conv, image[None], response, region))
    return {"region": list(region), "side": list(x.shape[2:]), "images": rows}


def _image_facts(conv: Any, x: Tensor, response: Tensor, region: tuple[int, int]) -> dict[str, Any]:
    places = _largest_responses(response, region)
    columns = shifted_filters(conv, x, places)
    # gelsd, because shifted filters may be linearly dependent.
    factors = torch.linalg.lstsq(columns, x.flatten()[:, None], driver="gelsd").solution[:, 0]
    coefficients = torch.zeros(1, *response.shape, dtype=torch.float64)
    coefficients[(0, *places.T)] = factors
    projection = synthesise(conv, coefficients, x)
    result = reconstruct(
        conv,
        projection,
        pool=nn.MaxPool2d(region),
        coefficients=coefficients,
        tolerance=TOLERANCE,
        most_iterations=ITERATIONS,
    )
    assert result.eigenvalues is not None and result.bound is not None  # noqa: S101 - computed with coefficients
    least, largest = result.eigenvalues[0].tolist()
    return {
        "shifts": len(places),
        "held": float(projection.norm() / x.norm().clamp_min(1e-300)),
        "least": least,
        "largest": largest,
        "bound": float(result.bound[0]),
        "ratio": float(result.ratio[0]),
    }


def _largest_responses(response: Tensor, region: tuple[int, int]) -> Tensor:
    """Return filter, row and column (k, 3) of the largest response in each pooling region."""
    filters, height, width = response.shape
    down, across = region
    rows = height // down
    columns = width // across
    cropped = response[:, : rows * down, : columns * across].abs()
    cells = cropped.reshape(filters, rows, down, columns, across)
    # (rows, columns): the place in filters x down x across
    best = cells.permute(1, 3, 0, 2, 4).flatten(2).argmax(-1)
    number = best // (down * across)
    inside = best % (down * across)
    row, column = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    y = row * down + inside // across
    x = column * across + inside % across
    return torch.stack((number, y, x), -1).reshape(-1, 3)


def _region(pool: nn.MaxPool2d) -> tuple[int, int]:
    """Return regions that do not overlap, as in the theorem, with the stride of the pooling."""
    if isinstance(pool.stride, int):
        return pool.stride, pool.stride
    down, across = pool.stride
    return down, across


def _with_unit_filters(conv: Any) -> nn.Module:
    """Return the convolution with filters of length 1 and its biases scaled with them.

    Filters that are all zero stay zero.
    """
    layer = empty_like(conv, bias=conv.bias is not None)
    weight = conv.weight.detach().cpu()
    lengths = weight.flatten(1).norm(dim=1)
    lengths = torch.where(lengths == 0, 1.0, lengths)
    layer.weight.data = weight / lengths[:, None, None, None]
    if conv.bias is not None:
        layer.bias.data = conv.bias.detach().cpu() / lengths
    return layer
