"""The initialisation gain of a unit: the scale of weights at which signals keep their size."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gatewise.units.contract.unit_module import UnitModule


@torch.no_grad()
def quadrature_gain(
    function: Callable[..., Tensor],
    module: UnitModule,
    probe: Callable[[Tensor], dict[str, Any]] | None,
) -> float:
    """Return ``1 / sqrt(E f(z)^2)`` for standard normal ``z``, by the trapezoid rule.

    The mean square is taken over all outputs. The error of the rule is below 1e-7 even for curves
    with corners: the step is 1e-3, and the tails end where the density is 1e-32.
    """
    z = torch.linspace(-12.0, 12.0, 24001, dtype=torch.float64)
    density = torch.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    channels = module.options.get("channels") or 1
    x = z.expand(1, channels, -1)
    arguments = probe(x) if probe else module.double().arguments(x)
    # The channels of ``x`` are in dimension 1, whatever the module's option says.
    if "dim" in arguments:
        arguments["dim"] = 1
    square = function(x, **arguments).square().mean((0, 1))
    return float(torch.trapezoid(square * density, z)) ** -0.5
