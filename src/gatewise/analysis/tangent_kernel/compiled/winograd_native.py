"""The compiled transforms of Note [Tiles], and what is made with them.

Float32, one thread, AVX-512.

Sample by sample, so that what is transformed stays in the processor's caches until it is
multiplied.
"""

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gatewise.analysis.tangent_kernel.compiled.products import at_hand, is_readable, quick

TILE, REACH, POINTS = (
    4,
    6,
    36,
)  # of `native/tiles.c`: slopes and inputs of a tile along an axis, and points of a tile
LANES = 16


class _Tiles(ctypes.Structure):
    """``Tiles`` of ``native/tiles.c``."""

    _fields_ = (
        *(
            (name, ctypes.c_int64)
            for name in ("planes", "height", "width", "plane_step", "row_step")
        ),
        *((name, ctypes.c_int64) for name in ("above", "left", "down", "across")),
        *((name, ctypes.c_void_p) for name in ("image", "tiles", "space")),
    )


def has_compiled_tiles(images: Iterable[Tensor]) -> bool:
    """Whether tiles of these can be transformed by compiled code."""
    return (
        torch.get_num_threads() == 1
        and all(map(is_readable, images))
        and quick("tiles") is not None
    )


@dataclass(frozen=True)
class _Grid:
    """How tiles lie on slopes, and on inputs with ``zeros`` rows above and columns to the left."""

    down: int
    across: int
    zeros: tuple[int, int]
    space: Tensor

    @classmethod
    def over(cls, slopes: Tensor, zeros: tuple[int, int]) -> "_Grid":
        down, across = (-(-size // TILE) for size in slopes.shape[-2:])
        pixels = -(-(TILE * across + REACH - TILE) // LANES) * LANES
        return cls(down, across, zeros, slopes.new_empty(REACH * pixels * LANES))

    def tiles(self, planes: int) -> Tensor:
        """Room for those of an image. Shape: ``(36, tiles, planes)``."""
        return self.space.new_empty(POINTS, self.down * self.across, planes)

    def of_slopes(self, image: Tensor, tiles: Tensor) -> None:
        at_hand("tiles").gw_tiles_of_slopes(self._call(image, tiles, (0, 0)))

    def of_inputs(self, image: Tensor, tiles: Tensor) -> None:
        at_hand("tiles").gw_tiles_of_inputs(self._call(image, tiles, self.zeros))

    def to_inputs(self, tiles: Tensor, image: Tensor) -> None:
        at_hand("tiles").gw_tiles_to_inputs(self._call(image, tiles, self.zeros))

    def _call(
        self, image: Tensor, tiles: Tensor, zeros: tuple[int, int]
    ) -> Any:  # a reference, whose class has no public name
        sizes = (*image.shape, image.stride(0), image.stride(1), *zeros, self.down, self.across)
        return ctypes.byref(
            _Tiles(*sizes, image.data_ptr(), tiles.data_ptr(), self.space.data_ptr())
        )


def compiled_weight_gradients(x: Tensor, d: Tensor, zeros: tuple[int, int], out: Tensor) -> None:
    """As ``weight_gradients`` of `_ntk_tiles`.

    Shape: ``(n, q, h, w), (n, c, H, W) -> (n, 9, c, q)``.
    """
    grid = _Grid.over(d, zeros)
    inputs, slopes, met = (
        grid.tiles(x.shape[1]),
        grid.tiles(d.shape[1]),
        out.new_empty(POINTS, *out.shape[2:]),
    )
    for image, slope, found in zip(x, d, out, strict=True):
        grid.of_inputs(image, inputs)
        grid.of_slopes(slope, slopes)
        torch.bmm(slopes.mT, inputs, out=met)
        places = (ctypes.c_void_p(each.data_ptr()) for each in (met, found))
        at_hand("tiles").gw_tiles_to_taps(*places, ctypes.c_int64(met[0].numel()))


def compiled_input_slopes(d: Tensor, weights: Tensor, zeros: tuple[int, int], out: Tensor) -> None:
    """As ``input_slopes``, from weights at the 36 points.

    Shape: ``(n, c, H, W), (36, c, q) -> (n, q, h, w)``.
    """
    grid = _Grid.over(d, zeros)
    slopes, met = grid.tiles(d.shape[1]), grid.tiles(out.shape[1])
    for slope, found in zip(d, out, strict=True):
        grid.of_slopes(slope, slopes)
        torch.bmm(slopes, weights, out=met)
        grid.to_inputs(met, found)
