"""A generated form of the user's own elementwise function."""

import functools
import inspect
from collections.abc import Callable

import torch
from torch import Tensor

from gatewise.errors import ArgumentError
from gatewise.fused.dispatch import elementwise
from gatewise.fused.kernels import MOST_NUMBERS, Number
from gatewise.fused.tracing import trace
from gatewise.units import check_input, run_plain


class FusedFunction:
    """An elementwise function that runs as generated C, one pass forward and one backward.

    Call it like the function. Values are computed in float32 (half types are rounded once) and may
    differ from those of the function in the last bits. The function itself runs where generated
    code cannot: in float64, on other devices, under ``torch.compile``, ``torch.export``, ``vmap``,
    forward mode and for second derivatives.

    Args:
        function: of a tensor and further numbers.
    """

    def __init__(self, function: Callable[..., Tensor]) -> None:
        self.function = function
        self.numbers = _count_numbers(function)
        trace(function, self.numbers)
        functools.update_wrapper(self, function)

    def __call__(self, x: Tensor, *numbers: Number) -> Tensor:
        """Return the function of ``x``.

        Args:
            x: the input, a real floating point tensor.
            *numbers: the further arguments of the function: floats, or tensors of one value or
                with the rank of ``x``, that broadcast with it.
        """
        if len(numbers) != self.numbers:
            raise ArgumentError(
                "fuse: wrong number of arguments",
                got=f"{len(numbers)} besides the input",
                allowed=self.numbers,
            )
        check_input("fuse", x)
        if torch.compiler.is_compiling():
            return run_plain(self.function, x, numbers)
        return elementwise(self.function, x, numbers)


def fuse(function: Callable[..., Tensor]) -> FusedFunction:
    """Return an elementwise function that runs as one generated loop forward and one backward.

    The function is traced once with a symbolic element; derivatives are derived from the trace.
    Only the input is kept for the backward pass. Gradients to further arguments are summed in
    float64 in the same pass.

    Args:
        function: of a tensor ``x``, and further numbers that may be trained. It must be made of
            elementwise operations of torch.

    Raises:
        ArgumentError: if it uses an operation that has no generated form; the message names it.

    >>> import torch
    >>> bump = fuse(lambda x, width: x * torch.exp(-(x / width) ** 2))
    >>> bump(torch.tensor([0.0, 1.0]), 2.0)
    tensor([0.0000, 0.7788])
    """
    if not callable(function):
        raise ArgumentError("fuse: not a function", got=type(function).__name__)
    return FusedFunction(function)


def _count_numbers(function: Callable[..., Tensor]) -> int:
    """Return how many arguments a function has besides its input."""
    count = 0
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            raise ArgumentError(
                "fuse: the function may have only positional arguments", got=str(parameter)
            )
        count += 1
    if not 1 <= count <= MOST_NUMBERS + 1:
        raise ArgumentError(
            "fuse: the function needs an input and at most 12 numbers", got=f"{count} arguments"
        )
    return count - 1
