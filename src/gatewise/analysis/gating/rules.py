"""What the gate of a unit is, computed from the unit's own function: one definition for all.

Note [Gates]. The output of a unit is a gate times its response, ``f(z) = T(z) z``. For a unit with
``f(0) = 0`` the gate is this secant. For other units (softplus) it is the derivative, as in Note
[Frozen gates]. A function that is bounded on both sides (sigmoid, tanh) is a gate itself.

Every gate is on one scale: 0 at the end where the unit passes least, 1 at the end where it passes
most. If both ends are alike, as for the absolute value, 1 is at plus infinity. The ends are
computed at responses of a million, or for PAU at the ends of the interval on which its initial
parameters were fitted. A channel without two different ends is linear and always on. Max-affine
units are only on or off.

What "on" means is declared by each unit, and by the operator table for functions of torch. Most say
that the response is positive. Of a soft gate, "on" is above 1/2: it is limited to this side of 1/2
where the response is positive, and to the other side elsewhere. Else SELU, whose secant is largest
just below 0, would be on at -3. A unit that declares nothing is on where its gate is above 1/2.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.graph import get_operator, slope_of
from gatewise.units import split_branches

Function = Callable[[Tensor], Tensor]
POSITIVE = "x > 0"
NOT_DECLARED = "gate > 1/2"  # what on means for a unit that does not say
FAR = 1e6  # where gates are at their ends; not larger, since rational units take its fifth power
FITTED = {"pau": 3.0}  # outside of this interval a rational unit follows no activation function
LINEAR = 1e-6  # ends that are closer than this are the same
BOUNDED = 1e-3  # a unit whose secant is smaller at both ends is bounded on both sides


@dataclass(frozen=True)
class Rule:
    """How a gate is computed.

    Attributes:
        gate: A function of the response, or of response and output if ``needs_output``. It returns
            truth values for a hard unit and numbers from 0 to 1 for a soft one.
        soft: Whether the gate is soft.
        needs_output: Whether the gate depends on the output too, as for units with context.
        on: What it means that the gate is on, in words.
        slope: The slope at a response, for each channel of the output; ``None`` if it is never
            zero. For a gated linear unit, the gate: what the value is multiplied by.
    """

    gate: Callable[..., Tensor]
    soft: bool
    needs_output: bool = False
    on: str = NOT_DECLARED
    slope: Function | None = None


def hard_rule(
    unit: str, arguments: Mapping[str, Any], dim: int, function: Function | None
) -> Rule | None:
    """Return the rule of a unit that is only on or off, else ``None``.

    Args:
        unit: The name of the unit or operator.
        arguments: The arguments of the call.
        dim: The dimension of the channels.
        function: The unit as a function of the response; ``None`` if it depends on more.
    """
    if unit == "crelu":

        def sides(z: Tensor) -> Tensor:
            return torch.cat((z > 0, z < 0), dim)

        return Rule(sides, soft=False, on="x > 0, x < 0", slope=lambda z: sides(z).double())
    operator = get_operator(unit)
    pieces = operator.pieces
    if pieces is None:
        return None
    known = {**operator.options, **arguments}
    return Rule(
        lambda z: pieces.active(z, known),
        soft=False,
        on=pieces.on(known),
        slope=None if function is None else lambda z: slope_of(function, z),
    )


def context_rule(unit: str, module: Any) -> Rule | None:
    """Return the rule of a unit whose gate depends on more than its own response.

    Args:
        unit: The name of the unit.
        module: The module of the unit.

    Returns:
        ``None`` if the gate is not known.
    """
    match unit:
        case "frelu":
            return Rule(lambda z, y: y == z, soft=False, needs_output=True, on="y = x")
        case "iieu_b":
            return Rule(
                lambda z, y: _secant(z, y) >= _along(module.threshold(), z, module.dim),
                soft=False,
                needs_output=True,
                on="similarity >= threshold",
            )
        case "meta_acon":
            return Rule(lambda z, y: _between_slopes(module, z, y), soft=True, needs_output=True)
    return None


def two_branch_rule(unit: str, dim: int, layout: str, function: Function, on: str) -> Rule:
    """Return the rule of a gated linear unit, whose response holds a gate and a value.

    Args:
        unit: The name of the unit.
        dim: The dimension along which the response holds both.
        layout: How it holds them.
        function: The unit as a function of its gate, for a value of 1.
        on: What the unit declares on to be.
    """
    inner = soft_rule(unit, function, dim, on)

    def gate(z: Tensor) -> Tensor:
        return inner.gate(split_branches(unit, z, dim, layout)[0])

    def slope(z: Tensor) -> Tensor:
        has_both = z.shape[dim] > 1  # not where channels are along another dimension
        return gate(z) if has_both else torch.ones_like(z)

    return Rule(gate, soft=True, on=on, slope=slope)


def soft_rule(unit: str, function: Function, dim: int, on: str = NOT_DECLARED) -> Rule:
    """Return the rule of an elementwise function of the response.

    Args:
        unit: The name of the unit.
        function: The function.
        dim: The dimension of the channels.
        on: What the unit declares on to be.
    """
    farthest = FITTED.get(unit, FAR)

    def gate(z: Tensor) -> Tensor:
        ones = z.new_ones([size if axis == dim else 1 for axis, size in enumerate(z.shape)])
        # In float16 a million is infinite.
        far = ones * min(farthest, torch.finfo(z.dtype).max / 2)
        weight = _weight_of(function, ones)
        low = weight(-far)
        high = weight(far)
        if max(float(low.abs().max()), float(high.abs().max())) < BOUNDED:
            weight = function
            low = weight(-far)
            high = weight(far)
        share = _on_scale(weight(z), low, high)
        if on == POSITIVE:
            above = torch.nextafter(share.new_tensor(0.5), share.new_tensor(1.0))
            return torch.where(z > 0, share.clamp(min=above), share.clamp(max=0.5))
        return share

    return Rule(gate, soft=True, on=on, slope=lambda z: slope_of(function, z))


def parameters_of(unit: str, module: nn.Module | None) -> dict[str, Tensor]:
    """Return the trained parameters of a unit by name, without those of whole layers inside it.

    Args:
        unit: The name of the unit.
        module: The module of the unit. A functional call has none.
    """
    if module is None:
        return {}
    parameters = dict(module.named_parameters(recurse=False))
    if unit == "iieu_b":
        shift = module.get_submodule("shift")
        for name, value in shift.named_parameters():
            parameters[f"shift.{name}"] = value
    return {name: value.detach() for name, value in parameters.items()}


def _weight_of(function: Function, ones: Tensor) -> Function:
    """Return the secant through 0 if ``f(0) = 0``, else the derivative."""
    if bool(function(torch.zeros_like(ones)).any()):
        return lambda z: slope_of(function, z)
    # At this size the secant is at its limit, the slope at 0.
    dtype = torch.finfo(ones.dtype)
    near = dtype.tiny * 2.0**20 if dtype.eps < 1e-6 else 1e-3

    def secant(z: Tensor) -> Tensor:
        away = torch.where(z.abs() < near, near, z)
        return function(away) / away

    return secant


def _on_scale(weight: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Map weights to 0 at the end where the unit passes least and to 1 where it passes most."""
    rising = high.abs() >= low.abs()
    most = torch.where(rising, high, low)
    least = torch.where(rising, low, high)
    span = most - least
    linear = span.abs() < LINEAR
    return torch.where(linear, 1.0, (weight - least) / torch.where(linear, 1.0, span)).clamp(0, 1)


def _secant(z: Tensor, y: Tensor) -> Tensor:
    return torch.where(z == 0, 0.0, y / torch.where(z == 0, 1.0, z))


def _between_slopes(module: Any, z: Tensor, y: Tensor) -> Tensor:
    low = _along(module.p2.detach(), z, module.dim)
    high = _along(module.p1.detach(), z, module.dim)
    return _on_scale(_secant(z, y), low, high)


def _along(values: Tensor, z: Tensor, dim: int) -> Tensor:
    """Return one value for each channel in a shape that broadcasts with ``z``."""
    return values.reshape([-1 if axis == dim % z.dim() else 1 for axis in range(z.dim())])
