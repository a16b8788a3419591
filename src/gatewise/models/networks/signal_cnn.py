"""A small convolution network for signals."""

from collections import OrderedDict
from collections.abc import Sequence

from torch import nn

from gatewise.models.blocks import check_sizes, check_widths
from gatewise.models.catalogue import network


@network(title="Small convolution network for signals", reads=(1, 1, 40), paper="gatewise")
def signal_cnn(
    *,
    widths: Sequence[int] = (25, 25, 25),
    classes: int = 10,
    channels: int = 1,
    length: int = 40,
) -> nn.Sequential:
    """Convolutions of stride 2 with a ReLU each, and a linear layer.

    It has no option for a unit: others are put in by :func:`gatewise.swap`.

    Args:
        widths: filters of each convolution.
        classes: outputs.
        channels: input channels.
        length: numbers of a signal.
    """
    check_sizes("signal_cnn", classes=classes, channels=channels, length=length)
    widths = check_widths("signal_cnn", widths)
    parts: OrderedDict[str, nn.Module] = OrderedDict(rows=nn.Flatten(2))
    for place, width in enumerate(widths, 1):
        size = 5 if place == 1 else 3
        parts[f"conv{place}"] = nn.Conv1d(channels, width, size, stride=2, padding=size // 2)
        parts[f"act{place}"] = nn.ReLU()
        channels = width
        length = (length + 1) // 2
    parts["flat"] = nn.Flatten(1)
    parts["head"] = nn.Linear(channels * length, classes)
    return nn.Sequential(parts)
