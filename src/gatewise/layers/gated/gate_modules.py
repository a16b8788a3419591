"""Gates that are constant, given by the caller, or set by the response of another layer."""

import torch
from torch import Tensor

from gatewise.checks import check_number
from gatewise.errors import ArgumentError
from gatewise.units import LeafModule, check_input, in_compute_dtype


def soft_gate(q: Tensor, beta: float = 4.0, eps: float = 0.1) -> Tensor:
    r"""Return the soft gate of deep gated networks.

    .. math:: \chi_\epsilon(q) = (1 + \epsilon)\,\sigma(\beta q), \qquad
        \chi_\epsilon'(q)
        = \beta\,\chi_\epsilon(q)\,\bigl(1 - \chi_\epsilon(q) / (1 + \epsilon)\bigr)

    The paper says that gates lie in [0, 1]; this gate reaches ``1 + eps``, and is ``(1 + eps) / 2``
    at 0. The paper writes the gate as a falling function of :math:`-\beta q`; here it is a function
    of ``q``.

    Args:
        q: the response that sets the gate.
        beta: the steepness of the gate.
        eps: the excess of the gate above 1.

    Shape: ``(*) -> (*)``.

    Lakshminarayanan and Singh, 2020, "Deep Gated Networks", arXiv:2002.03996.
    """
    check_input("soft_gate", q)
    beta = check_number("soft_gate", "beta", beta)
    eps = check_number("soft_gate", "eps", eps)
    return in_compute_dtype(_soft_gate, q, beta, 1 + eps)


def _soft_gate(w: Tensor, beta: float, top: float) -> Tensor:
    return top * torch.sigmoid(beta * w)


def hard_gate(q: Tensor) -> Tensor:
    r"""Return 1 where the response is positive, 0 elsewhere.

    .. math:: G(q) = \mathbb{1}[q > 0]

    The gate is closed at 0 and NaN at NaN. Its derivative is 0 everywhere, so nothing is learned
    through it.

    Args:
        q: the response that sets the gate.

    Shape: ``(*) -> (*)``.

    Lakshminarayanan and Singh, 2020, "Deep Gated Networks", arXiv:2002.03996.
    """
    q = check_input("hard_gate", q).detach()
    return torch.where(q.isnan(), q, (q > 0).to(q.dtype))


def straight_through_gate(q: Tensor, beta: float = 4.0, eps: float = 0.1) -> Tensor:
    r"""Return :func:`hard_gate` with the gradient of :func:`soft_gate`.

    .. math:: G(q) = \mathbb{1}[q > 0], \qquad G'(q) := \chi_\epsilon'(q)

    The value is exactly 0 or 1, and the gate can learn. The paper trains gates with ``beta`` at
    infinity, which passes no gradient; this is a hard gate that does.

    Args:
        q: the response that sets the gate.
        beta: the steepness of the soft gate.
        eps: the excess of the soft gate above 1.

    Shape: ``(*) -> (*)``.

    Bengio, Léonard and Courville, 2013, "Estimating or Propagating Gradients Through Stochastic
    Neurons for Conditional Computation", arXiv:1308.3432.
    """
    soft = soft_gate(q, beta, eps)
    # The difference is exactly 0, so the sum is exactly 0 or 1 and has the soft gate's gradient.
    return hard_gate(q) + (soft - soft.detach())


class ConstantGate(LeafModule):
    """The same gate for every unit and input.

    With the default 1 a gated network is a deep linear network.

    Args:
        value: the gate.

    Lakshminarayanan and Singh, 2020, "Deep Gated Networks", arXiv:2002.03996.
    """

    def __init__(self, value: float = 1.0) -> None:
        super().__init__()
        self.value = check_number("ConstantGate", "value", value)

    def forward(self, source: Tensor | None = None) -> float:
        if source is not None:
            raise ArgumentError(
                "ConstantGate: a constant gate takes no source",
                got=type(source).__name__,
                fix="layer(x)",
            )
        return self.value

    def extra_repr(self) -> str:
        return f"{self.value}"


class GivenGate(LeafModule):
    """A gate whose values the caller passes, copied from a trained network for example."""

    def forward(self, source: Tensor) -> Tensor:
        return check_input("GivenGate", source)


class SoftGate(LeafModule):
    """Module form of :func:`soft_gate`.

    Args:
        beta: the steepness of the gate, positive.
        eps: the excess of the gate above 1, more than -1.
    """

    learns = True

    def __init__(self, *, beta: float = 4.0, eps: float = 0.1) -> None:
        super().__init__()
        self.beta = check_number("SoftGate", "beta", beta, above=0.0)
        self.eps = check_number("SoftGate", "eps", eps, above=-1.0)

    def forward(self, q: Tensor) -> Tensor:
        return soft_gate(q, self.beta, self.eps)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, eps={self.eps}"


class HardGate(LeafModule):
    """Module form of :func:`hard_gate`."""

    learns = False

    def forward(self, q: Tensor) -> Tensor:
        return hard_gate(q)


class StraightThroughGate(SoftGate):
    """Module form of :func:`straight_through_gate`.

    Args:
        beta: the steepness of the soft gate, positive.
        eps: the excess of the soft gate above 1, more than -1.
    """

    def forward(self, q: Tensor) -> Tensor:
        return straight_through_gate(q, self.beta, self.eps)
