"""A response and its unit: a layer, a norm and what stands in the activation slot."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from gatewise.errors import ArgumentError
from gatewise.layers import PSConv2d, PSLinear
from gatewise.models.blocks.slot import PSC, Slot
from gatewise.units import registered_units


class Block(nn.Module):
    """Layer, norm and unit in a row.

    A unit that binds to its producer is given the layer and the layer's input.

    Names of parameters do not depend on the unit: ``layer.*``, ``norm.*``, ``unit.*``.
    """

    def __init__(
        self, layer: nn.Module, norm: nn.Module | None, slot: Slot | None, channels: int
    ) -> None:
        super().__init__()
        self.layer = layer
        self.norm = norm
        self.unit = None if slot is None else slot.module(layer, channels)
        self.binds = slot is not None and slot.binds

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        if self.norm is not None:
            y = self.norm(y)
        if self.unit is None:
            return y
        return self.unit(y, x, conv=self.layer) if self.binds else self.unit(y)


def conv_block(
    channels: int,
    filters: int,
    kernel: int,
    slot: Slot | None,
    *,
    phases: bool = False,
    norm: bool = True,
    bias: bool = False,
    **options: Any,
) -> Block:
    """A convolution of ``filters`` filters and what follows it; ``phases``.

    The input has not been rectified yet.
    """
    kind = PSConv2d if phases else nn.Conv2d
    layer = kind(channels, filters, kernel, bias=bias, **options)
    return Block(layer, nn.BatchNorm2d(filters) if norm else None, slot, filters)


def linear_block(
    channels: int,
    filters: int,
    slot: Slot | None,
    *,
    phases: bool = False,
    norm: bool = False,
    bias: bool = True,
) -> Block:
    """A linear layer and what follows it."""
    if slot is not None and slot.needs_maps:
        raise ArgumentError(
            f"{slot.unit} cannot follow a linear layer: it reads feature maps",
            fix="choose another unit",
        )
    layer = (PSLinear if phases else nn.Linear)(channels, filters, bias=bias)
    return Block(layer, nn.BatchNorm1d(filters) if norm else None, slot, filters)


def unit_places(model: nn.Module) -> Mapping[str, str]:
    """Where which unit stands in a network of ours.

    Module path to unit name, the phase selective layers included.
    """
    names: dict[type[nn.Module], str] = {
        spec.module: spec.name for spec in registered_units().values()
    }
    names |= {PSConv2d: PSC, PSLinear: PSC}
    return {
        path: names[type(module)] for path, module in model.named_modules() if type(module) in names
    }
