"""Threshold: the response above a threshold, else a constant."""

import math

import torch
from torch import Tensor
from torch.nn import functional

from gatewise.checks import check_number
from gatewise.units.contract import (
    Limits,
    UnitModule,
    check_input,
    error_bounds,
    in_compute_dtype,
    promise,
    unit,
)


def threshold(x: Tensor, threshold: float = 0.01, value: float = 0.0) -> Tensor:
    r"""Return ``x`` where it exceeds ``threshold``, else ``value``.

    .. math:: f(x) = x \text{ if } x > t \text{ else } v

    where :math:`t` is ``threshold`` and :math:`v` is ``value``. With ``value=0`` this is FATReLU,
    which makes the activations of a trained network sparser.

    Args:
        x: the input, a real floating point tensor.
        threshold: the largest input that is replaced.
        value: the result there.

    Shape: ``(*) -> (*)``.

    Song et al., 2024, "ProSparse: Introducing and Enhancing Intrinsic Activation Sparsity within
    Large Language Models", arXiv:2402.13516, with ``value=0``; torch has it as
    ``torch.nn.Threshold``.
    """
    threshold = check_number("threshold", "threshold", threshold)
    value = check_number("threshold", "value", value)
    # Torch rounds the threshold to the dtype of the input, which moves it in half types.
    return in_compute_dtype(functional.threshold, check_input("threshold", x), threshold, value)


@unit(
    name="threshold",
    title="Threshold",
    family="piecewise",
    on="gate > 1/2",
    function=threshold,
    formula=r"x \text{ if } x > t \text{ else } v",
    paper="torch.nn.Threshold",
    reference=lambda x, threshold=0.01, value=0.0: torch.where(x <= threshold, value, x),
    limits=lambda value=0.0: Limits(minus=(value,), plus=(math.inf,)),
    kinks=lambda threshold=0.01: {threshold: 0.0},
    error=error_bounds(half=promise(1), float32=promise(1)),
    samples=({}, {"threshold": 0.25, "value": -1.0}),
)
class Threshold(UnitModule):
    """Module form of :func:`threshold`.

    Args:
        threshold: the largest input that is replaced.
        value: the result there.
    """

    expression = staticmethod(functional.threshold)
    fusable = False
