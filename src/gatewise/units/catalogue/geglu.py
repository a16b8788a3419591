"""GEGLU: the GELU of one response times another."""

import math
from fractions import Fraction

import torch
from torch import Tensor

from gatewise.units.catalogue.gelu import normal_gate
from gatewise.units.contract import (
    Limits,
    TwoBranchUnit,
    apply_gate,
    at_least,
    at_most,
    check_choice,
    elementwise,
    error_bounds,
    gate_and_value,
    promise,
    self_gated,
    sigmoid,
    two_branch_gain,
    unit,
    value_of_one,
)

FORMS = ("none", "tanh")
CUBIC = 0.044715


def geglu(
    gate: Tensor,
    up: Tensor | None = None,
    dim: int = -1,
    layout: str = "gate_last",
    approximate: str = "none",
) -> Tensor:
    r"""Return ``up`` times the GELU of ``gate``.

    .. math:: \mathrm{GEGLU}(g, u) = g\,\Phi(g)\,u

    where :math:`\Phi` is the normal distribution function, or its approximation by a hyperbolic
    tangent, which differs from it by up to 4.7e-4.

    Args:
        gate: the gate response; if ``up`` is ``None``, one tensor with both responses.
        up: the value, of the same shape as the gate.
        dim: the dimension along which one tensor holds both responses.
        layout: how it holds them: ``"gate_last"`` as :class:`torch.nn.GLU`, ``"gate_first"``, or
            ``"interleaved"``, gate and value in turns.
        approximate: ``"none"`` or ``"tanh"``, as in :func:`torch.nn.functional.gelu`.

    Shape: ``(*, C), (*, C) -> (*, C)``, or ``(*, 2C) -> (*, C)``.

    Shazeer, 2020, "GLU Variants Improve Transformer", arXiv:2002.05202.
    """
    gate, up = gate_and_value("geglu", gate, up, dim, layout)
    tanh = check_choice("geglu", "approximate", approximate, FORMS) == "tanh"
    return elementwise(_plain_tanh if tanh else _plain, gate, up)


def _plain(gate: Tensor, up: Tensor) -> Tensor:
    return apply_gate(up, _gelu(gate))


def _plain_tanh(gate: Tensor, up: Tensor) -> Tensor:
    return apply_gate(up, _tanh_gelu(gate))


def _gelu(x: Tensor) -> Tensor:
    return self_gated(x, normal_gate)


def _tanh_gelu(x: Tensor) -> Tensor:
    """Return the tanh form of GELU, written with the logistic function, which does not cancel."""
    return self_gated(x, _tanh_gate)


def _tanh_gate(x: Tensor) -> Tensor:
    # Beyond 20 the gate is 0 or 1, and the cube would overflow.
    near = at_least(at_most(x, 20.0), -20.0)
    return sigmoid(math.sqrt(8 / math.pi) * (near + CUBIC * near * near * near))


def _reference(x: Tensor, up: Tensor, approximate: str = "none", **_: object) -> Tensor:
    if approximate == "none":
        return x * torch.special.ndtr(x) * up
    near = x.clamp(-30, 30)
    return x * torch.special.expit(math.sqrt(8 / math.pi) * (near + 0.044715 * near**3)) * up


def _gain(approximate: str = "none") -> float:
    return two_branch_gain(_tanh_gelu if approximate == "tanh" else _gelu)


@unit(
    name="geglu",
    title="GELU-gated linear unit",
    family="context",
    on="x > 0",
    function=geglu,
    formula=r"g\,\Phi(g)\,u",
    paper="Shazeer, 2020 (arXiv:2002.05202)",
    reference=_reference,
    limits=Limits(minus=(0.0,), plus=(math.inf,)),
    channel_ratio=Fraction(1, 2),
    init_gain=_gain,
    needs=("groups",),
    probe=value_of_one,
    error=error_bounds(
        half=promise(1, 2**-24),
        float32=promise(4, 2**-23, back_absolute=2**-22),
    ),
    samples=({}, {"dim": 1, "layout": "gate_first", "approximate": "tanh"}),
    note="Gemma and T5 use the tanh form, ModernBERT the exact one.",
)
class GEGLU(TwoBranchUnit):
    """Module form of :func:`geglu`, which divides its input as :class:`torch.nn.GLU` does.

    Args:
        dim: the dimension along which the input holds both responses.
        layout: ``"gate_last"``, ``"gate_first"`` or ``"interleaved"``.
        approximate: ``"none"`` or ``"tanh"``.
    """

    def __init__(
        self,
        *,
        dim: int = -1,
        layout: str = "gate_last",
        approximate: str = "none",
    ) -> None:
        super().__init__(dim=dim, layout=layout, approximate=approximate)
        check_choice("geglu", "approximate", approximate, FORMS)

    def forward(self, x: Tensor) -> Tensor:
        return geglu(x, **self.arguments(x))
