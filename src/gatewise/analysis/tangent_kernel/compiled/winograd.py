"""Per-sample weight gradients of convolutions with 3 by 3 kernels, in about a quarter of the multiplications.

Note [Tiles]. Along one axis, the gradient of three taps from a tile of four slopes ``d`` and the six inputs ``x`` under
them is ``g[k] = sum_p d[p] x[p + k]``. It is the transpose of a product of polynomials, and Toom and Cook's way to
multiply those turns it into six products: ``g = A ((G d) * (B x))``. Along two axes a tile takes 36 products instead of
144; they are summed over tiles by one matrix product for each of the 36, before ``A`` is applied (Winograd's form of a
convolution). The numbers of ``15 A``, ``G`` and ``B`` are exact in any precision, so that what is lost is rounding:
single gradients are off by about 1e-6 of their size in float32 instead of 2e-7, independently, so that inner products
over many of them are not.

The slopes at the inputs are ``B' ((A' w) * (G d))``, added up where tiles overlap: the same transforms, and 36 products
instead of 144 again. The forward pass would be ``G' ((A' w) * (B x))``, and is left to torch: an output that comes out
on the other side of a kink changes the kernel far more than rounding does, and that is five times as likely with tiles.
"""

import math
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as F

from gatewise.analysis.tangent_kernel.compiled.winograd_native import (
    compiled_input_slopes,
    compiled_weight_gradients,
    has_compiled_tiles,
)

TAPS, TILE = 3, 4
REACH = TILE + TAPS - 1  # inputs under a tile
POINTS = (
    0.0,
    1.0,
    -1.0,
    0.5,
    -2.0,
)  # where polynomials are evaluated, besides infinity: the error is small with these
WHOLE = 15  # makes A whole: numbers that are rounded would turn all gradients the same way


def multiplications(channels: int, filters: int, positions: tuple[int, int]) -> int:
    """About how many a sample takes.

    Those of transformations, which run at half the speed, twice.
    """
    tiles = math.prod(-(-size // TILE) for size in positions)
    transformed = REACH**2 * (REACH**2 * channels + TILE**2 * filters)
    return (
        tiles * (REACH**2 * channels * filters + 2 * transformed)
        + 2 * (TAPS * REACH) ** 2 * channels * filters
    )


def compiled_multiplications(channels: int, filters: int, positions: tuple[int, int]) -> int:
    """The same with compiled transforms, either way.

    All else is counted as the multiplications that take as long.
    """
    tiles = math.prod(-(-size // TILE) for size in positions)
    return tiles * (REACH**2 * channels * filters + 750 * channels + 480 * filters) + (1 << 20)


def weight_gradients(
    x: Tensor, d: Tensor, zeros: tuple[int, int] = (0, 0), out: Tensor | None = None
) -> Tensor:
    """Gradients of the weights of a convolution with stride 1, written to ``out`` if given.

    Around the inputs lie zeros: so many rows above, columns to the left, and as many at the end as
    slopes ask for.
    Shape: inputs ``(N, g, q, h, w)``, slopes ``(N, g, c, H, W)`` of ``g`` groups
        ``-> (N, g, 9, c, q)``.
    """
    found = x.new_empty(*x.shape[:2], TAPS**2, d.shape[2], x.shape[2]) if out is None else out
    flat = found.view(-1, *found.shape[2:])
    if has_compiled_tiles((x, d)):
        compiled_weight_gradients(x.flatten(0, 1), d.flatten(0, 1), zeros, flat)
        return found
    products, slopes, inputs = _transforms(x.dtype, x.device)
    covered = [-(-size // TILE) * TILE for size in d.shape[-2:]]
    x, d = (
        _enlarged(x, zeros, [size + REACH - TILE for size in covered]),
        _enlarged(d, (0, 0), covered),
    )
    met = _of_tiles(d, slopes) @ _of_tiles(x, inputs).mT  # (N, g, 36, c, q)
    torch.bmm(products.expand(len(flat), -1, -1), met.flatten(0, 1).flatten(2), out=flat.flatten(2))
    return found.div_(WHOLE**2)


def input_slopes(d: Tensor, weight: Tensor, zeros: tuple[int, int], size: torch.Size) -> Tensor:
    """Slopes at the inputs, of ``size``, of a convolution with stride 1.

    ``has_compiled_tiles`` must have been asked.

    Shape: ``(N, c, H, W), (c, q, 3, 3) -> (N, q, h, w)``.
    """
    products, _, _ = _transforms(d.dtype, d.device)
    weights = (
        (products.mT @ weight.reshape(-1, TAPS**2).mT).div_(WHOLE**2).view(-1, *weight.shape[:2])
    )
    found = d.new_empty(size)
    compiled_input_slopes(d, weights, zeros, found)
    return found


def _enlarged(images: Tensor, before: tuple[int, int], sizes: list[int]) -> Tensor:
    """With zeros, so many rows above and columns to the left, and after the end up to ``sizes``."""
    after = [
        size - first - own
        for size, first, own in zip(sizes, before, images.shape[-2:], strict=True)
    ]
    sides = (before[1], after[1], before[0], after[0])
    return F.pad(images, sides) if any(sides) else images


def _of_tiles(images: Tensor, transform: Tensor) -> Tensor:
    """A transform of every tile.

    Shape: ``(N, g, c, H, W), (36, 1, size, size) -> (N, g, 36, c, tiles)``.
    """
    tiles = F.conv2d(images.flatten(0, 2).unsqueeze(1), transform, stride=TILE)
    return tiles.flatten(2).unflatten(0, images.shape[:3]).transpose(2, 3)


@cache
def _transforms(dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """``225 A``, ``G`` and ``B`` of the note along two axes.

    ``(9, 36)``, ``(36, 1, 4, 4)``, ``(36, 1, 6, 6)``.
    """
    rest = [[other for other in POINTS if other != point] for point in POINTS]
    scales = [
        WHOLE / math.prod(point - other for other in others)
        for point, others in zip(POINTS, rest, strict=True)
    ]
    evaluated = torch.tensor(
        [[point**power for power in range(TILE)] for point in POINTS] + [[0.0, 0.0, 0.0, 1.0]]
    )
    taps = torch.tensor(
        [[point**power for power in range(TAPS)] for point in POINTS] + [[0.0, 0.0, 1.0]]
    )
    a = (taps * torch.tensor([*scales, WHOLE])[:, None]).T
    b = torch.tensor([[*_with_roots(others), 0.0] for others in rest] + [_with_roots(POINTS)])
    both = [
        torch.kron(each.double(), each.double()).to(device, dtype) for each in (a, evaluated, b)
    ]
    return both[0], both[1].view(-1, 1, TILE, TILE), both[2].view(-1, 1, REACH, REACH)


def _with_roots(roots: tuple[float, ...] | list[float]) -> list[float]:
    """Coefficients, the constant first, of the polynomial with these roots."""
    found = [1.0]
    for root in roots:
        found = [a - root * b for a, b in zip([0.0, *found], [*found, 0.0], strict=True)]
    return found
