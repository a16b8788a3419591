"""Reference vectors: every 16-bit input of a unit with the right value and derivative."""

import math

import torch
from torch import Tensor

from gatewise.errors import ArgumentError
from gatewise.testing.case import Case
from gatewise.testing.rounding import Sweep, sweep_backward, sweep_forward
from gatewise.testing.ulps import every_16_bit_value
from gatewise.units import get_unit

HALVES = ("bfloat16", "float16")


def reference_vectors(unit: str, dtype: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return all 65,536 inputs in the order of their bits, with rounded values and derivatives.

    Values and derivatives are those of the unit's reference in float64, rounded once to ``dtype``,
    with the declared limits at infinities and the declared derivatives at kinks. The derivative at
    inputs that are not finite is NaN.

    Args:
        unit: the name of a unit with one output for each input.
        dtype: ``"bfloat16"`` or ``"float16"``.

    Returns:
        The tensors ``x``, ``value`` and ``derivative``, and what they are, as strings.
    """
    if not isinstance(dtype, str) or dtype not in HALVES:
        raise ArgumentError("vectors: unknown dtype", got=dtype, allowed=", ".join(HALVES))
    spec = get_unit(unit)
    case = Case(spec, spec.samples[0])
    if case.ratio != 1:
        raise ArgumentError(
            "vectors: the unit has no single output for each input",
            got=unit,
            allowed="a unit that keeps the number of channels",
        )
    x = every_16_bit_value(getattr(torch, dtype))
    forward = sweep_forward(case, x)
    backward = sweep_backward(case, x[x.isfinite()])
    every = torch.arange(1 << 16).to(torch.uint16).view(torch.int16).view(x.dtype)
    tensors = {
        "x": every,
        "value": _by_bits(forward),
        "derivative": _by_bits(backward),
    }
    options = ", ".join(f"{name}={value}" for name, value in spec.samples[0].items())
    about = {"unit": spec.name, "dtype": dtype, "options": options, "formula": spec.formula}
    return tensors, about


def _by_bits(sweep: Sweep) -> Tensor:
    """Return the right answers in the order of the inputs' bits; NaN for inputs that it lacks."""
    places = sweep.x.flatten().view(torch.int16).long() & 0xFFFF
    right = torch.full((1 << 16,), math.nan, dtype=sweep.x.dtype)
    right[places] = sweep.rounded.flatten()
    return right
