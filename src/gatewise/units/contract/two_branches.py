"""Units of two responses: the gate of one times the other, as in gated linear units.

Note [Which half is the gate]. ``torch.nn.GLU`` takes the second half of its input as the gate, and
so do the units here. Most language models store the gate first, some store gate and value in turns.
The option ``layout`` says so.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from gatewise.checks import check_choice
from gatewise.errors import ArgumentError
from gatewise.units.contract.unit_module import UnitModule, check_input, describe_shape, resolve_dim

Function = Callable[[Tensor], Tensor]
LAYOUTS = ("gate_last", "gate_first", "interleaved")


def gate_and_value(
    unit: str,
    gate: Tensor,
    up: Tensor | None,
    dim: int,
    layout: str,
) -> tuple[Tensor, Tensor]:
    """Return gate response and value, given as two tensors or as one tensor to be divided.

    Args:
        unit: the unit's name in error messages.
        gate: the gate response; both, if ``up`` is ``None``.
        up: the value, or ``None``.
        dim: the dimension along which one tensor holds both.
        layout: how it holds them, out of ``LAYOUTS``.
    """
    check_input(unit, gate)
    check_choice(unit, "layout", layout, LAYOUTS)
    if up is None:
        return split_branches(unit, gate, dim, layout)
    check_input(unit, up)
    if up.shape != gate.shape or up.dtype != gate.dtype:
        raise ArgumentError(
            f"{unit}: gate and up must have one shape and one dtype",
            got=f"gate {describe_shape(gate)} {gate.dtype}, up {describe_shape(up)} {up.dtype}",
        )
    return gate, up


def split_branches(unit: str, x: Tensor, dim: int, layout: str) -> tuple[Tensor, Tensor]:
    """Return the gate and the value that ``x`` holds along ``dim``."""
    axis = resolve_dim(unit, x, dim)
    size = x.shape[axis]
    if size % 2:
        raise ArgumentError(
            f"{unit}: dimension {dim} must hold a gate for each value",
            got=f"{size} channels in shape {tuple(x.shape)}",
            allowed="an even number",
        )
    if layout == "interleaved":
        cuts = (slice(0, None, 2), slice(1, None, 2))
        first, second = (x[(slice(None),) * axis + (cut,)] for cut in cuts)
    else:
        # Gradients to both halves of one division are written once.
        first, second = x.chunk(2, axis)
    if layout == "gate_last":
        return (second, first)
    return (first, second)


def value_of_one(x: Tensor) -> dict[str, Tensor]:
    """Return arguments with which a unit of two responses is a function of its gate alone."""
    return {"up": torch.ones_like(x)}


# What all units of two responses declare.
GATED_FACTS: dict[str, Any] = {
    "family": "context",
    "channel_ratio": Fraction(1, 2),
    "needs": ("groups",),
    "probe": value_of_one,
}


@torch.no_grad()
def two_branch_gain(function: Function, response: Function | None = None) -> float:
    """Return ``1 / sqrt(E h^2)`` for independent standard normal gates and values.

    Args:
        function: the function of the gate.
        response: a function of the value, if it does not enter as it is.
    """
    z = torch.linspace(-12.0, 12.0, 24001, dtype=torch.float64)
    density = torch.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    gate = torch.trapezoid(function(z).square() * density, z)
    value = z if response is None else response(z)
    return float(gate * torch.trapezoid(value.square() * density, z)) ** -0.5


class TwoBranchUnit(UnitModule):
    """A unit of two responses, which its input holds side by side.

    Attributes:
        dim: the dimension along which the input holds both.
        layout: ``"gate_last"``, ``"gate_first"`` or ``"interleaved"``, which begins with a gate.
    """

    dim: int
    layout: str

    def branches(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gate and the value that ``x`` holds.

        Args:
            x: the input of the module.
        """
        dim, rank = self.dim, x.dim()
        if self.layout == "gate_last" and -rank <= dim < rank and not x.shape[dim] % 2:
            value, gate = x.chunk(2, dim)
            return gate, value
        return split_branches(type(self).function.__name__, x, dim, self.layout)

    @classmethod
    def leaf_of(cls, expression: Callable[..., Tensor]) -> Callable[..., Any]:
        """Return the ``forward`` of a class from its expression of gate, value and options."""
        others = [name for name in cls.argument_names if name not in ("dim", "layout")]
        if not others:
            return cls.as_leaf(lambda self, x: expression(*self.branches(x)))
        return cls.as_leaf(
            lambda self, x: expression(*self.branches(x), *[getattr(self, n) for n in others])
        )
