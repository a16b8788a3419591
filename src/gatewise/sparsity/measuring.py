"""How sparse the inputs of a model's linear layers already are."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from gatewise.analysis import AnalysisResult
from gatewise.checks import check_number
from gatewise.errors import ArgumentError, Limitation, NotApplicableError
from gatewise.graph import untouched
from gatewise.sparsity.calibration import first_calls
from gatewise.sparsity.results import LayerSparsity, layer_rows
from gatewise.sparsity.thresholds import Counts, Place, linear_layers, watched

BELOW = 0.01


@dataclass(frozen=True)
class SparsityMeasure(AnalysisResult):
    """How sparse a model is as it is.

    Attributes:
        layers: one row for each linear layer that the data reaches.
        below: numbers of at most this magnitude count as small.
        tokens: rows of inputs at the layer that has most.
    """

    layers: tuple[LayerSparsity, ...]
    below: float
    tokens: int

    def __str__(self) -> str:
        head = f"small: magnitude at most {self.below:g}"
        lines = [
            f"{'layer':<40} {'inputs':>7} {'zeros':>7} {'small':>7}  small by token   ({head})"
        ]
        for row in self.layers:
            low, middle, high = row.by_token
            lines.append(
                f"{row.layer:<40} {row.width:>7} {row.zeros:>7.1%} {row.sparsity:>7.1%}  "
                f"{low:.1%} / {middle:.1%} / {high:.1%}"
            )
        return "\n".join(lines)


@torch.no_grad()
def measure_sparsity(
    model: nn.Module, data: Any, *, below: float = BELOW, batches: int = 32
) -> SparsityMeasure:
    """Count zeros and small numbers at the inputs of all linear layers.

    The model is left as it was.

    Args:
        model: any module with linear layers.
        data: as in :func:`gatewise.sparsify`.
        below: numbers of at most this magnitude count as small.
        batches: how many batches are read at most.

    Raises:
        ArgumentError: an argument is not allowed, or the model has no linear layer.
    """
    if not isinstance(model, nn.Module):
        raise ArgumentError(
            "measure_sparsity: model must be a module",
            got=type(model).__name__,
            allowed="nn.Module",
        )
    check_number("measure_sparsity", "below", below, least=0)
    read = first_calls("measure_sparsity", model, data, batches)
    counts = Counts(below)
    places = []
    for path, layer in linear_layers(model).items():
        places.append(Place(path, layer, layer.weight.numel(), layer.in_features))
    with untouched(model):
        model.eval()
        with watched(places, counts.add):
            for batch in read:
                batch.run(model)
    rows = layer_rows(places, counts, counts, dict.fromkeys(counts.numbers, below))
    if not rows:
        raise NotApplicableError(
            Limitation.NO_LAYER,
            "measure_sparsity: the model calls no linear layer of torch",
            got=type(model).__name__,
        )
    tokens = max(counts.numbers[row.layer] // row.width for row in rows)
    return SparsityMeasure(rows, float(below), tokens)
