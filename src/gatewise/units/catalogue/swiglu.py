"""SwiGLU: the SiLU of one response times another, with an optional clamp."""

import math

import torch
from torch import Tensor
from torch.nn import functional

from gatewise.checks import check_number
from gatewise.units.contract import (
    GATED_FACTS,
    Limits,
    TwoBranchUnit,
    at_least,
    at_most,
    error_bounds,
    gate_and_value,
    in_compute_dtype,
    promise,
    two_branch_gain,
    unit,
)


def swiglu(
    gate: Tensor,
    up: Tensor | None = None,
    dim: int = -1,
    layout: str = "gate_last",
    limit: float | None = None,
    alpha: float = 1.0,
    offset: float = 0.0,
) -> Tensor:
    r"""Return ``up`` times the SiLU of ``gate``, both clamped if there is a limit.

    .. math:: \mathrm{SwiGLU}(g, u) = \bar g\,\sigma(\alpha \bar g)\,(\bar u + b), \qquad
        \bar g = \min(g, L),\ \bar u = \min(\max(u, -L), L)

    where :math:`L` is ``limit``, infinite by default, and :math:`b` is ``offset``. At the limit the
    derivative is 1, beyond it 0. Llama: the defaults. gpt-oss: ``limit=7, alpha=1.702, offset=1``.

    Args:
        gate: the gate response; if ``up`` is ``None``, one tensor with both responses.
        up: the value, of the same shape as the gate.
        dim: the dimension along which one tensor holds both responses.
        layout: how it holds them: ``"gate_last"`` as :class:`torch.nn.GLU`, ``"gate_first"``, or
            ``"interleaved"``, gate and value in turns.
        limit: the upper bound of the gate response and the bound of the value's magnitude, before
            the function is taken; ``None`` for none.
        alpha: the slope of the logistic function.
        offset: a number that is added to the value.

    Shape: ``(*, C), (*, C) -> (*, C)``, or ``(*, 2C) -> (*, C)``.

    Shazeer, 2020, "GLU Variants Improve Transformer", arXiv:2002.05202.
    """
    gate, up = gate_and_value("swiglu", gate, up, dim, layout)
    if limit is not None:
        check_number("swiglu", "limit", limit, above=0.0)
    check_number("swiglu", "alpha", alpha, above=0.0)
    check_number("swiglu", "offset", offset)
    return in_compute_dtype(plain_swiglu, gate, up, limit, alpha, offset)


def plain_swiglu(
    gate: Tensor,
    up: Tensor,
    limit: float | None,
    alpha: float,
    offset: float,
) -> Tensor:
    """Return SwiGLU of two responses, without checks."""
    if limit is not None:
        gate, up = at_most(gate, limit), at_least(at_most(up, limit), -limit)
    elif alpha == 1.0 and offset == 0.0:
        return functional.silu(gate) * up
    return gate * torch.sigmoid(alpha * gate) * (up + offset)


def swiglu_reference(
    x: Tensor,
    up: Tensor,
    limit: float | None = None,
    alpha: float = 1.0,
    offset: float = 0.0,
    **_: object,
) -> Tensor:
    """Return the slow form of SwiGLU."""
    if limit is not None:
        x = x.clamp(max=limit)
        up = up.clamp(-limit, limit)
    return x * torch.special.expit(alpha * x) * (up + offset)


def swiglu_limits(limit: float | None = None, alpha: float = 1.0, offset: float = 0.0) -> Limits:
    """Return the limits for a value of 1."""
    if limit is None:
        return Limits(minus=(0.0,), plus=(math.inf,))
    plateau = limit / (1 + math.exp(-alpha * limit))
    return Limits(minus=(0.0,), plus=(plateau * (min(1.0, limit) + offset),))


def swiglu_gain(limit: float | None = None, alpha: float = 1.0, offset: float = 0.0) -> float:
    """Return the gain for a standard normal gate and value."""
    bound = math.inf if limit is None else limit
    return two_branch_gain(
        lambda gate: gate.clamp(max=bound) * torch.sigmoid(alpha * gate.clamp(max=bound)),
        lambda up: up.clamp(-bound, bound) + offset,
    )


@unit(
    **GATED_FACTS,
    name="swiglu",
    title="SiLU-gated linear unit",
    on="x > 0",
    function=swiglu,
    formula=r"\bar g\,\sigma(\alpha \bar g)\,(\bar u + b)",
    paper="Shazeer, 2020 (arXiv:2002.05202)",
    reference=swiglu_reference,
    limits=swiglu_limits,
    kinks=lambda limit=None: {} if limit is None else {limit: math.nan},
    init_gain=swiglu_gain,
    largest=1e38,
    error=error_bounds(
        float32=promise(4, 2**-22, back_absolute=2**-18),
    ),
    samples=(
        {},
        {"dim": 1, "layout": "gate_first"},
        {"layout": "interleaved", "limit": 7.0, "alpha": 1.702, "offset": 1.0},
    ),
    note="Libraries differ in which half is the gate, and clamp before or after the SiLU.",
)
class SwiGLU(TwoBranchUnit):
    """Module form of :func:`swiglu`, which divides its input as :class:`torch.nn.GLU` does.

    Args:
        dim: the dimension along which the input holds both responses.
        layout: ``"gate_last"``, ``"gate_first"`` or ``"interleaved"``.
        limit: the bound of gate response and value; ``None`` for none.
        alpha: the slope of the logistic function.
        offset: a number that is added to the value.
    """

    limit: float | None
    alpha: float
    offset: float

    def forward(self, x: Tensor) -> Tensor:
        return plain_swiglu(*self.branches(x), self.limit, self.alpha, self.offset)
