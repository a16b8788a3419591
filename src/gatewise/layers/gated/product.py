"""A response times its gate, with no NaN where the input has none.

Note [Overflow]. A product of two finite responses can be infinite, and its derivatives, summed over
a batch, can then be infinity minus infinity. Where a product overflows, it passes no gradient:
there is none that an optimiser could use, and the others stay right. In float16 the responses
themselves overflow early, beyond 65,504, and become that: a closed gate times infinity would be
NaN.

Note [Settled gate]. The gradient that arrives at a gate is the response, which may be huge, and the
chain rule within a unit multiplies it by the gate's score before it multiplies by the derivative 0
of a gate that has long settled. Where that first product would overflow, the gate is a constant:
then it is open, and so is the output infinite, or it is closed, and its derivative 0.
"""

import torch
from torch import Tensor

from gatewise.units import replace_infinities, to_compute_dtype

SLACK = 2.0**10  # a unit may multiply its score by a slope or sharpness of its own


def widen(response: Tensor) -> Tensor:
    """``response`` in the precision gates are computed in. See Note [Overflow]."""
    return to_compute_dtype(
        replace_infinities(response) if response.dtype == torch.float16 else response
    )


def gate_response(response: Tensor, opening: Tensor, dtype: torch.dtype) -> Tensor:
    """``response * opening`` in ``dtype``. See Note [Overflow]."""
    product = (response * opening).to(dtype)
    return torch.where(product.isinf(), product.detach(), product)


def settle_gate(response: Tensor, score: Tensor, opening: Tensor) -> Tensor:
    """``opening``, made of ``score``; a constant where its derivative would overflow.

    See Note [Settled gate].
    """
    overflows = (response * (SLACK * score)).detach().isinf()
    return torch.where(overflows, opening.detach(), opening)
