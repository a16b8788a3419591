"""A model that returns its one tensor in a record, as a function that returns the tensor itself."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn


class OneOutput(nn.Module):
    """A wrapper that returns the first tensor in the output of ``model``.

    Args:
        model: A model with one tensor in its output.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.train(model.training)

    def forward(self, x: Tensor) -> Tensor:
        """Return the first tensor in ``model(x)``."""
        return _tensors(self.model(x))[0]

    @staticmethod
    def first_of(output: Any) -> Tensor | None:
        """Return the first tensor in the output of a model, if it has one."""
        return next(iter(_tensors(output)), None)


def _tensors(output: Any) -> list[Tensor]:
    """Return all tensors in nested mappings, tuples and lists.

    Output records of other libraries are mappings, but torch's pytrees do not know all of them.
    """
    if isinstance(output, Tensor):
        return [output]
    parts: Any = ()
    if isinstance(output, Mapping):
        parts = output.values()
    elif isinstance(output, tuple | list):
        parts = output
    return [tensor for part in parts for tensor in _tensors(part)]
