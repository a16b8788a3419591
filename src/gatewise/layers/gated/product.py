"""The product of a response and its gate, without NaN for inputs without NaN.

Note [Overflow]. The product of two finite responses can be infinite, and the sum of its derivatives
over a batch can then be infinity minus infinity. A product that overflows passes no gradient: no
optimiser could use it, and the other gradients stay right. In float16 the responses themselves
overflow beyond 65,504. They are then set to that number, because a closed gate times infinity would
be NaN.

Note [Frozen gate]. The gradient that arrives at a gate is the response, which may be huge. The
chain rule within a unit multiplies it by the gate's score, and only then by the derivative of the
gate, which is 0 for a saturated gate. Where that first product would overflow, the gate is a
constant. Either the gate is open and the output is infinite, or it is closed and its derivative
is 0.
"""

import torch
from torch import Tensor

from gatewise.units import replace_infinities, to_compute_dtype

SLACK = 2.0**10  # a unit may multiply its score by a slope or steepness of its own


def widen(response: Tensor) -> Tensor:
    """Return ``response`` in the precision in which gates are computed. See Note [Overflow]."""
    if response.dtype == torch.float16:
        response = replace_infinities(response)
    return to_compute_dtype(response)


def gate_response(response: Tensor, gate: Tensor, dtype: torch.dtype) -> Tensor:
    """Return ``response * gate`` in ``dtype``. See Note [Overflow]."""
    product = (response * gate).to(dtype)
    return torch.where(product.isinf(), product.detach(), product)


def freeze_overflowing_gate(response: Tensor, score: Tensor, gate: Tensor) -> Tensor:
    """Return ``gate``, a function of ``score``, as a constant where its derivative would overflow.

    See Note [Frozen gate].
    """
    overflows = (response * (SLACK * score)).detach().isinf()
    return torch.where(overflows, gate.detach(), gate)
