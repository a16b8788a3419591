"""Per-sample weight gradients of convolutions with 3 by 3 kernels, in about a quarter of the multiplications.

Note [Tiles]. Along one axis, the gradient of three taps from a tile of four slopes ``d`` and the six inputs ``x`` under
them is ``g[k] = sum_p d[p] x[p + k]``. It is the transpose of a product of polynomials, and Toom and Cook's way to
multiply those turns it into six products: ``g = A ((G d) * (B x))``. Along two axes a tile takes 36 products instead of
144; they are summed over tiles by one matrix product for each of the 36, before ``A`` is applied (Winograd's form of a
convolution). ``G`` and ``B`` are exact in any precision, so that what is lost is rounding: single gradients are off by
about 1e-6 of their size in float32 instead of 2e-7, independently, so that inner products over many of them are not.
"""

import math
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as F

TAPS, TILE = 3, 4
REACH = TILE + TAPS - 1  # inputs under a tile
POINTS = (0.0, 1.0, -1.0, 0.5, -2.0)  # where polynomials are evaluated, besides infinity: the error is small with these


def multiplications(channels: int, filters: int, positions: tuple[int, int]) -> int:
    """About how many a sample takes; those of transformations, which run at half the speed, twice."""
    tiles = math.prod(-(-size // TILE) for size in positions)
    transformed = REACH**2 * (REACH**2 * channels + TILE**2 * filters)
    return tiles * (REACH**2 * channels * filters + 2 * transformed) + 2 * (TAPS * REACH) ** 2 * channels * filters


def weight_gradients(x: Tensor, d: Tensor, out: Tensor | None = None) -> Tensor:
    """Gradients of the weights of a convolution with stride 1, written to ``out`` if given.

    Shape: padded inputs ``(N, g, q, H + 2, W + 2)``, slopes ``(N, g, c, H, W)`` of ``g`` groups ``-> (N, g, 9, c, q)``.
    """
    products, slopes, inputs = _transforms(x.dtype, x.device)
    more = [-size % TILE for size in reversed(d.shape[-2:])]
    ends = (0, more[0], 0, more[1])
    if any(more):
        x, d = F.pad(x, ends), F.pad(d, ends)
    met = _of_tiles(d, slopes) @ _of_tiles(x, inputs).mT  # (N, g, 36, c, q)
    (samples, groups), last = met.shape[:2], met.shape[3:]
    found = met.new_empty(samples, groups, TAPS**2, *last) if out is None else out
    torch.bmm(
        products.expand(samples * groups, -1, -1),
        met.flatten(0, 1).flatten(2),
        out=found.view(-1, TAPS**2, last.numel()),
    )
    return found


def _of_tiles(images: Tensor, transform: Tensor) -> Tensor:
    """A transform of every tile. Shape: ``(N, g, c, H, W), (36, 1, size, size) -> (N, g, 36, c, tiles)``."""
    tiles = F.conv2d(images.flatten(0, 2).unsqueeze(1), transform, stride=TILE)
    return tiles.flatten(2).unflatten(0, images.shape[:3]).transpose(2, 3)


@cache
def _transforms(dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """``A``, ``G`` and ``B`` of the note along two axes: ``(9, 36)``, ``(36, 1, 4, 4)``, ``(36, 1, 6, 6)``."""
    rest = [[other for other in POINTS if other != point] for point in POINTS]
    scales = [1 / math.prod(point - other for other in others) for point, others in zip(POINTS, rest, strict=True)]
    evaluated = torch.tensor([[point**power for power in range(TILE)] for point in POINTS] + [[0.0, 0.0, 0.0, 1.0]])
    taps = torch.tensor([[point**power for power in range(TAPS)] for point in POINTS] + [[0.0, 0.0, 1.0]])
    a = (taps.double() * torch.tensor([*scales, 1.0], dtype=torch.float64)[:, None]).T
    b = torch.tensor([[*_with_roots(others), 0.0] for others in rest] + [_with_roots(POINTS)])
    both = [torch.kron(each.double(), each.double()).to(device, dtype) for each in (a, evaluated, b)]
    return both[0], both[1].view(-1, 1, TILE, TILE), both[2].view(-1, 1, REACH, REACH)


def _with_roots(roots: tuple[float, ...] | list[float]) -> list[float]:
    """Coefficients, the constant first, of the polynomial with these roots."""
    found = [1.0]
    for root in roots:
        found = [a - root * b for a, b in zip([0.0, *found], [*found, 0.0], strict=True)]
    return found
