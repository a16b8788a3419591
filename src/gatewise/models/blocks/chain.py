"""Networks without branches, built layer by layer with the channel counts kept."""

from collections import OrderedDict
from typing import Any

from torch import nn

from gatewise.models.blocks.block import conv_block, linear_block
from gatewise.models.blocks.slot import Slot
from gatewise.units import CReLU


class Chain:
    """Builds a network of named layers, each told by the one before how many channels come, and whether rectified."""

    def __init__(self, channels: int) -> None:
        self.channels = channels
        self.phases = False  # whether the next layer has to tell positive from negative inputs
        self.parts: OrderedDict[str, nn.Module] = OrderedDict()

    def conv(self, name: str, width: int, kernel: int, slot: Slot | None, **options: Any) -> None:
        """A convolution that would have ``width`` filters with a pointwise unit, and its unit."""
        filters = width if slot is None else slot.count_filters(width)
        self.parts[name] = conv_block(
            self.channels, filters, kernel, slot, phases=self.phases, **options
        )
        self._after(filters, slot)

    def linear(self, name: str, width: int, slot: Slot | None, **options: Any) -> None:
        """A linear layer that would have ``width`` outputs with a pointwise unit, and its unit."""
        filters = width if slot is None else slot.count_filters(width)
        self.parts[name] = linear_block(self.channels, filters, slot, phases=self.phases, **options)
        self._after(filters, slot)

    def add(self, name: str, module: nn.Module) -> None:
        """A layer that keeps the channels and the order of values within each.

        Max-pooling, dropout.
        """
        self.parts[name] = module

    def average(self, name: str) -> None:
        """The mean over positions, as a vector. Phases not yet told apart are averaged apart."""
        if self.phases:
            self.parts[f"{name}_phases"] = CReLU()
            self.channels, self.phases = 2 * self.channels, False
        self.parts[name] = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())

    def flatten(self, name: str, positions: int) -> None:
        """All channels of all ``positions`` as one vector."""
        self.parts[name] = nn.Flatten()
        self.channels *= positions

    def build(self) -> nn.Sequential:
        """The network."""
        return nn.Sequential(self.parts)

    def _after(self, filters: int, slot: Slot | None) -> None:
        self.channels = filters if slot is None else slot.count_channels(filters)
        self.phases = slot is not None and slot.defers
