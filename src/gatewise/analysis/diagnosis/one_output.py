"""A model whose one tensor comes in a record, a dict or a tuple, as a function that gives the tensor itself."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn


class OneOutput(nn.Module):
    """The first tensor that ``model`` gives."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.train(model.training)

    def forward(self, x: Tensor) -> Tensor:
        """As :func:`_tensors` finds it."""
        return _tensors(self.model(x))[0]


def with_one_output(model: nn.Module, x: Tensor) -> nn.Module:
    """``model``, if it gives a tensor; else one that gives the tensor in what it gives."""
    with torch.no_grad():
        return model if isinstance(model(x), Tensor) else OneOutput(model)


def _tensors(given: Any) -> list[Tensor]:
    """Records of other libraries are mappings, whether torch's trees know them or not."""
    if isinstance(given, Tensor):
        return [given]
    parts = (
        given.values()
        if isinstance(given, Mapping)
        else given
        if isinstance(given, tuple | list)
        else ()
    )
    return [tensor for part in parts for tensor in _tensors(part)]
