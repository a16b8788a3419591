"""Run a model in evaluation, in the type it has, and leave it as it was."""

from typing import Any

import torch
from torch import Tensor, nn

from gatewise.graph import does_not_fit
from gatewise.surgery.proof.proving import SwapFailed
from gatewise.surgery.proof.running import cast, floating_tensors, left_unchanged

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def outputs_of(model: nn.Module, example: Arguments) -> tuple[Tensor, ...]:
    """The floating tensors that ``model`` gives out, the example's floating numbers in the type of its parameters."""
    dtype = next((each.dtype for each in model.parameters() if each.is_floating_point()), None)
    args, kwargs = cast(example, dtype)
    with torch.no_grad(), left_unchanged(model):
        return floating_tensors(model.eval()(*args, **kwargs))


def outputs_before(model: nn.Module, example: Arguments) -> tuple[Tensor, ...]:
    """:func:`outputs_of` a model as it was given; an example that does not fit is our error."""
    try:
        return outputs_of(model, example)
    except Exception as problem:
        raise does_not_fit(problem, example) from problem


def outputs_after(model: nn.Module, example: Arguments, operation: str) -> tuple[Tensor, ...]:
    """:func:`outputs_of` a changed model; one that cannot be run is our error."""
    try:
        return outputs_of(model, example)
    except Exception as problem:
        first = (str(problem).strip().splitlines() or [type(problem).__name__])[0]
        raise SwapFailed(f"{operation}: the changed model cannot be run ({first})") from problem


def few(model: nn.Module, example: Any) -> Any:
    """Two of the samples, where the example is one batch.

    Reading a model takes shapes and no numbers.
    """
    if not isinstance(example, Tensor) or example.dim() < 2 or len(example) <= 2:
        return example
    try:
        outputs_of(model, ((example[:2],), {}))
    except Exception:
        return example  # its first dimension counts something else
    return example[:2]
