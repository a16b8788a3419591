"""Per-sample weight gradients of 3 by 3 convolutions, with about a quarter of the multiplications.

Note [Tiles]. Along one axis, the gradient of three taps from a tile of four slopes ``d`` and the
six inputs ``x`` under them is ``g[k] = sum_p d[p] x[p + k]``. It is the transpose of a product of
polynomials. The Toom-Cook algorithm for such products turns it into six multiplications:
``g = A ((G d) * (B x))``. Along two axes a tile takes 36 multiplications instead of 144. For each
of the 36 points one matrix product sums over all tiles, before ``A`` is applied (Winograd's form of
a convolution). The entries of ``15 A``, ``G`` and ``B`` are exact in any precision, so the only
errors are rounding. In float32 a single gradient has a relative error of about 1e-6 instead of
2e-7. These errors are independent, so they average out in inner products over many gradients.

The slopes at the inputs are ``B' ((A' w) * (G d))``, summed where tiles overlap. They use the same
transforms, and again 36 multiplications instead of 144. The forward pass would be
``G' ((A' w) * (B x))``. It is left to torch: an output on the other side of a kink changes the
kernel far more than rounding does, and tiles make that five times as likely.
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

TAPS = 3  # of the convolution's kernel along an axis
TILE = 4  # slopes of a tile along an axis
TILE_INPUTS = TILE + TAPS - 1  # inputs under a tile along an axis
# Where the polynomials are evaluated, besides infinity. With these points the error is small.
POINTS = (0.0, 1.0, -1.0, 0.5, -2.0)
# Factor that makes the entries of A whole. Rounded entries would bias all gradients the same way.
WHOLE = 15


def multiplications(channels: int, filters: int, positions: tuple[int, int]) -> int:
    """About how many multiplications a sample takes with transforms in torch.

    Multiplications of the transforms run at half the speed and count twice.

    Args:
        channels: input channels of a group.
        filters: filters of a group, times the outputs of the model.
        positions: height and width of the convolution's output.
    """
    tiles = math.prod(-(-size // TILE) for size in positions)
    points = TILE_INPUTS**2
    transforms = points * (points * channels + TILE**2 * filters)
    final_transform = (TAPS * TILE_INPUTS) ** 2 * channels * filters
    return tiles * (points * channels * filters + 2 * transforms) + 2 * final_transform


def compiled_multiplications(channels: int, filters: int, positions: tuple[int, int]) -> int:
    """The same with compiled transforms, for weight gradients as well as input slopes.

    The measured times of everything else are expressed in multiplications.

    Args:
        channels: input channels of a group.
        filters: filters of a group, times the outputs of the model.
        positions: height and width of the convolution's output.
    """
    tiles = math.prod(-(-size // TILE) for size in positions)
    products = TILE_INPUTS**2 * channels * filters
    return tiles * (products + 750 * channels + 480 * filters) + (1 << 20)


def weight_gradients(
    x: Tensor,
    d: Tensor,
    zeros: tuple[int, int] = (0, 0),
    out: Tensor | None = None,
) -> Tensor:
    """The weight gradients of a convolution with stride 1 and ``g`` groups.

    Args:
        x: inputs, ``(N, g, q, h, w)``.
        d: slopes, ``(N, g, c, H, W)``.
        zeros: rows of zeros above and columns of zeros to the left of the inputs. As many follow
            at the end as the slopes need.
        out: where to write the gradients, or None for a new tensor.

    Returns:
        The gradients, ``(N, g, 9, c, q)``.
    """
    if out is None:
        out = x.new_empty(*x.shape[:2], TAPS**2, d.shape[2], x.shape[2])
    flat = out.view(-1, *out.shape[2:])
    if has_compiled_tiles((x, d)):
        compiled_weight_gradients(x.flatten(0, 1), d.flatten(0, 1), zeros, flat)
        return out
    to_taps, of_slopes, of_inputs = _transforms(x.dtype, x.device)
    sizes = [-(-size // TILE) * TILE for size in d.shape[-2:]]
    x = _pad_to(x, zeros, [size + TILE_INPUTS - TILE for size in sizes])
    d = _pad_to(d, (0, 0), sizes)
    slopes = _transform_tiles(d, of_slopes)
    inputs = _transform_tiles(x, of_inputs)
    products = (slopes @ inputs.mT).flatten(0, 1)  # (N * g, 36, c, q)
    torch.bmm(to_taps.expand(len(flat), -1, -1), products.flatten(2), out=flat.flatten(2))
    return out.div_(WHOLE**2)


def input_slopes(d: Tensor, weight: Tensor, zeros: tuple[int, int], size: torch.Size) -> Tensor:
    """The slopes at the inputs of a convolution with stride 1, by compiled transforms.

    The caller must have checked ``has_compiled_tiles``.

    Args:
        d: slopes at the outputs, ``(N, c, H, W)``.
        weight: the weight, ``(c, q, 3, 3)``.
        zeros: rows of zeros above and columns of zeros to the left of the inputs.
        size: the shape of the inputs, ``(N, q, h, w)``.
    """
    to_taps, _, _ = _transforms(d.dtype, d.device)
    weights = (to_taps.mT @ weight.reshape(-1, TAPS**2).mT).div_(WHOLE**2)
    out = d.new_empty(size)
    compiled_input_slopes(d, weights.view(-1, *weight.shape[:2]), zeros, out)
    return out


def _pad_to(images: Tensor, before: tuple[int, int], sizes: list[int]) -> Tensor:
    """Pad with ``before`` rows above and columns to the left, and at the end up to ``sizes``."""
    height, width = images.shape[-2:]
    below = sizes[0] - before[0] - height
    right = sizes[1] - before[1] - width
    sides = (before[1], right, before[0], below)
    if any(sides):
        return F.pad(images, sides)
    return images


def _transform_tiles(images: Tensor, transform: Tensor) -> Tensor:
    """Transform every tile of the images.

    Shape: ``(N, g, c, H, W), (36, 1, size, size) -> (N, g, 36, c, tiles)``.
    """
    tiles = F.conv2d(images.flatten(0, 2).unsqueeze(1), transform, stride=TILE)
    return tiles.flatten(2).unflatten(0, images.shape[:3]).transpose(2, 3)


@cache
def _transforms(dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """``225 A``, ``G`` and ``B`` of the note along two axes.

    Shapes: ``(9, 36)``, ``(36, 1, 4, 4)`` and ``(36, 1, 6, 6)``.
    """
    a_rows = []
    g_rows = []
    b_rows = []
    for point in POINTS:
        others = [other for other in POINTS if other != point]
        scale = WHOLE / math.prod(point - other for other in others)
        a_rows.append([scale * point**power for power in range(TAPS)])
        g_rows.append([point**power for power in range(TILE)])
        b_rows.append([*_with_roots(others), 0.0])
    # At infinity a polynomial has the value of its leading coefficient.
    a_rows.append([0.0, 0.0, float(WHOLE)])
    g_rows.append([0.0, 0.0, 0.0, 1.0])
    b_rows.append(_with_roots(POINTS))
    both_axes = []
    for rows in (a_rows, g_rows, b_rows):
        # Entries that float32 holds exactly; products of two of them are exact in float64.
        matrix = torch.tensor(rows, dtype=torch.float32).double()
        both_axes.append(torch.kron(matrix, matrix).to(device, dtype))
    a, g, b = both_axes
    return a.T, g.view(-1, 1, TILE, TILE), b.view(-1, 1, TILE_INPUTS, TILE_INPUTS)


def _with_roots(roots: tuple[float, ...] | list[float]) -> list[float]:
    """Coefficients, the constant first, of the polynomial with these roots."""
    coefficients = [1.0]
    for root in roots:
        shifted = [0.0, *coefficients]
        scaled = [root * c for c in coefficients] + [0.0]
        coefficients = [a - b for a, b in zip(shifted, scaled, strict=True)]
    return coefficients
