"""Where the compiled form of a unit, if there is one, takes the place of its plain form.

A unit's file holds its definition, in torch's operations. ``gatewise.fused`` enters forms here that
do the same in one pass; which call may take one is decided there.
"""

from collections.abc import Callable

import torch
from torch import Tensor

PlainForm = Callable[
    [Tensor, float | Tensor], Tensor
]  # of the input and the number that may be trained
KernelConstants = tuple[float, float, float]
Form = Callable[[PlainForm, Tensor, float | Tensor, KernelConstants], Tensor]

FORMS: dict[str, Form] = {}


def elementwise(
    kernel: str,
    plain: PlainForm,
    x: Tensor,
    k: float | Tensor = 1.0,
    constants: KernelConstants = (0.0, 0.0, 0.0),
) -> Tensor:
    """``plain(x, k)``, by the form entered as ``kernel`` where it applies.

    Within the unit's promise, not bit by bit.

    ``k`` is a number, or a tensor that fits ``x`` with one number or one per channel.
    """
    if torch.compiler.is_compiling() or kernel not in FORMS:
        return plain(x, k)
    return FORMS[kernel](plain, x, k, constants)
