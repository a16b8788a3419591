"""Run a model in eval mode, in the type of its parameters, and leave it unchanged."""

from typing import Any

from torch import Tensor, nn

from gatewise.errors import first_line
from gatewise.graph import does_not_fit
from gatewise.surgery.planning import float_dtypes
from gatewise.surgery.proof.failures import SwapFailed
from gatewise.surgery.proof.running import Arguments, run


def outputs_of(model: nn.Module, example: Arguments) -> tuple[Tensor, ...]:
    """Return the floating point outputs of ``model`` in eval mode.

    Args:
        model: The model.
        example: Its arguments. Floating point numbers are cast to the type of the parameters.
    """
    return run(model, example, dtype=next(iter(float_dtypes(model)), None)).outputs


def outputs_before(model: nn.Module, example: Arguments) -> tuple[Tensor, ...]:
    """Return :func:`outputs_of` the original. An example that does not fit raises ArgumentError."""
    try:
        return outputs_of(model, example)
    except Exception as problem:
        raise does_not_fit(problem, example) from problem


def outputs_after(model: nn.Module, example: Arguments, operation: str) -> tuple[Tensor, ...]:
    """Return :func:`outputs_of` a changed model.

    Raises:
        SwapFailed: The model cannot be run. ``operation`` names the function that changed it.
    """
    try:
        return outputs_of(model, example)
    except Exception as problem:
        why = first_line(problem)
        raise SwapFailed(f"{operation}: the changed model cannot be run ({why})") from problem


def few(model: nn.Module, example: Any) -> Any:
    """Return the first two samples of a batch, which are enough to read a model.

    The whole example is returned if it is no single batch, or if the model cannot run on two.
    """
    if not isinstance(example, Tensor) or example.dim() < 2 or len(example) <= 2:
        return example
    try:
        outputs_of(model, ((example[:2],), {}))
    except Exception:
        return example  # its first dimension is not the batch
    return example[:2]
