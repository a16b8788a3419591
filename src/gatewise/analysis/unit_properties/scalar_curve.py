"""A scalar function in float64, tabulated.

Its values, its weight rho(x) = f(x) / x, and where they go at infinity.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.errors import ArgumentError, Limitation, NotApplicableError
from gatewise.units import Limits, Unit, get_unit, registered_units

Scalar = Callable[[Tensor], Tensor]
FAR = tuple(10.0**k for k in range(4, 9))
NEAR = 1e3  # what lies within is looked at point by point, what lies beyond at FAR
GROWS = 2.0  # a bounded function is not this much larger at FAR than within NEAR; a logarithm is


@dataclass(frozen=True, eq=False)
class Curve:
    """``f`` on a grid that is finest near 0 and near kinks."""

    name: str
    f: Scalar
    limits: Limits | None  # what is known of infinity; None: looked at
    kinks: tuple[float, ...]

    @cached_property
    def x(self) -> Tensor:
        """Growing points, without 0 and without kinks."""
        out = torch.logspace(-6, math.log10(NEAR), 4000, dtype=torch.float64)
        points = [out, -out, torch.linspace(-20, 20, 20001, dtype=torch.float64)]
        for kink in self.kinks:
            points += [kink + out[:1500], kink - out[:1500]]
        every = torch.cat(points).unique()
        kinks = torch.tensor([0.0, *self.kinks], dtype=torch.float64)
        return every[(every[:, None] - kinks).abs().amin(1) > 1e-9]

    @cached_property
    def y(self) -> Tensor:
        """``f(x)``."""
        return self.at(self.x)

    @property
    def rho(self) -> Tensor:
        """The weight ``f(x) / x``."""
        return self.y / self.x

    def at(self, x: Tensor) -> Tensor:
        """``f`` at other points, without gradients."""
        with torch.no_grad():
            return self.f(x).detach()

    def slope(self, x: Tensor) -> Tensor:
        """The derivative."""
        with torch.enable_grad():
            leaf = x.detach().clone().requires_grad_()
            y = self.f(leaf)
            return torch.autograd.grad(y.sum(), leaf)[0] if y.requires_grad else torch.zeros_like(x)

    def end(self, sign: int) -> float:
        """``f`` at plus or minus infinity: as its facts say, else where it goes; NaN if nowhere."""
        if self.limits is not None:
            return (self.limits.plus if sign > 0 else self.limits.minus)[0]
        values = self.at(sign * torch.tensor(FAR, dtype=torch.float64))
        if not is_bounded(values, self.y[(self.x * sign) > 0]):
            return math.copysign(math.inf, float(values[-1]))
        settled = float((values[-1] - values[-2]).abs()) <= 1e-6 * max(1.0, float(values[-1].abs()))
        return float(values[-1]) if settled else math.nan

    def weight_end(self, sign: int) -> float:
        """``rho`` at plus or minus infinity."""
        if math.isfinite(self.end(sign)):
            return 0.0
        far = sign * torch.tensor(FAR[-1:], dtype=torch.float64)
        value = float(self.at(far) / far)
        return value if abs(value) < 1e3 else math.copysign(math.inf, value)

    def largest(self, function: Scalar, low: float, high: float) -> tuple[float, float]:
        """Where ``|function|`` is largest between two points, and how large.

        The grid, then finer around its peak.
        """
        x = self.x[(self.x > low) & (self.x < high)]
        values = function(x).abs().nan_to_num(nan=0.0)
        for _ in range(3):
            peak = int(values.argmax())
            around = x[max(0, peak - 1)], x[min(len(x) - 1, peak + 1)]
            finer = torch.linspace(float(around[0]), float(around[1]), 1001, dtype=torch.float64)
            kept = finer[self._away(finer)]
            if not len(kept) or float(function(kept).abs().max()) < float(values[peak]):
                break
            x, values = kept, function(kept).abs()
        return float(x[values.argmax()]), float(values.max())

    def _away(self, x: Tensor) -> Tensor:
        kinks = torch.tensor([0.0, *self.kinks], dtype=torch.float64)
        return (x[:, None] - kinks).abs().amin(1) > 1e-12


def is_bounded(far: Tensor, near: Tensor) -> bool:
    """Whether values far out are of the size of those within."""
    return (
        bool(far.isfinite().all())
        and float(far.abs().max()) <= GROWS * float(near.abs().max()) + 1e-9
    )


def curve_of(given: Any, options: dict[str, Any]) -> Curve:
    """The curve of a unit, by name or itself, of a module, or of a function of a tensor."""
    if isinstance(given, str):
        given = get_unit(given)
    if isinstance(given, Unit):
        return _of_unit(given, options)
    if isinstance(given, nn.Module):
        unit = next(
            (each for each in registered_units().values() if each.module is type(given)), None
        )
        if unit is not None and unit.family != "context":
            return _of_module(unit, given)
        given = _doubled(given)
    if not callable(given):
        raise ArgumentError(
            "properties: is not a function of a number",
            got=type(given).__name__,
            allowed="a unit's name, a unit, a module, or a function of a tensor",
        )
    function: Any = given
    return _checked(Curve(getattr(given, "__name__", type(given).__name__), function, None, ()))


def _doubled(module: nn.Module) -> nn.Module:
    return copy.deepcopy(module).double().eval()


def _of_unit(unit: Unit, options: dict[str, Any]) -> Curve:
    if unit.fact("channel_ratio", **options) != 1:
        raise NotApplicableError(
            Limitation.UNSUPPORTED_UNIT,
            f"properties: {unit.name} gives several numbers, or takes several, and the properties are of one",
            got=unit.name,
            fix="ask for its parts, e.g. 'relu' for a half of CReLU",
        )
    if unit.probe is None:
        return _of_module(unit, unit.module(**options), options)
    probe = unit.probe

    def elementwise(x: Tensor) -> Tensor:
        column = x.reshape(-1, 1)
        given = {name: _double(value) for name, value in probe(column).items()}
        return unit.function(column, **given).reshape(x.shape)

    return _checked(
        Curve(unit.name, elementwise, unit.fact("limits", **options), _kinks(unit, options))
    )


def _of_module(unit: Unit, module: nn.Module, options: dict[str, Any] | None = None) -> Curve:
    made = _doubled(module)
    chosen = dict(getattr(module, "options", {})) if options is None else options
    limits = unit.fact("limits", **chosen) if options is not None and not unit.learns else None
    curve = Curve(
        unit.name, lambda x: made(x.reshape(-1, 1)).reshape(x.shape), limits, _kinks(unit, chosen)
    )
    return _checked(curve)


def _double(value: Any) -> Any:
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value


def _kinks(unit: Unit, options: dict[str, Any]) -> tuple[float, ...]:
    return tuple(unit.fact("kinks", **options))


def _checked(curve: Curve) -> Curve:
    points = torch.tensor([-2.0, -0.5, 0.5, 2.0], dtype=torch.float64)
    try:
        y = curve.at(points)
    except Exception as problem:  # whatever a user's function raises
        raise NotApplicableError(
            Limitation.UNSUPPORTED_UNIT,
            f"properties: {curve.name} cannot be called with numbers in float64",
            got=str(problem).splitlines()[0] if str(problem) else type(problem).__name__,
            fix="pass a function that takes a tensor and returns one of its shape",
        ) from problem
    if not isinstance(y, Tensor) or y.shape != points.shape or not bool(y.isfinite().all()):
        raise NotApplicableError(
            Limitation.UNSUPPORTED_UNIT,
            f"properties: {curve.name} is not a function of one number",
            got=y,
        )
    alone = torch.cat([curve.at(point[None]) for point in points])
    if not torch.allclose(alone, y, rtol=1e-9, atol=1e-12):
        raise NotApplicableError(
            Limitation.UNSUPPORTED_UNIT,
            f"properties: {curve.name} looks at more than its own number",
            got="other answers alone",
        )
    return curve
