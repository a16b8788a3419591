"""Bilinear: the product of two responses."""

import math

import torch
from torch import Tensor

from gatewise.units.contract import (
    GATED_FACTS,
    Limits,
    TwoBranchUnit,
    error_bounds,
    gate_and_value,
    promise,
    two_branch_gain,
    unit,
)


def bilinear(
    gate: Tensor,
    up: Tensor | None = None,
    dim: int = -1,
    layout: str = "gate_last",
) -> Tensor:
    r"""Return the product of ``gate`` and ``up``.

    .. math:: \mathrm{bilinear}(g, u) = g\,u

    Both responses enter alike: either is the gate of the other.

    Args:
        gate: the gate response; if ``up`` is ``None``, one tensor with both responses.
        up: the value, of the same shape as the gate.
        dim: the dimension along which one tensor holds both responses.
        layout: how it holds them: ``"gate_last"`` as :class:`torch.nn.GLU`, ``"gate_first"``, or
            ``"interleaved"``, gate and value in turns.

    Shape: ``(*, C), (*, C) -> (*, C)``, or ``(*, 2C) -> (*, C)``.

    Shazeer, 2020, "GLU Variants Improve Transformer", arXiv:2002.05202.
    """
    gate, up = gate_and_value("bilinear", gate, up, dim, layout)
    return gate * up


def _reference(x: Tensor, up: Tensor, **_: object) -> Tensor:
    return x * up


@unit(
    **GATED_FACTS,
    name="bilinear",
    title="Bilinear unit",
    on="x > 0",
    function=bilinear,
    formula=r"g\,u",
    paper="Shazeer, 2020 (arXiv:2002.05202)",
    reference=_reference,
    limits=Limits(minus=(-math.inf,), plus=(math.inf,)),
    init_gain=lambda: two_branch_gain(torch.clone),
    error=error_bounds(half=promise(1), float32=promise(1)),
    samples=({}, {"dim": 1}, {"layout": "gate_first"}, {"layout": "interleaved"}),
)
class Bilinear(TwoBranchUnit):
    """Module form of :func:`bilinear`, which divides its input as :class:`torch.nn.GLU` does.

    Args:
        dim: the dimension along which the input holds both responses.
        layout: ``"gate_last"``, ``"gate_first"`` or ``"interleaved"``.
    """

    expression = staticmethod(torch.mul)
