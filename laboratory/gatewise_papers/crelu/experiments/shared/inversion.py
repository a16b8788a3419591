"""Rebuild images from the features of a chain of convolutions with CReLU (Algorithm 1)."""

from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis import KnownResponses, conjugate_gradients

TOLERANCE = 1e-5
MOST_STEPS = 10_000


@torch.no_grad()
def inverted(network: nn.Module, layers: list[str], x: Tensor) -> Tensor:
    """Rebuild ``x`` from the features after the last of ``layers``.

    CReLU is undone exactly, each convolution by its pseudo-inverse. The features that this gives
    before a layer are in general no output of CReLU. The second half is taken from the first, as if
    they were.

    Args:
        network: a chain of layers.
        layers: names of its first layers.
        x: images (n, c, h, w).
    """
    inputs: list[Tensor] = []
    for name in layers:
        inputs.append(x.double())
        x = network.get_submodule(name)(x)
    features = x.double()
    for name, like in zip(reversed(layers), reversed(inputs), strict=True):
        conv = network.get_submodule(f"{name}.layer")
        features = _least_squares(conv, like, _response(features))
    return features


def _response(features: Tensor) -> Tensor:
    """Return the input of CReLU, from its output (n, 2 C, ...)."""
    positive, negative = features.chunk(2, 1)
    return positive - negative


def _least_squares(conv: Any, like: Tensor, wanted: Tensor) -> Tensor:
    """Return the shortest input of the shape of ``like`` with responses closest to ``wanted``."""
    known = KnownResponses(conv, like, None)
    known.values = wanted - conv.bias.double()[:, None, None]
    return conjugate_gradients(known, TOLERANCE, MOST_STEPS)[0]
