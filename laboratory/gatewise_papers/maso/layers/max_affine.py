"""Read a linear or convolution layer and the units after it as a max-affine map."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from gatewise.checks import check_choice, is_size
from gatewise.errors import ArgumentError, unknown_name
from gatewise.layers.windows import Windows
from gatewise.units import Abs, LeakyReLU, Maxout, PReLU, ReLU, create_unit

UnitLike = str | nn.Module
LARGEST = 2**24  # slopes in one map: 128 MiB in float64
NAMES = ("abs", "identity", "leaky_relu", "maxout", "prelu", "relu")
_SCALAR = (nn.ReLU, nn.LeakyReLU, nn.PReLU, ReLU, LeakyReLU, PReLU, Abs)
_MAX_POOLS = {
    nn.MaxPool1d: 1,
    nn.MaxPool2d: 2,
    nn.MaxPool3d: 3,
}
_AVERAGE_POOLS = {
    nn.AvgPool1d: 1,
    nn.AvgPool2d: 2,
    nn.AvgPool3d: 3,
}
_CONVOLUTIONS = (
    nn.Conv1d,
    nn.Conv2d,
    nn.Conv3d,
    nn.ConvTranspose1d,
    nn.ConvTranspose2d,
    nn.ConvTranspose3d,
)


@dataclass(frozen=True)
class MaxAffine:
    """``max_r A[k, r] z + B[k, r]`` for units ``k`` that have the form ``shape``."""

    slopes: Tensor  # (K, R, D)
    offsets: Tensor  # (K, R)
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.slopes.numel() > LARGEST:
            _refuse_size(self.slopes.shape)

    @property
    def regions(self) -> int:
        """The number of affine pieces of a unit."""
        return self.slopes.shape[1]

    def take(self, units: Tensor) -> "MaxAffine":
        """Return some of the units, by flat index, without a form."""
        return MaxAffine(self.slopes[units], self.offsets[units], (len(units),))


def read_layer(
    layer: nn.Module,
    units: UnitLike | Sequence[UnitLike],
    input_shape: Sequence[int] | None,
    skip: bool | nn.Module,
    skip_at: str,
    *,
    hard: bool,
) -> tuple[Tensor, Tensor]:
    """Return slopes ``(K, R, D)`` and offsets ``(K, R)`` in float64.

    The arguments are those of :meth:`gatewise.nn.MASO.from_layer`; ``hard`` says whether the
    inference is hard.
    """
    check_choice("MASO", "skip_at", skip_at, ("output", "response"))
    shape = _read_input_shape(layer, input_shape)
    with torch.no_grad():
        affine = _read_linear(layer, shape)
        if skip is not False and skip_at == "response":
            affine = _add(affine, _read_skip(skip, shape))
        for unit in _read_units(units):
            affine = _apply(unit, affine, hard)
        if skip is not False and skip_at == "output":
            affine = _add(affine, _read_skip(skip, shape))
    return affine.slopes, affine.offsets


def _read_input_shape(layer: nn.Module, input_shape: Sequence[int] | None) -> tuple[int, ...]:
    if input_shape is not None:
        sizes = input_shape if isinstance(input_shape, tuple | list) else ()
        if sizes is not input_shape or not all(is_size(size, 1) for size in sizes):
            raise ArgumentError(
                "MASO: option input_shape is not allowed",
                got=input_shape,
                allowed="positive integers, or None",
            )
    if isinstance(layer, nn.Linear):
        shape = (layer.in_features,) if input_shape is None else tuple(input_shape)
        right = shape == (layer.in_features,)
        allowed = f"({layer.in_features},), or None"
    elif isinstance(layer, _CONVOLUTIONS):
        shape = tuple(input_shape or ())
        axes = layer.weight.dim() - 2
        right = len(shape) == axes + 1 and shape[:1] == (layer.in_channels,)
        allowed = f"({layer.in_channels}, " + ", ".join("DHW"[-axes:]) + ")"
    else:
        raise ArgumentError(
            "MASO: the layer is not linear",
            got=type(layer).__name__,
            allowed="nn.Linear, nn.Conv1d to nn.Conv3d, nn.ConvTranspose1d to nn.ConvTranspose3d",
        )
    if not right:
        raise ArgumentError(
            "MASO: input_shape does not fit the layer",
            got=input_shape,
            allowed=allowed,
        )
    return shape


def _refuse_parametrised(layer: nn.Module) -> None:
    if "weight" not in dict(layer.named_parameters()):
        raise ArgumentError(
            "MASO: the layer's weight is parametrised",
            got=type(layer).__name__,
            fix="torch.nn.utils.parametrize.remove_parametrizations(layer, 'weight')",
        )


def _read_linear(layer: nn.Module, shape: tuple[int, ...]) -> MaxAffine:
    """Return the layer's matrix, column by column, and its bias.

    They are computed in float64, with the bias set to 0 instead of subtracted, so that every entry
    is exactly a weight.
    """
    _refuse_parametrised(layer)
    weights = {name: value.detach().double() for name, value in layer.named_parameters()}
    if (size := prod(shape)) > LARGEST:
        _refuse_size((1, 1, size))
    zero = torch.zeros(1, *shape, dtype=torch.float64, device=weights["weight"].device)
    try:
        offset = functional_call(layer, weights, (zero,))
    except RuntimeError as error:
        raise ArgumentError(
            "MASO: the layer cannot take input_shape",
            got=shape,
            fix=str(error),
        ) from None
    if size * offset.numel() > LARGEST:
        _refuse_size((offset.numel(), 1, size))
    if "bias" in weights:
        weights["bias"] = torch.zeros_like(weights["bias"])
    basis = torch.eye(size, dtype=torch.float64, device=zero.device).reshape(size, *shape)
    columns = functional_call(layer, weights, (basis,)).flatten(1)
    return MaxAffine(columns.T.unsqueeze(1), offset.reshape(-1, 1), tuple(offset.shape[1:]))


def _refuse_size(shape: Sequence[int]) -> None:
    raise ArgumentError(
        "MASO: the dense slopes would be too large",
        got=" x ".join(map(str, shape)) + f" = {prod(shape):,} numbers",
        allowed=f"at most {LARGEST:,}",
        fix="a smaller input_shape",
    )


def _read_skip(skip: bool | nn.Module, shape: tuple[int, ...]) -> MaxAffine:
    if skip is True:
        size = prod(shape)
        eye = torch.eye(size, dtype=torch.float64).unsqueeze(1)
        return MaxAffine(eye, torch.zeros(size, 1, dtype=torch.float64), shape)
    if isinstance(skip, nn.Module):
        return _read_linear(skip, _read_input_shape(skip, shape))
    raise ArgumentError(
        "MASO: option skip is not allowed",
        got=skip,
        allowed="True, False, or a linear layer",
    )


def _add(affine: MaxAffine, skip: MaxAffine) -> MaxAffine:
    """Add the same affine map to every piece, which changes no selection."""
    if affine.shape != skip.shape:
        got = f"{affine.shape} with a skip of {skip.shape}"
        raise ArgumentError("MASO: the skip does not have the shape of the output", got=got)
    device = affine.slopes.device
    return MaxAffine(
        affine.slopes + skip.slopes.to(device),
        affine.offsets + skip.offsets.to(device),
        affine.shape,
    )


def _read_units(units: UnitLike | Sequence[UnitLike]) -> list[nn.Module]:
    if isinstance(units, nn.Sequential | list | tuple):
        modules = []
        for unit in units:
            modules += _read_units(unit)
        return modules
    if isinstance(units, nn.Module):
        return [units]
    if not isinstance(units, str) or units not in NAMES:
        raise unknown_name("convex piecewise affine unit", units, NAMES)
    return [nn.Identity() if units == "identity" else create_unit(units)]


def _apply(unit: nn.Module, affine: MaxAffine, hard: bool) -> MaxAffine:
    """The max-affine map followed by one unit."""
    if type(unit) is nn.Identity:
        return affine
    if isinstance(unit, _SCALAR):
        return _bend(unit, affine)
    if isinstance(unit, Maxout):
        return _join_channels(unit, affine)
    if type(unit) in _MAX_POOLS:
        return _join_windows(unit, affine, _MAX_POOLS[type(unit)], hard)
    if type(unit) in _AVERAGE_POOLS:
        return _average(unit, affine, _AVERAGE_POOLS[type(unit)])
    raise ArgumentError(
        "MASO: the unit is not known to be convex and piecewise affine",
        got=type(unit).__name__,
        allowed=f"{', '.join(NAMES)}, nn.MaxPoolNd, nn.AvgPoolNd, or modules of these",
        fix="give the hard unit here; inference='soft' and 'beta' give its soft forms",
    )


def _bend(unit: nn.Module, affine: MaxAffine) -> MaxAffine:
    """Return a scalar unit with a corner at 0, whose two slopes are its values at -1 and 1."""
    like = next(unit.parameters(), affine.slopes)
    if like is not affine.slopes and like.numel() not in (1, affine.shape[0]):
        raise ArgumentError(
            "MASO: the unit has the wrong number of channels",
            got=f"{like.numel()} in {unit}",
            allowed=f"1 or {affine.shape[0]}",
        )
    ends = torch.tensor([[-1.0], [1.0]], dtype=like.dtype, device=like.device)
    ends = ends.expand(2, affine.shape[0])
    left, right = (unit(ends).double() * ends).to(affine.slopes)
    # After a maximum, a falling piece would turn it into a minimum.
    falls = affine.regions > 1 and bool((left < 0).any())
    if falls or bool((left > right).any()):
        raise ArgumentError(
            "MASO: the unit makes the map not convex",
            got=f"{unit} with slopes {left.tolist()} and {right.tolist()}",
            allowed="a left slope of at most the right one, and of at least 0 after a maximum",
        )
    positions = prod(affine.shape[1:])
    bends = [slope.repeat_interleave(positions) for slope in (left, right)]
    slopes = torch.cat([bend[:, None, None] * affine.slopes for bend in bends], 1)
    offsets = torch.cat([bend[:, None] * affine.offsets for bend in bends], 1)
    return MaxAffine(slopes, offsets, affine.shape)


def _join(parts: Sequence[MaxAffine], shape: tuple[int, ...]) -> MaxAffine:
    """Return the maximum of several maps, which has all their regions."""
    _refuse_join(parts)
    slopes = torch.cat([part.slopes for part in parts], 1)
    offsets = torch.cat([part.offsets for part in parts], 1)
    return MaxAffine(slopes, offsets, shape)


def _refuse_join(parts: Sequence[MaxAffine]) -> None:
    units, regions, features = parts[0].slopes.shape
    if units * regions * len(parts) * features > LARGEST:
        _refuse_size((units, regions * len(parts), features))


def _join_channels(unit: Maxout, affine: MaxAffine) -> MaxAffine:
    axis = unit.dim - 1 if unit.dim > 0 else unit.dim + len(affine.shape)
    if axis != 0 or affine.shape[0] % unit.pieces:
        got = f"{unit} after {affine.shape}"
        raise ArgumentError("MASO: maxout must divide the channels, at dimension 1", got=got)
    groups = torch.arange(prod(affine.shape)).reshape(-1, unit.pieces, *affine.shape[1:])
    parts = [affine.take(group.flatten()) for group in groups.unbind(1)]
    return _join(parts, (affine.shape[0] // unit.pieces, *affine.shape[1:]))


def _join_windows(
    pool: Any,
    affine: MaxAffine,
    axes: int,
    hard: bool,
) -> MaxAffine:
    windows = _windows_of(pool, axes, pool.dilation)
    taps, shape = _window_units(pool, windows, affine)
    outside = taps < 0
    if outside.any() and not hard:
        raise ArgumentError(
            "MASO: padding gives some units fewer regions, which needs hard inference",
            got=pool,
            fix="inference='hard', or no padding and no ceil_mode",
        )
    # The first inner position of a window replaces its outer ones: a region that occurs twice does
    # not change a maximum.
    inner = taps.gather(0, (~outside).int().argmax(0, keepdim=True)).expand_as(taps)
    return _join([affine.take(tap) for tap in torch.where(outside, inner, taps)], shape)


def _average(pool: Any, affine: MaxAffine, axes: int) -> MaxAffine:
    """Return the average over windows.

    It is linear for affine maps. The sum of maxima is the maximum over all combinations of their
    regions.
    """
    windows = _windows_of(pool, axes, 1)
    taps, shape = _window_units(pool, windows, affine)
    if affine.regions == 1:
        # Each input, and the offset, as a map of all units.
        columns = torch.cat([affine.slopes[:, 0], affine.offsets], 1)
        linear = pool(columns.T.reshape(-1, *affine.shape)).flatten(1).T
        return MaxAffine(linear[:, None, :-1], linear[:, -1:], shape)
    if bool((taps < 0).any()):
        raise ArgumentError(
            "MASO: padding in an average after a maximum is not supported", got=pool
        )
    parts = [affine.take(tap) for tap in taps]
    total = reduce(_sum, parts)
    count = len(parts) if getattr(pool, "divisor_override", None) is None else pool.divisor_override
    return MaxAffine(total.slopes / count, total.offsets / count, shape)


def _sum(a: MaxAffine, b: MaxAffine) -> MaxAffine:
    if a.slopes.numel() * b.regions > LARGEST:
        _refuse_size((a.slopes.shape[0], a.regions * b.regions, a.slopes.shape[2]))
    # Every region of one with every region of the other.
    slopes = a.slopes[:, :, None] + b.slopes[:, None]
    offsets = a.offsets[:, :, None] + b.offsets[:, None]
    return MaxAffine(slopes.flatten(1, 2), offsets.flatten(1, 2), a.shape)


def _windows_of(pool: Any, axes: int, dilation: int | Sequence[int]) -> Windows:
    sizes = (pool.kernel_size, pool.stride, pool.padding, dilation)
    kernel, stride, padding, gaps = (
        (size,) * axes if isinstance(size, int) else tuple(size) for size in sizes
    )
    return Windows(kernel, stride, padding, gaps, pool.ceil_mode)


def _window_units(
    pool: nn.Module,
    windows: Windows,
    affine: MaxAffine,
) -> tuple[Tensor, tuple[int, ...]]:
    """Return the flat indices of the units in each window, and the pooled shape.

    The indices are ``(places, windows)``, -1 outside of the input.
    """
    if len(affine.shape) != windows.axes + 1:
        raise ArgumentError(
            "MASO: the pool has the wrong number of dimensions",
            got=f"{pool} after {affine.shape}",
        )
    index = torch.arange(prod(affine.shape), dtype=torch.float64).reshape(affine.shape)
    windows.check("MASO", index)
    taps = windows.positions(index, -1.0)
    flat = torch.stack([tap.flatten() for tap in taps])
    return flat.long(), tuple(taps[0].shape)
