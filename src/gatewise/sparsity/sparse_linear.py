"""A linear layer that reads no weights for inputs that are small.

Note [Skipped rows]. ``y = W x`` is a sum of columns of ``W``, one for each input. An input that is
zero needs no column. With one row of inputs the time goes into reading ``W``, so columns that are
left out save time. They must lie one after another in memory: the weight is stored transposed.
With more rows each row needs other columns, and the layer multiplies by the whole matrix.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gatewise.sparsity.rows_product import can_skip_rows, rows_product


class SparseLinear(nn.Linear):
    """A linear layer that sets small inputs to zero, and skips their weights where it can.

    An input counts as small if its magnitude is at most ``threshold``. Without a threshold this is
    the linear layer itself. Parameters have the names and shapes of the linear layer, so weights
    can be loaded from it and into it.

    Shape: ``(*, in_features) -> (*, out_features)``.

    Args:
        linear: the layer whose parameters it takes over.
        threshold: the magnitude; ``None`` for no threshold.
    """

    def __init__(self, linear: nn.Linear, threshold: float | None = None) -> None:
        nn.Module.__init__(self)
        self.in_features = linear.in_features
        self.out_features = linear.out_features
        self.weight = linear.weight
        self.register_parameter("bias", linear.bias)
        self.threshold = threshold
        self.training = linear.training

    @property
    def skips(self) -> bool:
        """Whether the weight is stored so that small inputs can be skipped."""
        return self.weight.stride() == (1, self.out_features)

    @torch.no_grad()
    def store_by_inputs(self) -> None:
        """Store the weight so that small inputs can be skipped. This changes no value."""
        self.weight.data = self.weight.data.t().contiguous().t()

    @torch.no_grad()
    def store_by_outputs(self) -> None:
        """Store the weight as a linear layer does. This changes no value."""
        self.weight.data = self.weight.data.contiguous()

    def forward(self, input: Tensor) -> Tensor:
        """Return the product of the weight with the inputs that are not small."""
        if self.threshold is None:
            return F.linear(input, self.weight, self.bias)
        if can_skip_rows(input, self.weight, self.bias):
            return rows_product(input, self.weight, self.bias, self.threshold)
        return F.linear(without_small(input, self.threshold), self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return sizes and threshold."""
        return f"{super().extra_repr()}, threshold={self.threshold}"


def without_small(x: Tensor, threshold: float) -> Tensor:
    """Return ``x`` with zeros where its magnitude is at most ``threshold``. NaN stays.

    Args:
        x: the numbers.
        threshold: the magnitude.
    """
    return x.masked_fill(x.abs() <= threshold, 0)
