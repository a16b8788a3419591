"""Maxout: the largest of a group of channels."""

import math
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from gatewise.checks import check_count
from gatewise.errors import ArgumentError
from gatewise.units.contract import EXACT, Limits, UnitModule, check_input, resolve_dim, unit


def maxout(x: Tensor, pieces: int = 2, dim: int = 1) -> Tensor:
    r"""Return the largest of every ``pieces`` neighbouring channels.

    .. math:: \mathrm{maxout}(x)_c = \max_{r < k} x_{ck + r}

    where :math:`k` is ``pieces``. Where two channels are largest, each gets half of the gradient.
    The affine pieces are the filters of the layer before: hard vector quantisation with ``R = k``
    regions.

    Args:
        x: the input, a real floating point tensor.
        pieces: the number of channels that are reduced to one.
        dim: the channel dimension of the input.

    Shape: ``(*, kC, *) -> (*, C, *)``.

    Goodfellow et al., 2013, "Maxout Networks", arXiv:1302.4389.
    """
    axis = resolve_dim("maxout", check_input("maxout", x), dim)
    check_count("maxout", "pieces", pieces, least=1)
    if x.shape[axis] % pieces:
        raise ArgumentError(
            f"maxout: dimension {dim} must be divisible by pieces",
            got=f"{x.shape[axis]} channels, pieces={pieces}",
            fix="choose a divisor of the channel count",
        )
    return _maximum(x, _places(pieces, axis))


def _places(pieces: int, dim: int) -> list[tuple[Any, ...]]:
    """Return the index of the first channel of every group, of the second, and so on."""
    parts = [slice(piece, None, pieces) for piece in range(pieces)]
    if dim < 0:
        return [(..., part, *[slice(None)] * (-dim - 1)) for part in parts]
    return [(*[slice(None)] * dim, part) for part in parts]


def _maximum(x: Tensor, places: list[tuple[Any, ...]]) -> Tensor:
    # Not a reduction over a split dimension, which would lose channels_last.
    y = x[places[0]]
    for place in places[1:]:
        y = torch.maximum(y, x[place])
    return y


def _reference(x: Tensor, pieces: int = 2, dim: int = 1) -> Tensor:
    return x.movedim(dim, -1).unflatten(-1, (-1, pieces)).amax(-1).movedim(-1, dim)


def _init_gain(pieces: int = 2) -> float:
    """Return the gain from the density ``k phi Phi^(k-1)`` of the largest of k normal numbers."""
    z = torch.linspace(-12.0, 12.0, 24001, dtype=torch.float64)
    normal = torch.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    density = pieces * normal * torch.special.ndtr(z) ** (pieces - 1)
    return float(torch.trapezoid(z * z * density, z)) ** -0.5


@unit(
    name="maxout",
    title="Maxout",
    family="max-affine",
    on="no gate",
    function=maxout,
    formula=r"\max_{r < k}\ x_{ck + r}",
    paper="Goodfellow et al., 2013 (arXiv:1302.4389)",
    studied_in=("maso",),
    reference=_reference,
    limits=Limits(minus=(-math.inf,), plus=(math.inf,)),
    channel_ratio=lambda pieces=2: Fraction(1, pieces),
    init_gain=_init_gain,
    needs=("groups",),
    error=EXACT,
    samples=({}, {"pieces": 3}, {"dim": -1}),
)
class Maxout(UnitModule):
    """Module form of :func:`maxout`.

    Args:
        pieces: the number of channels that are reduced to one, at least 2.
        dim: the channel dimension of the input.
    """

    def __init__(self, *, pieces: int = 2, dim: int = 1) -> None:
        super().__init__(pieces=pieces, dim=dim)
        self.pieces = check_count("maxout", "pieces", pieces, least=2)
        self.dim = dim
        self.places = _places(self.pieces, dim)

    def forward(self, x: Tensor) -> Tensor:
        if -x.dim() <= self.dim < x.dim() and not x.shape[self.dim] % self.pieces:
            return _maximum(x, self.places)
        return maxout(x, **self.arguments(x))
