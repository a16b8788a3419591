"""Data of the user as batches: one part to calibrate thresholds, another to measure them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis import each_batch
from gatewise.checks import check_count
from gatewise.graph import split_example


@dataclass(frozen=True, eq=False)
class Batch:
    """Inputs of a model and what it should return for them.

    Attributes:
        inputs: a tensor, or a dict of keyword arguments.
        labels: the labels, if there are some.
    """

    inputs: Any
    labels: Tensor | None

    def run(self, model: nn.Module) -> Any:
        """Return what ``model`` returns. A model that takes keywords gets the labels, too."""
        args, kwargs = split_example(self.inputs)
        if isinstance(self.inputs, Mapping) and self.labels is not None:
            kwargs = {**kwargs, "labels": self.labels}
        return model(*args, **kwargs)

    def rows(self, first: int, last: int) -> "Batch":
        """Return some rows of the batch."""
        labels = None if self.labels is None else self.labels[first:last]
        return Batch(_cut(self.inputs, first, last), labels)

    @property
    def size(self) -> int:
        """The number of rows; 1 if tensors differ in it."""
        args, kwargs = split_example(self.inputs)
        tensors = [each for each in (*args, *kwargs.values()) if isinstance(each, Tensor)]
        sizes = {len(each) if each.dim() else 0 for each in tensors}
        return sizes.pop() if len(sizes) == 1 else 1

    @property
    def reads_tokens(self) -> bool:
        """Whether the inputs are whole numbers, as those of language models."""
        args, kwargs = split_example(self.inputs)
        tensors = [each for each in (*args, *kwargs.values()) if isinstance(each, Tensor)]
        return bool(tensors) and not any(each.is_floating_point() for each in tensors)


def _cut(inputs: Any, first: int, last: int) -> Any:
    if isinstance(inputs, Mapping):
        return {name: _cut(value, first, last) for name, value in inputs.items()}
    return inputs[first:last] if isinstance(inputs, Tensor) else inputs


def read_batches(
    what: str,
    data: Any,
    most: int,
    device: torch.device,
) -> list[Batch]:
    """Return the first batches of the user's data.

    Args:
        what: the name of the function, for messages.
        data: a tensor, a list of batches or a data loader.
        most: the number of batches to read at most.
        device: where the model is.
    """
    check_count(what, "batches", most)
    batches = []
    for inputs, labels in islice(each_batch(what, data, None), most):
        moved = None if labels is None else labels.to(device)
        batches.append(Batch(_moved(inputs, device), moved))
    return batches


def _moved(inputs: Any, device: torch.device) -> Any:
    if isinstance(inputs, Mapping):
        return {name: _moved(value, device) for name, value in inputs.items()}
    return inputs.to(device) if isinstance(inputs, Tensor) else inputs


def divided(batches: Sequence[Batch]) -> tuple[list[Batch], list[Batch], str]:
    """Return batches to calibrate on, others to measure on, and a note if these are the same."""
    if len(batches) > 1:
        half = (len(batches) + 1) // 2
        return list(batches[:half]), list(batches[half:]), ""
    (batch,) = batches
    if batch.size > 1:
        half = (batch.size + 1) // 2
        return [batch.rows(0, half)], [batch.rows(half, batch.size)], ""
    note = "there is one input only: thresholds are measured on the input that they come from"
    return [batch], [batch], note
