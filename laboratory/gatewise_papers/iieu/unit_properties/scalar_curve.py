"""A scalar function in float64, tabulated: its values, its weight f(x) / x, and its limits."""

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
NEAR = 1e3  # up to here the function is evaluated on a grid,
FAR = tuple(10.0**k for k in range(4, 9))  # and beyond at these points
GROWS = 2.0  # a bounded function is not this much larger at FAR than within NEAR; a logarithm is
PROBES = torch.tensor([-2.0, -0.5, 0.5, 2.0], dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class Curve:
    """A function on a grid that is finest near 0 and near kinks.

    Attributes:
        name: The name of the function.
        f: The function, elementwise on a tensor.
        limits: Its limits at infinity, if they are known. Else they are estimated.
        kinks: Where it is not differentiable.
    """

    name: str
    f: Scalar
    limits: Limits | None
    kinks: tuple[float, ...]

    @cached_property
    def x(self) -> Tensor:
        """The points of the grid in increasing order, without 0 and without kinks."""
        distances = torch.logspace(-6, math.log10(NEAR), 4000, dtype=torch.float64)
        points = [distances, -distances, torch.linspace(-20, 20, 20001, dtype=torch.float64)]
        for kink in self.kinks:
            points += [kink + distances[:1500], kink - distances[:1500]]
        every = torch.cat(points).unique()
        return every[self._distance_to_kinks(every) > 1e-9]

    @cached_property
    def y(self) -> Tensor:
        """``f(x)`` at the points of the grid."""
        return self.at(self.x)

    @property
    def rho(self) -> Tensor:
        """The weight ``f(x) / x`` at the points of the grid."""
        return self.y / self.x

    def at(self, x: Tensor) -> Tensor:
        """Return ``f`` at other points, without gradients."""
        with torch.no_grad():
            return self.f(x).detach()

    def slope(self, x: Tensor) -> Tensor:
        """Return the derivative of ``f``."""
        with torch.enable_grad():
            leaf = x.detach().clone().requires_grad_()
            y = self.f(leaf)
            if not y.requires_grad:  # a constant
                return torch.zeros_like(x)
            return torch.autograd.grad(y.sum(), leaf)[0]

    def end(self, sign: int) -> float:
        """Return ``f`` at plus or minus infinity, or NaN if it has no limit."""
        if self.limits is not None:
            return (self.limits.plus if sign > 0 else self.limits.minus)[0]
        values = self.at(sign * torch.tensor(FAR, dtype=torch.float64))
        last = float(values[-1])
        if not is_bounded(values, self.y[(self.x * sign) > 0]):
            return math.copysign(math.inf, last)
        settled = abs(last - float(values[-2])) <= 1e-6 * max(1.0, abs(last))
        return last if settled else math.nan

    def weight_end(self, sign: int) -> float:
        """Return ``rho`` at plus or minus infinity."""
        if math.isfinite(self.end(sign)):
            return 0.0
        far = sign * torch.tensor(FAR[-1:], dtype=torch.float64)
        # Larger weights grow without bound, e.g. that of x ** 2.
        value = float(self.at(far) / far)
        if abs(value) < 1e3:
            return value
        return math.copysign(math.inf, value)

    def largest(self, function: Scalar, low: float, high: float) -> tuple[float, float]:
        """Return where ``|function|`` is largest between two points, and its size there.

        The maximum over the grid is refined three times.

        Args:
            function: :meth:`at` or :meth:`slope`.
            low: The lower end.
            high: The upper end.
        """
        x = self.x[(self.x > low) & (self.x < high)]
        values = function(x).abs().nan_to_num(nan=0.0)
        for _ in range(3):
            peak = int(values.argmax())
            left = float(x[max(0, peak - 1)])
            right = float(x[min(len(x) - 1, peak + 1)])
            finer = torch.linspace(left, right, 1001, dtype=torch.float64)
            finer = finer[self._distance_to_kinks(finer) > 1e-12]
            if not len(finer) or float(function(finer).abs().max()) < float(values[peak]):
                break
            x = finer
            values = function(finer).abs()
        return float(x[values.argmax()]), float(values.max())

    def _distance_to_kinks(self, x: Tensor) -> Tensor:
        kinks = torch.tensor([0.0, *self.kinks], dtype=torch.float64)
        return (x[:, None] - kinks).abs().amin(1)


def is_bounded(far: Tensor, near: Tensor) -> bool:
    """Whether values far from 0 are not much larger than those near 0.

    Args:
        far: Values at growing distances.
        near: Values on the grid.
    """
    if not bool(far.isfinite().all()):
        return False
    return float(far.abs().max()) <= GROWS * float(near.abs().max()) + 1e-9


def curve_of(function: Any, options: dict[str, Any]) -> Curve:
    """Return the curve of a scalar function.

    Args:
        function: The name of a unit, a unit, a module, or a function of a tensor.
        options: Options of the unit.

    Raises:
        NotApplicableError: It is not a function of one number.
    """
    if isinstance(function, str):
        function = get_unit(function)
    if isinstance(function, Unit):
        return _curve_of_unit(function, options)
    if isinstance(function, nn.Module):
        for unit in registered_units().values():
            # A unit with context is called like any function; the check below decides.
            if unit.module is type(function) and unit.family != "context":
                return _curve_of_module(unit, function, None)
        function = copy.deepcopy(function).double().eval()
    if not callable(function):
        raise ArgumentError(
            "properties: this is not a function of one number",
            got=type(function).__name__,
            allowed="the name of a unit, a unit, a module, or a function of a tensor",
        )
    scalar: Any = function
    name = getattr(scalar, "__name__", type(scalar).__name__)
    return _checked(Curve(name, scalar, None, ()))


def _curve_of_unit(unit: Unit, options: dict[str, Any]) -> Curve:
    if unit.fact("channel_ratio", **options) != 1:
        raise NotApplicableError(
            Limitation.UNSUPPORTED_UNIT,
            f"properties: {unit.name} takes or returns several numbers, not one",
            got=unit.name,
            fix="ask for its parts, e.g. 'relu' for one half of CReLU",
        )
    probe = unit.probe
    if probe is None:
        return _curve_of_module(unit, unit.module(**options), options)

    def elementwise(x: Tensor) -> Tensor:
        column = x.reshape(-1, 1)
        arguments = dict(probe(column))
        for name, value in arguments.items():
            if isinstance(value, Tensor) and value.is_floating_point():
                arguments[name] = value.double()
        return unit.function(column, **arguments).reshape(x.shape)

    limits = unit.fact("limits", **options)
    return _checked(Curve(unit.name, elementwise, limits, tuple(unit.fact("kinks", **options))))


def _curve_of_module(unit: Unit, module: nn.Module, options: dict[str, Any] | None) -> Curve:
    """Return the curve of a unit's module.

    A module of the caller (without ``options``) may be trained, so the limits in the facts of the
    unit may not be its own.
    """
    double = copy.deepcopy(module).double().eval()
    limits = None
    if options is None:
        options = dict(getattr(module, "options", {}))
    elif not unit.learns:
        limits = unit.fact("limits", **options)

    def elementwise(x: Tensor) -> Tensor:
        return double(x.reshape(-1, 1)).reshape(x.shape)

    return _checked(Curve(unit.name, elementwise, limits, tuple(unit.fact("kinks", **options))))


def _checked(curve: Curve) -> Curve:
    """Return ``curve`` if it is a function of one number."""
    try:
        y = curve.at(PROBES)
    except Exception as problem:  # a function of the user may raise anything
        raise NotApplicableError(
            Limitation.UNSUPPORTED_UNIT,
            f"properties: {curve.name} cannot be called with numbers in float64",
            got=str(problem).splitlines()[0] if str(problem) else type(problem).__name__,
            fix="pass a function that takes a tensor and returns one of its shape",
        ) from problem
    if not isinstance(y, Tensor) or y.shape != PROBES.shape or not bool(y.isfinite().all()):
        raise NotApplicableError(
            Limitation.UNSUPPORTED_UNIT,
            f"properties: {curve.name} is not a function of one number",
            got=y,
        )
    # A softmax, for example, has other values for single inputs.
    one_by_one = torch.cat([curve.at(point[None]) for point in PROBES])
    if not torch.allclose(one_by_one, y, rtol=1e-9, atol=1e-12):
        raise NotApplicableError(
            Limitation.UNSUPPORTED_UNIT,
            f"properties: an output of {curve.name} depends on other inputs than its own",
            got="other values for single inputs than for several",
        )
    return curve
