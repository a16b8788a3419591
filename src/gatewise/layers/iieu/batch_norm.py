"""Checks of the norm that a layer holds."""

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from gatewise.errors import ArgumentError
from gatewise.units import Producer

_FITS: dict[type[nn.Module], type[nn.Module]] = {
    nn.Linear: nn.BatchNorm1d,
    nn.Conv1d: nn.BatchNorm1d,
    nn.Conv2d: nn.BatchNorm2d,
    nn.Conv3d: nn.BatchNorm3d,
}


def check_norm(name: str, layer: Producer, norm: nn.Module | None) -> nn.Module | None:
    """Return ``norm`` if it can follow ``layer``.

    It must have the layer's number of channels, and a batch norm the layer's number of dimensions.
    """
    if norm is None:
        return None
    if not isinstance(norm, nn.Module):
        raise ArgumentError(
            f"{name}: norm must be a module",
            got=norm,
            allowed="a module such as BatchNorm2d, or None",
        )
    expected = next(norm_type for kind, norm_type in _FITS.items() if isinstance(layer, kind))
    if isinstance(norm, tuple(_FITS.values())) and not isinstance(norm, expected):
        raise ArgumentError(
            f"{name}: the batch norm is for inputs of another dimension than the layer's output",
            got=f"{type(norm).__name__} after {type(layer).__name__}",
            allowed=expected.__name__,
        )
    for attribute in ("num_features", "num_channels"):
        count = getattr(norm, attribute, None)
        if count is not None and count != layer.weight.shape[0]:
            raise ArgumentError(
                f"{name}: the norm has another number of channels than the layer's output",
                got=f"{count} in {type(norm).__name__}",
                allowed=layer.weight.shape[0],
            )
    return norm


def check_values(
    name: str,
    norm: nn.Module,
    y: Tensor,
    dim: int,
) -> None:
    """Raise an error if a batch norm in training gets only one value per channel."""
    if isinstance(norm, _BatchNorm) and norm.training and y.numel() == y.shape[dim]:
        raise ArgumentError(
            f"{name}: batch norm cannot train on one value per channel",
            got=f"a response of shape {tuple(y.shape)}",
            fix="module.eval()",
        )


def scale_and_offset(name: str, norm: nn.Module) -> tuple[Tensor, Tensor]:
    """Return the factor and summand per channel, in float64, of ``norm`` in evaluation mode."""
    if not isinstance(norm, _BatchNorm) or norm.running_mean is None or norm.running_var is None:
        raise ArgumentError(
            f"{name}: only a batch norm with running statistics can be folded",
            got=type(norm).__name__,
        )
    scale = torch.rsqrt(norm.running_var.double() + norm.eps)
    if norm.weight is not None:
        scale = scale * norm.weight.double()
    offset = -norm.running_mean.double() * scale
    return scale, offset if norm.bias is None else offset + norm.bias.double()
