"""Weights and biases of gated layers: made, and drawn as torch's own layers draw them."""

import torch
from torch import nn

from gatewise.layers.response import Response
from gatewise.units import Device, DType, allocating, check_flag


def make_weights(layer: Response, suffix: str, bias: bool, device: Device, dtype: DType) -> None:
    """Register ``weight`` and ``bias`` with ``suffix``; a bias that is not wanted is ``None``."""
    check_flag(layer.layer, "bias", bias)
    with allocating(layer.layer, device, dtype):
        weight = nn.Parameter(torch.empty(layer.weight_shape, device=device, dtype=dtype))
        offset = (
            nn.Parameter(torch.empty(layer.outputs, device=device, dtype=dtype)) if bias else None
        )
    layer.register_parameter(f"weight{suffix}", weight)
    layer.register_parameter(f"bias{suffix}", offset)


def fill_weights(layer: Response, suffix: str) -> None:
    """Uniform with variance ``1 / (3 fan_in)``, as ``nn.Linear`` and ``nn.Conv2d``."""
    bound = layer.fan_in**-0.5
    for name in (f"weight{suffix}", f"bias{suffix}"):
        if (values := getattr(layer, name)) is not None:
            nn.init.uniform_(values, -bound, bound)
