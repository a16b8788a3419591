"""Two small networks for comparing units in seconds."""

from collections.abc import Sequence

from torch import nn

from gatewise.models.blocks import Chain, UnitChoice, check_sizes, check_widths, slots
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
    """3x3 convolutions of the given widths with batch norm, a max-pool after each but the last, an average, a head."""
    check_sizes("small_cnn", classes=classes, channels=channels)
    widths = check_widths("small_cnn", widths)
    chain = Chain(channels)
    for place, (width, slot) in enumerate(
        zip(widths, slots(len(widths), unit, filters=filters), strict=True), 1
    ):
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
    """Linear layers of the given widths, each with its unit, and a linear head.

    Inputs are flattened.
    """
    check_sizes("mlp", classes=classes, features=features)
    widths = check_widths("mlp", widths)
    chain = Chain(features)
    chain.flatten("flat", 1)
    for place, (width, slot) in enumerate(
        zip(widths, slots(len(widths), unit, filters=filters), strict=True), 1
    ):
        chain.linear(f"fc{place}", width, slot, norm=norm)
    chain.linear("head", classes, None)
    return chain.build()
