"""GEGLU: the GELU of one response times another."""

import math
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from gatewise.checks import check_choice
from gatewise.units.contract import (
    GATED_FACTS,
    RECTIFIED,
    TwoBranchUnit,
    error_bounds,
    gate_and_value,
    in_compute_dtype,
    promise,
    two_branch_gain,
    unit,
)

FORMS = ("none", "tanh")


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
    check_choice("geglu", "approximate", approximate, FORMS)
    return in_compute_dtype(_geglu, gate, up, approximate)


def _geglu(gate: Tensor, up: Tensor, approximate: str) -> Tensor:
    return functional.gelu(gate, approximate=approximate) * up


def _reference(x: Tensor, up: Tensor, approximate: str = "none", **_: object) -> Tensor:
    if approximate == "none":
        return x * torch.special.ndtr(x) * up
    near = x.clamp(-30, 30)
    return x * torch.special.expit(math.sqrt(8 / math.pi) * (near + 0.044715 * near**3)) * up


def _gain(approximate: str = "none") -> float:
    return two_branch_gain(partial(functional.gelu, approximate=approximate))


@unit(
    **GATED_FACTS,
    name="geglu",
    title="GELU-gated linear unit",
    on="x > 0",
    function=geglu,
    formula=r"g\,\Phi(g)\,u",
    paper="Shazeer, 2020 (arXiv:2002.05202)",
    reference=_reference,
    limits=RECTIFIED,
    init_gain=_gain,
    largest=1e19,
    error=error_bounds(
        half=promise(1, 2**-19),
        float32=promise(4, 2**-19),
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

    expression = staticmethod(_geglu)
