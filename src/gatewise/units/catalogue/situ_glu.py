"""SiTU-GLU: a gated linear unit whose responses are bounded smoothly."""

import math

import torch
from torch import Tensor

from gatewise.checks import check_number
from gatewise.units.contract import (
    GATED_FACTS,
    Limits,
    TwoBranchUnit,
    error_bounds,
    gate_and_value,
    in_compute_dtype,
    promise,
    two_branch_gain,
    unit,
)


def situ_glu(
    gate: Tensor,
    up: Tensor | None = None,
    dim: int = -1,
    layout: str = "gate_last",
    gate_bound: float = 4.0,
    value_bound: float = 25.0,
) -> Tensor:
    r"""Return a bounded SiLU of ``gate`` times a bounded ``up``.

    .. math:: \mathrm{SiTU}(g, u) = b_1 \tanh\left(\frac{g}{b_1}\right) \sigma(g)\;
        b_2 \tanh\left(\frac{u}{b_2}\right)

    It is :func:`swiglu` for small responses. :func:`clamped_swiglu` bounds the same responses with
    hard limits.

    Args:
        gate: the gate response; if ``up`` is ``None``, one tensor with both responses.
        up: the value, of the same shape as the gate.
        dim: the dimension along which one tensor holds both responses.
        layout: how it holds them: ``"gate_last"`` as :class:`torch.nn.GLU`, ``"gate_first"``, or
            ``"interleaved"``, gate and value in turns.
        gate_bound: the bound :math:`b_1` of the gate response, positive.
        value_bound: the bound :math:`b_2` of the value, positive.

    Shape: ``(*, C), (*, C) -> (*, C)``, or ``(*, 2C) -> (*, C)``.

    Moonshot AI, 2026, the feed-forward layers of Kimi K3.
    """
    gate, up = gate_and_value("situ_glu", gate, up, dim, layout)
    check_number("situ_glu", "gate_bound", gate_bound, above=0.0)
    check_number("situ_glu", "value_bound", value_bound, above=0.0)
    return in_compute_dtype(_situ_glu, gate, up, gate_bound, value_bound)


def _situ_glu(gate: Tensor, up: Tensor, gate_bound: float, value_bound: float) -> Tensor:
    bounded = gate_bound * torch.tanh(gate / gate_bound)
    return bounded * torch.sigmoid(gate) * (value_bound * torch.tanh(up / value_bound))


def _reference(
    x: Tensor, up: Tensor, gate_bound: float = 4.0, value_bound: float = 25.0, **_: object
) -> Tensor:
    bounded = gate_bound * (1 - 2 * torch.special.expit(-2 * x / gate_bound))
    return bounded * torch.special.expit(x) * value_bound * torch.tanh(up / value_bound)


def _limits(gate_bound: float = 4.0, value_bound: float = 25.0) -> Limits:
    """Return the limits for a value of 1."""
    return Limits(minus=(0.0,), plus=(gate_bound * value_bound * math.tanh(1 / value_bound),))


def _gain(gate_bound: float = 4.0, value_bound: float = 25.0) -> float:
    return two_branch_gain(
        lambda gate: gate_bound * torch.tanh(gate / gate_bound) * torch.sigmoid(gate),
        lambda up: value_bound * torch.tanh(up / value_bound),
    )


@unit(
    **GATED_FACTS,
    name="situ_glu",
    title="Sigmoid-tanh gated linear unit",
    on="x > 0",
    function=situ_glu,
    formula=r"b_1 \tanh(g / b_1)\,\sigma(g)\;b_2 \tanh(u / b_2)",
    paper="Moonshot AI, 2026 (Kimi K3)",
    reference=_reference,
    limits=_limits,
    init_gain=_gain,
    error=error_bounds(
        half=promise(1, 2**-24, back_absolute=2**-22),
        float32=promise(4, 2**-22, back_absolute=2**-20),
    ),
    samples=({}, {"dim": 1, "layout": "gate_first", "gate_bound": 2.0, "value_bound": 8.0}),
)
class SiTUGLU(TwoBranchUnit):
    """Module form of :func:`situ_glu`, which divides its input as :class:`torch.nn.GLU` does.

    Args:
        dim: the dimension along which the input holds both responses.
        layout: ``"gate_last"``, ``"gate_first"`` or ``"interleaved"``.
        gate_bound: the bound of the gate response, positive.
        value_bound: the bound of the value, positive.
    """

    expression = staticmethod(_situ_glu)
