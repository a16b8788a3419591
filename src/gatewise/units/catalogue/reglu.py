"""ReGLU: the positive part of one response times another."""

import torch
from torch import Tensor

from gatewise.units.contract import (
    GATED_FACTS,
    RECTIFIED,
    TwoBranchUnit,
    error_bounds,
    gate_and_value,
    promise,
    two_branch_gain,
    unit,
)


def reglu(
    gate: Tensor,
    up: Tensor | None = None,
    dim: int = -1,
    layout: str = "gate_last",
) -> Tensor:
    r"""Return ``up`` times the positive part of ``gate``.

    .. math:: \mathrm{ReGLU}(g, u) = \max(g, 0)\,u

    The derivative to the gate is 0 where the gate is 0. ``reglu(x, x)`` is ``relu2(x)``.

    Args:
        gate: the gate response; if ``up`` is ``None``, one tensor with both responses.
        up: the value, of the same shape as the gate.
        dim: the dimension along which one tensor holds both responses.
        layout: how it holds them: ``"gate_last"`` as :class:`torch.nn.GLU`, ``"gate_first"``, or
            ``"interleaved"``, gate and value in turns.

    Shape: ``(*, C), (*, C) -> (*, C)``, or ``(*, 2C) -> (*, C)``.

    Shazeer, 2020, "GLU Variants Improve Transformer", arXiv:2002.05202.
    """
    gate, up = gate_and_value("reglu", gate, up, dim, layout)
    return _reglu(gate, up)


def _reglu(gate: Tensor, up: Tensor) -> Tensor:
    return torch.relu(gate) * up


def _reference(x: Tensor, up: Tensor, **_: object) -> Tensor:
    return torch.where(x > 0, x, 0 * torch.where(x.isinf(), 0, x)) * up


@unit(
    **GATED_FACTS,
    name="reglu",
    title="Rectified gated linear unit",
    on="x > 0",
    function=reglu,
    formula=r"\max(g, 0)\,u",
    paper="Shazeer, 2020 (arXiv:2002.05202)",
    reference=_reference,
    limits=RECTIFIED,
    kinks={0.0: 0.0},
    init_gain=lambda: two_branch_gain(torch.relu),
    error=error_bounds(half=promise(1), float32=promise(1)),
    samples=({}, {"dim": 1}, {"layout": "gate_first"}, {"layout": "interleaved"}),
)
class ReGLU(TwoBranchUnit):
    """Module form of :func:`reglu`, which divides its input as :class:`torch.nn.GLU` does.

    Args:
        dim: the dimension along which the input holds both responses.
        layout: ``"gate_last"``, ``"gate_first"`` or ``"interleaved"``.
    """

    expression = staticmethod(_reglu)
