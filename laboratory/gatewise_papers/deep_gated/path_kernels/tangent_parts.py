"""The tangent kernel of a gated network in parts: by path strengths, by activities, and by inputs.

Note [Two ways to move an output]. The output of a gated network is the sum over paths of input,
activity and strength. A weight moves it through the strengths, with gates as they are, and through
the activities, if it sets soft gates. The derivative is the sum of both, so its Gram matrix has
two parts and a cross term, which the paper writes out for soft-ReLU. With hard gates the second
part is 0. If other weights set the gates (soft-GaLU), the cross term is 0.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev

from gatewise.analysis import AnalysisResult
from gatewise.errors import ArgumentError
from gatewise.graph import copied
from gatewise.units import check_input

Outputs = Callable[[Tensor], Tensor]  # of one parameter, to (n, o)


@dataclass(frozen=True, eq=False)
class KernelParts(AnalysisResult):
    r"""The parts of a tangent kernel, each (n, m), or (n, m, o, o) for o > 1 outputs, in float64.

    Attributes:
        strengths: :math:`K^w`, the part of the path strengths, with gates as they are.
        activities: :math:`K^a`, the part of the gates, with path strengths as they are.
        cross: :math:`\Psi^w \Psi^{a\top} + \Psi^a \Psi^{w\top}`.
    """

    strengths: Tensor
    activities: Tensor
    cross: Tensor

    @property
    def total(self) -> Tensor:
        """The tangent kernel itself: the sum of the three parts."""
        return self.strengths + self.activities + self.cross

    def __str__(self) -> str:
        names = ("strengths", "activities", "cross")
        total = float(self.total.diagonal().sum())
        shares = [f"{name} {self._trace(name) / total:.3g}" for name in names]
        return f"KernelParts of {len(self.strengths)} inputs; shares of the trace: " + ", ".join(
            shares
        )

    def _trace(self, name: str) -> float:
        return float(getattr(self, name).diagonal().sum())


def kernel_parts(model: nn.Module, x: Tensor, x2: Tensor | None = None) -> KernelParts:
    r"""Split the tangent kernel of a gated network into the parts of path strengths and of gates.

    .. math:: K = K^w + K^a + \Psi^w \Psi^{a\top} + \Psi^a \Psi^{w\top}

    where the columns of :math:`\Psi^w` and :math:`\Psi^a` are the derivatives of the outputs by a
    weight through the path strengths and through the gates. See Note [Two ways to move an output].
    Weights that are not trained are left out. One derivative of all outputs by one parameter is in
    memory at a time, in float64.

    Args:
        model: ``DeepGatedNetwork`` or ``DeepGatedConvNetwork`` with gates that it sets itself or a
            gating network sets: ``"relu"``, ``"galu"``, ``"soft_relu"`` or ``"soft_galu"``.
        x: the first inputs (n, \*).
        x2: the second inputs (m, \*); ``x`` itself if None.

    Lakshminarayanan and Singh, 2020, "Deep Gated Networks", arXiv:2002.03996, section 3.
    """
    model64 = _in_double("kernel_parts", model)
    inputs = [check_input("kernel_parts", x).detach().double()]
    if x2 is not None:
        inputs.append(check_input("kernel_parts", x2).detach().double())
    strengths: Tensor | float = 0.0
    activities: Tensor | float = 0.0
    cross: Tensor | float = 0.0
    for name, value in _trained(model64):
        rows = []
        for batch in inputs:
            by_strengths = _derivative(_with_fixed_gates(model64, name, batch), value)
            by_gates = _derivative(_with_fixed_strengths(model64, name, batch), value)
            rows.append((by_strengths, by_gates))
        (w, a), (w2, a2) = rows[0], rows[-1]
        strengths = strengths + _products(w, w2)
        activities = activities + _products(a, a2)
        one = _products(w, a2)
        other = one.T if x2 is None else _products(a, w2)
        cross = cross + (one + other)  # in this order it is symmetric to the last bit
    if not isinstance(strengths, Tensor):
        raise ArgumentError("kernel_parts: the network has no weight that is trained")
    return KernelParts(strengths, torch.as_tensor(activities), torch.as_tensor(cross))


def wire_kernel(model: nn.Module, x: Tensor, x2: Tensor | None = None) -> Tensor:
    r"""The interaction of paths from one input node: kappa of the paper's Lemma 2.1, (n, m, i).

    .. math:: \kappa(s, s', i) = \sum_{p_1, p_2 \text{ from } i} A(x_s, p_1) A(x_{s'}, p_2)
        \langle \varphi_{p_1}, \varphi_{p_2} \rangle

    with activities ``A`` and the derivatives :math:`\varphi_p` of a path's strength by all trained
    weights. The lemma says that the tangent kernel with gates as they are is
    :math:`\sum_i x_s(i) x_{s'}(i) \kappa(s, s', i)`. This leaves out pairs of paths from two
    different input nodes, which share weights above the first layer; their sum is 0 on average over
    weights with independent random signs. :func:`kernel_parts` has the whole.

    No path is enumerated: with gates as they are the output is linear in the input, and the
    coefficient of an input node is the sum over its paths. Memory and time are those of n times i
    inputs.

    Args:
        model: as in :func:`kernel_parts`, with one output.
        x: the first inputs (n, \*).
        x2: the second inputs (m, \*); ``x`` itself if None.

    Lakshminarayanan and Singh, 2020, "Deep Gated Networks", arXiv:2002.03996, Lemmas 2.1 and 7.1.
    """
    model64 = _in_double("wire_kernel", model)
    batches = [check_input("wire_kernel", x).detach().double()]
    if x2 is not None:
        batches.append(check_input("wire_kernel", x2).detach().double())
    kernel: Tensor | float = 0.0
    for name, value in _trained(model64):
        rows = [_derivative(_coefficients(model64, name, batch), value) for batch in batches]
        if rows[0].shape[1] != 1:
            raise ArgumentError("wire_kernel: one output is needed", got=rows[0].shape[1])
        left, right = (
            one[:, 0].unflatten(0, (len(batch), -1))
            for one, batch in zip((rows[0], rows[-1]), (batches[0], batches[-1]), strict=True)
        )
        kernel = kernel + torch.einsum("sip,tip->sti", left, right)
    if not isinstance(kernel, Tensor):
        raise ArgumentError("wire_kernel: the network has no weight that is trained")
    return kernel


class _GatesOf(nn.Module):
    """Calls the method ``gates`` of a network, so that its parameters can be exchanged."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Sequence[Tensor]:
        return self.model.gates(x)


def _in_double(caller: str, model: nn.Module) -> Any:
    kind = getattr(model, "kind", None)
    if getattr(kind, "set_by", None) not in ("weights", "gating"):
        gate = getattr(model, "gate", None)
        raise ArgumentError(
            f"{caller}: gates that are set by responses are needed",
            got=type(model).__name__ if gate is None else f"gate={gate!r}",
            allowed="DeepGatedNetwork or DeepGatedConvNetwork with gate 'relu', 'galu', "
            "'soft_relu' or 'soft_galu'",
        )
    return copied(model).double()


def _trained(model: nn.Module) -> list[tuple[str, Tensor]]:
    found = []
    for name, value in model.named_parameters():
        if value.requires_grad:
            found.append((name, value.detach()))
    return found


def _with_fixed_gates(model: Any, name: str, x: Tensor) -> Outputs:
    """The outputs as a function of a parameter, with the gates as they are."""
    with torch.no_grad():
        gates = [gate.detach() for gate in model.gates(x)]
    return lambda value: functional_call(model, {name: value}, (x,), {"gates": gates})


def _with_fixed_strengths(model: Any, name: str, x: Tensor) -> Outputs:
    """The outputs as a function of a parameter that acts on the gates alone."""
    constants = {key: value.detach() for key, value in model.named_parameters()}

    def outputs(value: Tensor) -> Tensor:
        gates = functional_call(_GatesOf(model), {f"model.{name}": value}, (x,))
        return functional_call(model, constants, (x,), {"gates": gates})

    return outputs


def _coefficients(model: Any, name: str, x: Tensor) -> Outputs:
    """The coefficient of every input node as a function of a parameter: (n times i, o)."""
    size = x[0].numel()
    nodes = torch.eye(size, dtype=x.dtype, device=x.device).reshape(size, *x.shape[1:])
    inputs = nodes.repeat(len(x), *[1] * (x.dim() - 1))
    with torch.no_grad():
        gates = [gate.detach().repeat_interleave(size, 0) for gate in model.gates(x)]
    return lambda value: functional_call(model, {name: value}, (inputs,), {"gates": gates})


def _derivative(outputs: Outputs, value: Tensor) -> Tensor:
    """The derivative of every output: (n, o, numbers)."""
    # Without vmap: networks check the values of their inputs.
    jacobian = jacrev(outputs, chunk_size=1)(value)
    return jacobian.detach().flatten(2)


def _products(left: Tensor, right: Tensor) -> Tensor:
    kernel = torch.einsum("sip,tjp->stij", left, right)
    return kernel[:, :, 0, 0] if kernel.shape[2:] == (1, 1) else kernel
