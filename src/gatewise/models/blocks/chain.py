"""Build networks without branches layer by layer."""

from collections import OrderedDict
from typing import Any

from torch import nn

from gatewise.models.blocks.block import conv_block, linear_block
from gatewise.models.blocks.slot import RELU, Slot
from gatewise.units import CReLU


class Chain:
    """Builds a sequence of named layers.

    It keeps track of the number of channels, and of whether the next layer reads responses that
    have not been rectified.

    Args:
        channels: input channels of the network.
    """

    def __init__(self, channels: int) -> None:
        self.channels = channels
        self.before = RELU  # the slot that the next layer reads
        self.parts: OrderedDict[str, nn.Module] = OrderedDict()

    def conv(self, name: str, width: int, kernel: int, slot: Slot | None, **options: Any) -> None:
        """Add a convolution and its unit.

        Args:
            name: the name of the layer.
            width: the number of filters that it would have with a pointwise unit.
            kernel: kernel size along both axes.
            slot: the activation slot; ``None`` for no unit.
            **options: further options of :func:`conv_block`.
        """
        filters = width if slot is None else slot.count_filters(width)
        self.parts[name] = conv_block(
            self.channels,
            filters,
            kernel,
            slot,
            before=self.before,
            **options,
        )
        self._after(filters, slot)

    def linear(self, name: str, width: int, slot: Slot | None, **options: Any) -> None:
        """Add a linear layer and its unit.

        Args:
            name: the name of the layer.
            width: the number of outputs that it would have with a pointwise unit.
            slot: the activation slot; ``None`` for no unit.
            **options: further options of :func:`linear_block`.
        """
        filters = width if slot is None else slot.count_filters(width)
        self.parts[name] = linear_block(self.channels, filters, slot, before=self.before, **options)
        self._after(filters, slot)

    def add(self, name: str, module: nn.Module) -> None:
        """Add a layer that keeps channels and the order of values, such as max-pooling."""
        self.parts[name] = module

    def average(self, name: str) -> None:
        """Add the mean over positions, of each sign apart if responses are not rectified."""
        if self.before.defers:
            self.parts[f"{name}_phases"] = CReLU()
            self.channels, self.before = 2 * self.channels, RELU
        self.parts[name] = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())

    def flatten(self, name: str, positions: int) -> None:
        """Add a layer that makes one vector of all channels at all ``positions``."""
        self.parts[name] = nn.Flatten()
        self.channels *= positions

    def build(self) -> nn.Sequential:
        """Return the network."""
        return nn.Sequential(self.parts)

    def _after(self, filters: int, slot: Slot | None) -> None:
        self.channels = filters if slot is None else slot.count_channels(filters)
        self.before = RELU if slot is None else slot
