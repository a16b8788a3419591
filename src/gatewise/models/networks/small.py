"""Two small networks, to compare units in seconds."""

from collections.abc import Sequence

from torch import nn

from gatewise.models.blocks import Chain, UnitChoice, check_sizes, check_widths, slot_of
from gatewise.models.catalogue import network


@network(title="Small convolution network", reads=(1, 8, 8), paper="gatewise")
def small_cnn(
    *,
    unit: UnitChoice = "relu",
    filters: str = "same",
    widths: Sequence[int] = (16, 32, 32),
    norm: bool = True,
    classes: int = 10,
    channels: int = 1,
) -> nn.Sequential:
    """3x3 convolutions, a max-pool after each but the last, a global average and a linear layer.

    Args:
        unit: the unit in all slots.
        filters: ``"same"`` or ``"half"``: filters before a unit that doubles the channels.
        widths: filters of each convolution.
        norm: whether batch norm precedes each unit.
        classes: outputs.
        channels: input channels.
    """
    check_sizes("small_cnn", classes=classes, channels=channels)
    widths = check_widths("small_cnn", widths)
    chain = Chain(channels)
    slot = slot_of(unit, filters)
    for place, width in enumerate(widths, 1):
        chain.conv(f"conv{place}", width, 3, slot, padding=1, norm=norm, bias=not norm)
        if place < len(widths):
            chain.add(f"pool{place}", nn.MaxPool2d(2))
    chain.average("pool")
    chain.linear("head", classes, None)
    return chain.build()


@network(title="Multilayer perceptron", reads=(1, 8, 8), paper="gatewise")
def mlp(
    *,
    unit: UnitChoice = "relu",
    filters: str = "same",
    widths: Sequence[int] = (128, 128),
    norm: bool = False,
    classes: int = 10,
    features: int = 64,
) -> nn.Sequential:
    """Linear layers with a unit each, and a linear layer to the classes. Inputs are flattened.

    Args:
        unit: the unit in all slots.
        filters: ``"same"`` or ``"half"``: outputs before a unit that doubles the channels.
        widths: outputs of each hidden layer.
        norm: whether batch norm precedes each unit.
        classes: outputs.
        features: numbers of one input.
    """
    check_sizes("mlp", classes=classes, features=features)
    widths = check_widths("mlp", widths)
    chain = Chain(features)
    chain.flatten("flat", 1)
    slot = slot_of(unit, filters)
    for place, width in enumerate(widths, 1):
        chain.linear(f"fc{place}", width, slot, norm=norm)
    chain.linear("head", classes, None)
    return chain.build()
