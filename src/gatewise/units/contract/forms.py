"""The place where a compiled form of a unit, if there is one, replaces its plain form.

A unit's file holds its definition in torch's operations. ``gatewise.fused`` registers forms here
that compute the same in one pass, and decides which call may use one.
"""

from collections.abc import Callable

import torch
from torch import Tensor

# A function of the input and of the number that may be trained.
PlainForm = Callable[[Tensor, float | Tensor], Tensor]
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
    """Return ``plain(x, k)``, computed by the compiled form ``kernel`` where it applies.

    The result is within the unit's error bound, not equal bit by bit.

    Args:
        kernel: the name of the compiled form.
        plain: the plain form.
        x: the input.
        k: a number, or a tensor that broadcasts with ``x``, of one number or one per channel.
        constants: further numbers of the compiled form.
    """
    # A compiler fuses the plain form itself.
    if torch.compiler.is_compiling() or kernel not in FORMS:
        return plain(x, k)
    return FORMS[kernel](plain, x, k, constants)
