"""A layer, its norm and its unit as one module."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from gatewise.checks import check_kind
from gatewise.errors import ArgumentError
from gatewise.models.blocks.slot import PHASE_CHOICES, RELU, Slot
from gatewise.units import registered_units, run_block


class Block(nn.Module):
    """A layer, a norm and a unit in a row.

    Names of parameters do not depend on the unit: ``layer.*``, ``norm.*``, ``unit.*``.

    Args:
        layer: a convolution or a linear layer.
        norm: follows the layer, if any.
        slot: what stands in the activation slot; ``None`` for no unit. A unit that binds to its
            producer gets the layer and the input of the layer, too.
        channels: the number of outputs of the layer.
    """

    def __init__(
        self,
        layer: nn.Module,
        norm: nn.Module | None,
        slot: Slot | None,
        channels: int,
    ) -> None:
        super().__init__()
        self.layer = check_kind("Block", "layer", layer, nn.Module)
        self.norm = norm
        if slot is not None:
            check_kind("Block", "slot", slot, Slot)
        self.unit = None if slot is None else slot.module(layer, channels)
        self.binds = slot is not None and slot.binds

    def forward(self, x: Tensor) -> Tensor:
        if self.binds and self.unit is not None:
            whole = run_block(self.layer, self.norm, self.unit, x)
            if whole is not None:
                return whole
        y = self.layer(x)
        if self.norm is not None:
            y = self.norm(y)
        if self.unit is None:
            return y
        if self.binds:
            return self.unit(y, x, conv=self.layer)
        return self.unit(y)


def conv_block(
    channels: int,
    filters: int,
    kernel: int,
    slot: Slot | None,
    *,
    before: Slot = RELU,
    norm: bool | nn.Module = True,
    bias: bool = False,
    **options: Any,
) -> Block:
    """Return a convolution with its norm and its unit.

    Args:
        channels: input channels.
        filters: number of filters.
        kernel: kernel size along both axes.
        slot: the activation slot; ``None`` for no unit.
        before: the slot that the convolution reads. If it is empty, the convolution is a phase
            selective one. See Note [Phases].
        norm: whether batch norm follows the convolution, or a module in its place.
        bias: whether the convolution has a bias.
        **options: further options of the convolution.
    """
    layer = before.next_conv(channels, filters, kernel, bias=bias, **options)
    if isinstance(norm, bool):
        norm_layer = nn.BatchNorm2d(filters) if norm else None
    else:
        norm_layer = norm
    return Block(layer, norm_layer, slot, filters)


def linear_block(
    channels: int,
    filters: int,
    slot: Slot | None,
    *,
    before: Slot = RELU,
    norm: bool = False,
    bias: bool = True,
) -> Block:
    """Return a linear layer with its norm and its unit. Arguments as in :func:`conv_block`."""
    if slot is not None and slot.needs_maps:
        raise ArgumentError(
            f"{slot.unit} cannot follow a linear layer: it reads feature maps",
            fix="choose another unit",
        )
    layer = before.next_linear(channels, filters, bias=bias)
    return Block(layer, nn.BatchNorm1d(filters) if norm else None, slot, filters)


def unit_places(model: nn.Module) -> Mapping[str, str]:
    """Return the units of a network of this package: the name of the unit by module path.

    Phase selective layers are included.
    """
    check_kind("unit_places", "model", model, nn.Module)
    names: dict[type[nn.Module], str] = {}
    for name, choice in PHASE_CHOICES.items():
        names |= {choice.conv: name, choice.linear: name}
    for unit in registered_units().values():
        names[unit.module] = unit.name
    places = {}
    for path, module in model.named_modules():
        if type(module) in names:
            places[path] = names[type(module)]
    return places
