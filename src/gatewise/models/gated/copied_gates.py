"""Gating networks that begin as another network."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from gatewise.errors import ArgumentError
from gatewise.models.gated.initial_weights import weight_of


def gating_weights(network: str, source: nn.Module) -> list[Tensor]:
    """The weights that set the gates of ``source``.

    Of its gating network if it has one, its own otherwise.
    """
    if not isinstance(source, nn.Module):
        what = f"{network}: gates are copied from a network"
        raise ArgumentError(
            what, got=type(source).__name__, allowed="a deep gated network, or a plain nn.Module"
        )
    gating, weights = getattr(source, "gating", None), getattr(source, "weights", None)
    if isinstance(gating, nn.ModuleList) and len(gating):
        return _weights(network, gating)
    return _weights(network, weights if isinstance(weights, nn.ModuleList) else source.modules())


def _weights(network: str, layers: Iterable[nn.Module]) -> list[Tensor]:
    found = [layer for layer in layers if isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d)]
    for layer in found:
        if layer.bias is not None:
            what = f"{network}: deep gated networks have no bias, so the gates of one that has cannot be copied"
            raise ArgumentError(what, got=str(layer), fix="train a network with bias=False")
    return [layer.weight for layer in found]


@torch.no_grad()
def copy_weights(network: str, gating: nn.ModuleList, weights: list[Tensor]) -> None:
    """Begin ``gating`` as ``weights``; a last layer that sets no gate is left over."""
    mine = [*map(weight_of, gating)]
    wanted = [tuple(weight.shape) for weight in mine]
    got = [tuple(weight.shape) for weight in weights]
    if got[: len(wanted)] != wanted or len(got) > len(wanted) + 1:
        what = f"{network}: the network that gates are copied from has another shape"
        raise ArgumentError(
            what, got=f"weights {got}", allowed=f"weights {wanted}, and one layer more"
        )
    for target, weight in zip(mine, weights, strict=False):
        target.copy_(weight)
