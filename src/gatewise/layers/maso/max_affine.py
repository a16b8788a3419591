"""Reading a linear or convolution layer and the units after it as slopes and offsets of a max-affine map."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from gatewise.errors import ArgumentError, unknown_name
from gatewise.layers.windows import Windows
from gatewise.units import Abs, LeakyReLU, Maxout, PReLU, ReLU, check_choice, create_unit, is_size

UnitLike = str | nn.Module
LARGEST = 2**24  # slopes in one map: 128 MiB in float64
NAMES = ("abs", "identity", "leaky_relu", "maxout", "prelu", "relu")
_SCALAR = (nn.ReLU, nn.LeakyReLU, nn.PReLU, ReLU, LeakyReLU, PReLU, Abs)
_MAX_POOLS = {nn.MaxPool1d: 1, nn.MaxPool2d: 2, nn.MaxPool3d: 3}
_AVERAGE_POOLS = {nn.AvgPool1d: 1, nn.AvgPool2d: 2, nn.AvgPool3d: 3}
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
    """``max_r A[k, r] z + B[k, r]`` for units ``k``, which have the form ``shape`` when they are not flattened."""

    slopes: Tensor  # (K, R, D)
    offsets: Tensor  # (K, R)
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.slopes.numel() > LARGEST:
            _refuse_size(self.slopes.shape)

    @property
    def regions(self) -> int:
        """How many affine pieces a unit has."""
        return self.slopes.shape[1]

    def take(self, units: Tensor) -> "MaxAffine":
        """Some of the units, by flat index, without a form."""
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
    """Slopes ``(K, R, D)`` and offsets ``(K, R)`` in float64.

    See :meth:`gatewise.layers.maso.maso_layer.MASO.from_layer`.
    """
    check_choice("MASO", "skip_at", skip_at, ("output", "response"))
    shape = _read_input_shape(layer, input_shape)
    with torch.no_grad():
        found = _read_linear(layer, shape)
        if skip is not False and skip_at == "response":
            found = _add(found, _read_skip(skip, shape))
        for unit in _read_units(units):
            found = _apply(unit, found, hard)
        if skip is not False and skip_at == "output":
            found = _add(found, _read_skip(skip, shape))
    return found.slopes, found.offsets


def _read_input_shape(layer: nn.Module, given: Sequence[int] | None) -> tuple[int, ...]:
    if given is not None and not (
        isinstance(given, tuple | list) and all(is_size(size, 1) for size in given)
    ):
        raise ArgumentError(
            "MASO: option input_shape is not allowed",
            got=given,
            allowed="positive integers, or None",
        )
    if isinstance(layer, nn.Linear):
        shape = (layer.in_features,) if given is None else tuple(given)
        right = shape == (layer.in_features,)
        allowed = f"({layer.in_features},), or None"
    elif isinstance(layer, _CONVOLUTIONS):
        shape = tuple(given or ())
        axes = layer.weight.dim() - 2
        right = len(shape) == axes + 1 and shape[:1] == (layer.in_channels,)
        allowed = f"({layer.in_channels}, " + ", ".join("DHW"[-axes:]) + ")"
    else:
        known = "nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d"
        raise ArgumentError(
            "MASO: the layer is not linear", got=type(layer).__name__, allowed=known
        )
    if not right:
        raise ArgumentError("MASO: input_shape does not fit the layer", got=given, allowed=allowed)
    return shape


def _refuse_parametrised(layer: nn.Module) -> None:
    if "weight" not in dict(layer.named_parameters()):
        raise ArgumentError(
            "MASO: the layer's weight is computed from others",
            got=f"{type(layer).__name__} with a parametrisation",
            fix="torch.nn.utils.parametrize.remove_parametrizations(layer, 'weight')",
        )


def _read_linear(layer: nn.Module, shape: tuple[int, ...]) -> MaxAffine:
    """The layer's matrix, column by column, and its bias.

    In float64, and with the bias set to 0 rather than subtracted, so that every entry is a weight
    as it stands.
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
            "MASO: the layer cannot take input_shape", got=shape, fix=str(error)
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
        "MASO: option skip is not allowed", got=skip, allowed="True, False, or a linear layer"
    )


def _add(found: MaxAffine, skip: MaxAffine) -> MaxAffine:
    """The same affine map added to every piece: no selection changes."""
    if found.shape != skip.shape:
        got = f"{found.shape} with a skip of {skip.shape}"
        raise ArgumentError("MASO: the skip has another shape than what it is added to", got=got)
    device = found.slopes.device
    return MaxAffine(
        found.slopes + skip.slopes.to(device), found.offsets + skip.offsets.to(device), found.shape
    )


def _read_units(units: UnitLike | Sequence[UnitLike]) -> list[nn.Module]:
    if isinstance(units, nn.Sequential | list | tuple):
        return [module for unit in units for module in _read_units(unit)]
    if isinstance(units, nn.Module):
        return [units]
    if not isinstance(units, str) or units not in NAMES:
        raise unknown_name("convex piecewise affine unit", units, NAMES)
    return [nn.Identity() if units == "identity" else create_unit(units)]


def _apply(unit: nn.Module, found: MaxAffine, hard: bool) -> MaxAffine:
    """The max-affine map followed by one unit."""
    if type(unit) is nn.Identity:
        return found
    if isinstance(unit, _SCALAR):
        return _bend(unit, found)
    if isinstance(unit, Maxout):
        return _join_channels(unit, found)
    if type(unit) in _MAX_POOLS:
        return _join_windows(unit, found, _MAX_POOLS[type(unit)], hard)
    if type(unit) in _AVERAGE_POOLS:
        return _average(unit, found, _AVERAGE_POOLS[type(unit)])
    raise ArgumentError(
        "MASO: the unit is not known to be convex and piecewise affine",
        got=type(unit).__name__,
        allowed=f"{', '.join(NAMES)}, nn.MaxPoolNd, nn.AvgPoolNd, or modules of these",
        fix="give the hard unit here; inference='soft' and 'beta' give its soft forms",
    )


def _bend(unit: nn.Module, found: MaxAffine) -> MaxAffine:
    """A scalar unit with a corner at 0 has two slopes, which its values at -1 and 1 are."""
    like = next(unit.parameters(), found.slopes)
    if like is not found.slopes and like.numel() not in (1, found.shape[0]):
        raise ArgumentError(
            "MASO: the unit has another number of channels than what it is applied to",
            got=f"{like.numel()} in {unit}",
            allowed=f"1 or {found.shape[0]}",
        )
    ends = torch.tensor([[-1.0], [1.0]], dtype=like.dtype, device=like.device).expand(
        2, found.shape[0]
    )
    left, right = (unit(ends).double() * ends).to(found.slopes)
    if bool((left > right).any()) or (found.regions > 1 and bool((left < 0).any())):
        raise ArgumentError(
            "MASO: what the unit makes of its input is not convex",
            got=f"{unit} with slopes {left.tolist()} and {right.tolist()}",
            allowed="a left slope of at most the right one, and of at least 0 after a maximum",
        )
    bends = [slope.repeat_interleave(prod(found.shape[1:])) for slope in (left, right)]
    slopes = torch.cat([bend[:, None, None] * found.slopes for bend in bends], 1)
    offsets = torch.cat([bend[:, None] * found.offsets for bend in bends], 1)
    return MaxAffine(slopes, offsets, found.shape)


def _join(parts: Sequence[MaxAffine], shape: tuple[int, ...]) -> MaxAffine:
    """The maximum of several maps has all their regions."""
    _refuse_join(parts)
    slopes, offsets = (
        torch.cat([p.slopes for p in parts], 1),
        torch.cat([p.offsets for p in parts], 1),
    )
    return MaxAffine(slopes, offsets, shape)


def _refuse_join(parts: Sequence[MaxAffine]) -> None:
    units, regions, features = parts[0].slopes.shape
    if units * regions * len(parts) * features > LARGEST:
        _refuse_size((units, regions * len(parts), features))


def _join_channels(unit: Maxout, found: MaxAffine) -> MaxAffine:
    axis = unit.dim - 1 if unit.dim > 0 else unit.dim + len(found.shape)
    if axis != 0 or found.shape[0] % unit.pieces:
        got = f"{unit} after {found.shape}"
        raise ArgumentError("MASO: maxout must divide the channels, at dimension 1", got=got)
    groups = torch.arange(prod(found.shape)).reshape(-1, unit.pieces, *found.shape[1:])
    parts = [found.take(group.flatten()) for group in groups.unbind(1)]
    return _join(parts, (found.shape[0] // unit.pieces, *found.shape[1:]))


def _join_windows(pool: Any, found: MaxAffine, axes: int, hard: bool) -> MaxAffine:
    windows = _windows_of(pool, axes, pool.dilation)
    taps, shape = _taps(pool, windows, found)
    outside = taps < 0
    if outside.any() and not hard:
        raise ArgumentError(
            "MASO: padding gives some units fewer regions, which only hard inference can stand",
            got=pool,
            fix="inference='hard', or no padding and no ceil_mode",
        )
    # A window's first inner position in place of its outer ones: a region twice does not change a
    # maximum.
    inner = taps.gather(0, (~outside).int().argmax(0, keepdim=True)).expand_as(taps)
    return _join([found.take(tap) for tap in torch.where(outside, inner, taps)], shape)


def _average(pool: Any, found: MaxAffine, axes: int) -> MaxAffine:
    """Linear for affine maps.

    The sum of maxima is the maximum over all combinations of their regions.
    """
    windows = _windows_of(pool, axes, 1)
    taps, shape = _taps(pool, windows, found)
    if found.regions == 1:
        maps = torch.cat([found.slopes[:, 0], found.offsets], 1).T.reshape(-1, *found.shape)
        linear = pool(maps).flatten(1).T
        return MaxAffine(linear[:, None, :-1], linear[:, -1:], shape)
    if bool((taps < 0).any()):
        raise ArgumentError(
            "MASO: padding in an average after a maximum is not supported", got=pool
        )
    parts = [found.take(tap) for tap in taps]
    total = reduce(_sum, parts)
    count = len(parts) if getattr(pool, "divisor_override", None) is None else pool.divisor_override
    return MaxAffine(total.slopes / count, total.offsets / count, shape)


def _sum(a: MaxAffine, b: MaxAffine) -> MaxAffine:
    if a.slopes.numel() * b.regions > LARGEST:
        _refuse_size((a.slopes.shape[0], a.regions * b.regions, a.slopes.shape[2]))
    slopes = (a.slopes[:, :, None] + b.slopes[:, None]).flatten(1, 2)
    return MaxAffine(slopes, (a.offsets[:, :, None] + b.offsets[:, None]).flatten(1, 2), a.shape)


def _windows_of(pool: Any, axes: int, dilation: int | Sequence[int]) -> Windows:
    sizes = (pool.kernel_size, pool.stride, pool.padding, dilation)
    kernel, stride, padding, gaps = ((v,) * axes if isinstance(v, int) else tuple(v) for v in sizes)
    return Windows(kernel, stride, padding, gaps, pool.ceil_mode)


def _taps(pool: nn.Module, windows: Windows, found: MaxAffine) -> tuple[Tensor, tuple[int, ...]]:
    """Flat indices of the units each window holds, ``(places, windows)``, -1 outside.

    And the pooled shape.
    """
    if len(found.shape) != windows.axes + 1:
        raise ArgumentError(
            "MASO: the pool is of another dimension than its input",
            got=f"{pool} after {found.shape}",
        )
    index = torch.arange(prod(found.shape), dtype=torch.float64).reshape(found.shape)
    windows.check("MASO", index)
    taps = windows.taps(index, -1.0)
    return torch.stack([tap.flatten() for tap in taps]).long(), tuple(taps[0].shape)
