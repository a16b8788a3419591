"""Images from the features of a chain of convolutions with CReLU, undone one after another (Algorithm 1)."""

from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis import KnownResponses, conjugate_gradients

TOLERANCE, MOST = 1e-5, 10_000


@torch.no_grad()
def inverted(network: nn.Module, layers: list[str], x: Tensor) -> Tensor:
    """``x`` as far as the features after the last of ``layers``, the first ones of the network, give it back.

    CReLU is undone exactly, each convolution by its pseudo-inverse. What that gives for the features before a layer is
    in general no output of CReLU: the second half is taken from the first, as if it were.
    """
    inputs: list[Tensor] = []
    for name in layers:
        inputs.append(x.double())
        x = network.get_submodule(name)(x)
    features = x.double()
    for name, given in zip(reversed(layers), reversed(inputs), strict=True):
        features = least_squares(network.get_submodule(f"{name}.layer"), given, response(features))
    return features


def response(features: Tensor) -> Tensor:
    """What CReLU was given, of its output (n, 2 C, ...)."""
    positive, negative = features.chunk(2, 1)
    return positive - negative


def least_squares(conv: Any, like: Tensor, wanted: Tensor) -> Tensor:
    """The input of the shape of ``like``, of least length, whose responses are nearest to ``wanted``."""
    known = KnownResponses(conv, like, None)
    known.values = wanted - conv.bias.double()[:, None, None]
    return conjugate_gradients(known, TOLERANCE, MOST)[0]
