"""Clamped SwiGLU: a gated linear unit whose responses have hard limits."""

import math

from torch import Tensor

from gatewise.checks import check_number
from gatewise.units.catalogue.swiglu import (
    plain_swiglu,
    swiglu,
    swiglu_gain,
    swiglu_limits,
    swiglu_reference,
)
from gatewise.units.contract import GATED_FACTS, TwoBranchUnit, error_bounds, promise, unit


def clamped_swiglu(
    gate: Tensor,
    up: Tensor | None = None,
    dim: int = -1,
    layout: str = "gate_last",
    limit: float = 7.0,
    alpha: float = 1.0,
    offset: float = 0.0,
) -> Tensor:
    r"""Return :func:`swiglu` of clamped responses.

    .. math:: \bar g\,\sigma(\alpha \bar g)\,(\bar u + b), \qquad
        \bar g = \min(g, L),\ \bar u = \min(\max(u, -L), L)

    The gate is clamped from above, the value on both sides, before the SiLU is taken. gpt-oss:
    ``limit=7, alpha=1.702, offset=1``. :func:`situ_glu` is a smooth form.

    Args:
        gate: the gate response; if ``up`` is ``None``, one tensor with both responses.
        up: the value, of the same shape as the gate.
        dim: the dimension along which one tensor holds both responses.
        layout: how it holds them: ``"gate_last"`` as :class:`torch.nn.GLU`, ``"gate_first"``, or
            ``"interleaved"``, gate and value in turns.
        limit: the bound :math:`L`, positive.
        alpha: the slope of the logistic function.
        offset: a number :math:`b` that is added to the value.

    Shape: ``(*, C), (*, C) -> (*, C)``, or ``(*, 2C) -> (*, C)``.

    OpenAI, 2025, "gpt-oss-120b & gpt-oss-20b Model Card", arXiv:2508.10925.
    """
    check_number("clamped_swiglu", "limit", limit, above=0.0)
    return swiglu(gate, up, dim, layout, limit, alpha, offset)


@unit(
    **GATED_FACTS,
    name="clamped_swiglu",
    title="Clamped SiLU-gated linear unit",
    on="x > 0",
    function=clamped_swiglu,
    formula=r"\bar g\,\sigma(\alpha \bar g)\,(\bar u + b)",
    paper="OpenAI, 2025 (arXiv:2508.10925)",
    reference=swiglu_reference,
    limits=lambda limit=7.0, alpha=1.0, offset=0.0: swiglu_limits(limit, alpha, offset),
    kinks=lambda limit=7.0: {limit: math.nan},
    init_gain=lambda limit=7.0, alpha=1.0, offset=0.0: swiglu_gain(limit, alpha, offset),
    largest=1e38,
    error=error_bounds(
        float32=promise(4, 2**-22, back_absolute=2**-18),
    ),
    samples=({}, {"layout": "interleaved", "limit": 7.0, "alpha": 1.702, "offset": 1.0}),
    note="Some code clamps after the SiLU, or forgets the clamp when it serves the model.",
)
class ClampedSwiGLU(TwoBranchUnit):
    """Module form of :func:`clamped_swiglu`, which divides its input as :class:`torch.nn.GLU` does.

    Args:
        dim: the dimension along which the input holds both responses.
        layout: ``"gate_last"``, ``"gate_first"`` or ``"interleaved"``.
        limit: the bound of gate response and value.
        alpha: the slope of the logistic function.
        offset: a number that is added to the value.
    """

    expression = staticmethod(plain_swiglu)
