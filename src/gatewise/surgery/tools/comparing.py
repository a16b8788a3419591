"""Compare the outputs of a changed model with those of the original."""

from collections.abc import Sequence

import torch
from torch import Tensor

from gatewise.surgery.proof import SwapFailed


def check_difference(what: str, name: str, value: float, most: float, fix: str = "") -> None:
    """Raise an error if two models that must be equal are not.

    Args:
        what: The function that changed the model, for the message.
        name: The outputs that were compared, for the message.
        value: Their relative difference.
        most: The largest difference that rounding explains.
        fix: What the user can do.

    Raises:
        SwapFailed: The difference is larger, or not a number.
    """
    if not value <= most:
        raise SwapFailed(
            f"{what}: the changed model computes something else ({name})",
            got=f"relative difference {value:.3g}",
            allowed=f"at most {most:g}",
            fix=fix or None,
        )


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
