"""A model that returns its one tensor in a record, as a function that returns the tensor itself."""

from typing import Any

from torch import Tensor, nn

from gatewise.graph import example_tensors


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
        return next(example_tensors(self.model(x)))

    @staticmethod
    def first_of(output: Any) -> Tensor | None:
        """Return the first tensor in the output of a model, if it has one."""
        return next(example_tensors(output), None)
