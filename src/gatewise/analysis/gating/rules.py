"""What the gate of a unit is, read from the unit's own function: one definition for all.

Note [Gates]. A unit's output is a gate times its response, ``f(z) = T(z) z``. For a unit with
``f(0) = 0`` the gate is that secant; for another (softplus) it is the derivative, as in Note [Held
gates]; a function bounded on both sides (sigmoid, tanh) is a gate itself. Every gate is given on
one scale: 0 at the end where the unit passes least, 1 at the end where it passes most (at plus
infinity, if both are alike, as of the absolute value); so that "on" is above 1/2 and "undecided" is
in between. The ends are the unit's own, at responses of a million (of PAU, at the ends of the
interval it starts fitted on). A channel without two different ends is linear: always on. Max-affine
units are on or off and nothing else.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Function = Callable[[Tensor], Tensor]
FAR = 1e6  # where gates are at their ends: not larger, for rational units take its fifth power
FITTED = {"pau": 3.0}  # beyond, a rational unit goes its own way
LINEAR = 1e-6  # ends nearer to each other are one


@dataclass(frozen=True)
class Rule:
    """How gates are read: ``gate(response)``, or ``gate(response, output)`` for units that look around."""

    gate: Callable[
        ..., Tensor
    ]  # truth values where the unit is hard, numbers from 0 to 1 where it is soft
    soft: bool
    needs_output: bool = False


def hard_rule(unit: str, arguments: Mapping[str, Any], dim: int) -> Rule | None:
    """The rule of a unit that is on or off; ``None`` if it is not one."""
    match unit:
        case "relu" | "leaky_relu" | "prelu" | "rrelu" | "abs" | "relu6":
            return Rule(lambda z: z > 0, soft=False)
        case "crelu":
            return Rule(lambda z: torch.cat((z > 0, z < 0), dim), soft=False)
        case "hardtanh" | "threshold":
            floor = float(arguments["min_val" if unit == "hardtanh" else "threshold"])
            return Rule(lambda z: z > floor, soft=False)
        case "hardshrink" | "softshrink":
            width = float(arguments["lambd"])
            return Rule(lambda z: z.abs() > width, soft=False)
    return None


def context_rule(unit: str, module: Any) -> Rule | None:
    """The rule of a unit whose gate depends on more than its own response.

    ``None`` if it is not known.
    """
    match unit:
        case "frelu":
            return Rule(lambda z, y: y == z, soft=False, needs_output=True)
        case "iieu_b":
            return Rule(
                lambda z, y: _secant(z, y) >= _along(module.threshold(), z, module.dim), False, True
            )
        case "meta_acon":
            return Rule(lambda z, y: _between_slopes(module, z, y), soft=True, needs_output=True)
    return None


def soft_rule(unit: str, function: Function, dim: int) -> Rule:
    """The rule of an elementwise function of the response, with channels along ``dim``."""
    reach = FITTED.get(unit, FAR)

    def gate(z: Tensor) -> Tensor:
        ones = z.new_ones([size if axis == dim else 1 for axis, size in enumerate(z.shape)])
        far = ones * min(reach, torch.finfo(z.dtype).max / 2)
        weight = _weight_of(function, ones)
        low, high = weight(-far), weight(far)
        if max(float(low.abs().max()), float(high.abs().max())) < 1e-3:  # bounded on both sides
            weight = function
            low, high = weight(-far), weight(far)
        return _on_scale(weight(z), low, high)

    return Rule(gate, soft=True)


def parameters_of(unit: str, module: nn.Module | None) -> dict[str, Tensor]:
    """The trained numbers of a unit, by the names that its facts give them.

    Those of whole layers inside it are not.
    """
    if module is None:
        return {}
    found = {name: value.detach() for name, value in module.named_parameters(recurse=False)}
    if unit == "iieu_b":
        found |= {
            f"shift.{name}": value.detach()
            for name, value in module.get_submodule("shift").named_parameters()
        }
    return found


def _weight_of(function: Function, ones: Tensor) -> Function:
    """The secant through 0 if the function goes there, else the derivative."""
    if bool(function(torch.zeros_like(ones)).any()):
        return lambda z: _slope(function, z)

    kind = torch.finfo(ones.dtype)
    near = (
        kind.tiny * 2.0**20 if kind.eps < 1e-6 else 1e-3
    )  # there the secant is at its limit, the slope at 0

    def secant(z: Tensor) -> Tensor:
        away = torch.where(z.abs() < near, near, z)
        return function(away) / away

    return secant


def _slope(function: Function, z: Tensor) -> Tensor:
    with torch.inference_mode(False), torch.enable_grad():
        leaf = z.detach().clone().requires_grad_()
        return torch.autograd.grad(function(leaf).sum(), leaf)[0]


def _on_scale(weight: Tensor, low: Tensor, high: Tensor) -> Tensor:
    most = torch.where(high.abs() >= low.abs(), high, low)
    least = torch.where(high.abs() >= low.abs(), low, high)
    span = most - least
    linear = span.abs() < LINEAR
    return torch.where(linear, 1.0, (weight - least) / torch.where(linear, 1.0, span)).clamp(0, 1)


def _secant(z: Tensor, y: Tensor) -> Tensor:
    return torch.where(z == 0, 0.0, y / torch.where(z == 0, 1.0, z))


def _between_slopes(module: Any, z: Tensor, y: Tensor) -> Tensor:
    ends = (_along(each.detach(), z, module.dim) for each in (module.p2, module.p1))
    return _on_scale(_secant(z, y), *ends)


def _along(values: Tensor, z: Tensor, dim: int) -> Tensor:
    return values.reshape([-1 if axis == dim % z.dim() else 1 for axis in range(z.dim())])
