"""The compiled transforms of Note [Tiles] in ``winograd.py``: float32, one thread, AVX-512.

Samples are transformed one at a time, so that the tiles stay in the processor's caches until they
are multiplied.
"""

import ctypes
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from gatewise.analysis.tangent_kernel.compiled.products import (
    is_readable,
    native_library,
    require_library,
)
from gatewise.native import COUNT, POINTER, struct_fields

# The sizes of `native/tiles.c`.
TILE = 4  # slopes of a tile along an axis
TILE_INPUTS = 6  # inputs under a tile along an axis
POINTS = 36  # points at which a tile is evaluated
LANES = 16  # channels that are transformed at a time


class _Tiles(ctypes.Structure):
    """``Tiles`` of ``native/tiles.c``."""

    _fields_ = struct_fields(
        (COUNT, "planes height width plane_step row_step"),
        (COUNT, "above left down across"),
        (POINTER, "image tiles space"),
    )


def has_compiled_tiles(images: Iterable[Tensor]) -> bool:
    """Whether compiled code is available and can read these images."""
    return (
        torch.get_num_threads() == 1
        and all(map(is_readable, images))
        and native_library("tiles") is not None
    )


class _TileGrid:
    """The positions of tiles on slopes, and on inputs with ``zeros`` above and to the left."""

    def __init__(self, slopes: Tensor, zeros: tuple[int, int]) -> None:
        self.down, self.across = (-(-size // TILE) for size in slopes.shape[-2:])
        self.zeros = zeros
        pixels = -(-(TILE * self.across + TILE_INPUTS - TILE) // LANES) * LANES
        self.scratch = slopes.new_empty(TILE_INPUTS * pixels * LANES)

    def new_tiles(self, planes: int) -> Tensor:
        """Memory for the tiles of an image. Shape: ``(36, tiles, planes)``."""
        return self.scratch.new_empty(POINTS, self.down * self.across, planes)

    def slopes_to_tiles(self, image: Tensor, tiles: Tensor) -> None:
        require_library("tiles").gw_tiles_of_slopes(self._call(image, tiles, (0, 0)))

    def inputs_to_tiles(self, image: Tensor, tiles: Tensor) -> None:
        require_library("tiles").gw_tiles_of_inputs(self._call(image, tiles, self.zeros))

    def tiles_to_inputs(self, tiles: Tensor, image: Tensor) -> None:
        require_library("tiles").gw_tiles_to_inputs(self._call(image, tiles, self.zeros))

    def _call(self, image: Tensor, tiles: Tensor, zeros: tuple[int, int]) -> Any:
        """A reference to the arguments; its class has no public name."""
        call = _Tiles(
            *image.shape,
            image.stride(0),
            image.stride(1),
            *zeros,
            self.down,
            self.across,
            image.data_ptr(),
            tiles.data_ptr(),
            self.scratch.data_ptr(),
        )
        return ctypes.byref(call)


def compiled_weight_gradients(x: Tensor, d: Tensor, zeros: tuple[int, int], out: Tensor) -> None:
    """Write what ``weight_gradients`` of ``winograd.py`` computes.

    Shape: ``(n, q, h, w), (n, c, H, W) -> (n, 9, c, q)``.
    """
    grid = _TileGrid(d, zeros)
    inputs = grid.new_tiles(x.shape[1])
    slopes = grid.new_tiles(d.shape[1])
    products = out.new_empty(POINTS, *out.shape[2:])
    for image, slope, gradients in zip(x, d, out, strict=True):
        grid.inputs_to_tiles(image, inputs)
        grid.slopes_to_tiles(slope, slopes)
        torch.bmm(slopes.mT, inputs, out=products)
        require_library("tiles").gw_tiles_to_taps(
            ctypes.c_void_p(products.data_ptr()),
            ctypes.c_void_p(gradients.data_ptr()),
            ctypes.c_int64(products[0].numel()),
        )


def compiled_input_slopes(d: Tensor, weights: Tensor, zeros: tuple[int, int], out: Tensor) -> None:
    """Write what ``input_slopes`` of ``winograd.py`` computes, from weights at the 36 points.

    Shape: ``(n, c, H, W), (36, c, q) -> (n, q, h, w)``.
    """
    grid = _TileGrid(d, zeros)
    slopes = grid.new_tiles(d.shape[1])
    products = grid.new_tiles(out.shape[1])
    for slope, image in zip(d, out, strict=True):
        grid.slopes_to_tiles(slope, slopes)
        torch.bmm(slopes, weights, out=products)
        grid.tiles_to_inputs(products, image)
