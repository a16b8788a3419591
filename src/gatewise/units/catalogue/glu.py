"""GLU: a sigmoid gate of one response times another."""

import torch
from torch import Tensor
from torch.nn import functional

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


def glu(gate: Tensor, up: Tensor | None = None, dim: int = -1, layout: str = "gate_last") -> Tensor:
    r"""Return ``up`` times the logistic function of ``gate``.

    .. math:: \mathrm{GLU}(g, u) = \sigma(g)\,u

    The gate is never exactly 1: at 0 it is 1/2.

    Args:
        gate: the gate response; if ``up`` is ``None``, one tensor with both responses.
        up: the value, of the same shape as the gate.
        dim: the dimension along which one tensor holds both responses.
        layout: how it holds them: ``"gate_last"`` as :class:`torch.nn.GLU`, ``"gate_first"``, or
            ``"interleaved"``, gate and value in turns.

    Shape: ``(*, C), (*, C) -> (*, C)``, or ``(*, 2C) -> (*, C)``.

    Dauphin et al., 2017, "Language Modeling with Gated Convolutional Networks", arXiv:1612.08083.
    """
    gate, up = gate_and_value("glu", gate, up, dim, layout)
    return in_compute_dtype(_glu, gate, up)


def _glu(gate: Tensor, up: Tensor) -> Tensor:
    return torch.sigmoid(gate) * up


def _reference(x: Tensor, up: Tensor, **_: object) -> Tensor:
    return torch.special.expit(x) * up


@unit(
    **GATED_FACTS,
    name="glu",
    title="Gated linear unit",
    on="gate > 1/2",
    function=glu,
    formula=r"\sigma(g)\,u",
    paper="Dauphin et al., 2017 (arXiv:1612.08083)",
    reference=_reference,
    limits=Limits(minus=(0.0,), plus=(1.0,)),
    init_gain=lambda: two_branch_gain(torch.sigmoid),
    error=error_bounds(float32=promise(4, 2**-24, back_absolute=2**-22)),
    samples=({}, {"dim": 1}, {"layout": "gate_first"}, {"layout": "interleaved"}),
)
class GLU(TwoBranchUnit):
    """Module form of :func:`glu`, which divides its input as :class:`torch.nn.GLU` does.

    Args:
        dim: the dimension along which the input holds both responses.
        layout: ``"gate_last"``, ``"gate_first"`` or ``"interleaved"``.
    """

    def forward(self, x: Tensor) -> Tensor:
        rank = x.dim()
        if self.layout == "gate_last" and -rank <= self.dim < rank and not x.shape[self.dim] % 2:
            return functional.glu(x, self.dim)
        return _glu(*self.branches(x))
