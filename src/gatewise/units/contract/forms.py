"""The place where a compiled form of a unit, if there is one, replaces its plain form.

A unit's file holds its definition in torch's operations. ``gatewise.fused`` derives a form from it
that computes the same in one pass, registers here, and decides which call may use it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gatewise.units.contract.arithmetic import to_compute_dtype

# A function of the input and of numbers that may be trained, made of elementwise operations. It is
# defined once, at the top of a module: compiled forms are kept by function.
PlainForm = Callable[..., Tensor]
Form = Callable[[PlainForm, Tensor, Sequence[float | Tensor]], Tensor]

FORMS: list[Form] = []  # at most one

# A form of a unit that reads the layer before it: gets the layer, ``None`` in place of a norm, the
# unit's module, the input of the layer and its response. ``None`` where it may not be used.
BoundForm = Callable[[nn.Module, nn.Module | None, nn.Module, Tensor, Tensor], Tensor | None]
BOUND_FORMS: list[BoundForm] = []  # at most one

# A form of CReLU: gets the input and the dimension. ``None`` where it may not be used.
HALVES_FORMS: list[Callable[[Tensor, int], Tensor | None]] = []  # at most one


@dataclass(frozen=True)
class FewPasses:
    """A plain form in fewer operations of torch, for eager float32 on the CPU without a compiler.

    Both functions get blocks that fit in the cache, with a whole number of vector registers, so
    they may also call functions of torch that treat the rest of a register in another way.

    Attributes:
        values: gets ``x``, the output, which it fills, and the numbers of the plain form as floats.
        slopes: gets the gradient of the output, ``x``, the output, which it fills with the gradient
            to ``x``, and the numbers. Without it the plain form is differentiated.
    """

    values: Callable[..., object]
    slopes: Callable[..., object] | None = None


FEW_PASSES: dict[PlainForm, FewPasses] = {}


def elementwise(plain: PlainForm, x: Tensor, *numbers: float | Tensor) -> Tensor:
    """Return ``plain(x, *numbers)`` in the dtype of ``x``, by compiled code where that is safe.

    The result is within the unit's error bound, not equal bit by bit.

    Args:
        plain: the plain form, which gets ``x`` in the dtype of the computation.
        x: the input.
        *numbers: numbers, tensors in the dtype of the computation that broadcast with ``x``, or
            tensors of the shape and dtype of ``x``.
    """
    # A compiler fuses the plain form itself.
    if torch.compiler.is_compiling() or not FORMS:
        return run_plain(plain, x, numbers)
    return FORMS[0](plain, x, numbers)


def run_plain(plain: PlainForm, x: Tensor, numbers: Sequence[float | Tensor]) -> Tensor:
    """Return ``plain(x, *numbers)`` in the dtype of ``x``, by torch's operations."""
    wide = []
    for number in numbers:
        wide.append(to_compute_dtype(number) if isinstance(number, Tensor) else number)
    return plain(to_compute_dtype(x), *wide).to(x.dtype)
