"""Compare the outputs of a changed model with those of the original."""

from collections.abc import Sequence

import torch
from torch import Tensor


def relative_error(before: Sequence[Tensor], after: Sequence[Tensor]) -> float:
    """Return the root mean square error of the outputs, relative to their root mean square."""
    error = 0.0
    whole = 0.0
    for old, new in zip(before, after, strict=True):
        error += float((old.double() - new.double()).square().sum())
        whole += float(old.double().square().sum())
    return (error / whole) ** 0.5 if whole else error**0.5


def agreement(before: Sequence[Tensor], after: Sequence[Tensor]) -> float | None:
    """Return the share of equal predictions, if the only output is scores ``(N, classes)``."""
    if len(before) != 1 or before[0].dim() != 2 or before[0].shape[1] < 2:
        return None
    return float(torch.eq(before[0].argmax(1), after[0].argmax(1)).double().mean())
