"""Let a gating network start with the weights of another network."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from gatewise.errors import ArgumentError
from gatewise_papers.deep_gated.networks.initial_weights import weight_of


def gating_weights(network: str, source: nn.Module) -> list[Tensor]:
    """Return the weights that set the gates of ``source``: of its gating network, or its own."""
    if not isinstance(source, nn.Module):
        raise ArgumentError(
            f"{network}: gates are copied from a network",
            got=type(source).__name__,
            allowed="a deep gated network, or a plain nn.Module",
        )
    gating = getattr(source, "gating", None)
    weights = getattr(source, "weights", None)
    if isinstance(gating, nn.ModuleList) and len(gating):
        return _weights(network, gating)
    return _weights(network, weights if isinstance(weights, nn.ModuleList) else source.modules())


def _weights(network: str, layers: Iterable[nn.Module]) -> list[Tensor]:
    weights: list[Tensor] = []
    for layer in layers:
        if not isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d):
            continue
        if layer.bias is not None:
            raise ArgumentError(
                f"{network}: deep gated networks have no bias, so layers with a bias cannot be "
                "copied",
                got=str(layer),
                fix="train a network with bias=False",
            )
        weights.append(layer.weight)
    return weights


@torch.no_grad()
def copy_weights(network: str, gating: nn.ModuleList, weights: list[Tensor]) -> None:
    """Copy ``weights`` into ``gating``. The last of them, which sets no gate, may be left over."""
    targets = [weight_of(layer) for layer in gating]
    wanted = [tuple(weight.shape) for weight in targets]
    got = [tuple(weight.shape) for weight in weights]
    if got[: len(wanted)] != wanted or len(got) > len(wanted) + 1:
        raise ArgumentError(
            f"{network}: the network that gates are copied from has another shape",
            got=f"weights {got}",
            allowed=f"weights {wanted}, and one layer more",
        )
    for target, weight in zip(targets, weights, strict=False):
        target.copy_(weight)
