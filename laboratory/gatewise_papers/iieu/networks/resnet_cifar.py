"""ResNet for CIFAR: three stages of basic blocks (ResNet-20, ResNet-56 and others)."""

from collections import OrderedDict

from torch import nn

from gatewise.errors import ArgumentError
from gatewise.models import network
from gatewise.models.blocks import UnitChoice, check_scale, check_sizes
from gatewise_papers.iieu.networks.residual import PooledClassifier, basic_block, stem, style_of


@network(title="ResNet for CIFAR", reads=(3, 32, 32), paper="arXiv:1512.03385, section 4.2")
def resnet_cifar(
    *,
    depth: int = 20,
    unit: UnitChoice = "relu",
    filters: str = "same",
    out_unit: UnitChoice | None = None,
    placement: str | None = None,
    coupler: bool = False,
    reduction: int = 16,
    scale: float = 1.0,
    classes: int = 10,
    channels: int = 3,
) -> PooledClassifier:
    """A 3x3 stem, three stages of basic blocks, a mean and a linear layer.

    The stages have 16, 32 and 64 channels. Shortcuts that change the width are 1x1 convolutions
    with batch norm. The place of IIEU in a basic block is not published; here it stands before the
    addition in both branches, as in the authors' bottlenecks.

    Args:
        depth: 6n + 2: 20, 32, 44, 56, 110.
        unit: the unit inside the blocks, and in the stem.
        filters: ``"same"`` or ``"half"``: filters before a unit that doubles the channels.
        out_unit: the unit at the end of the blocks; as ``unit`` unless given.
        placement: of the blocks' last unit, as in :func:`~~.resnet.resnet`.
        coupler: whether the learned mixture of IIEU-DC replaces the addition.
        reduction: channels for each hidden feature of the mixture; at 16, the authors' for wide
            networks, the first stage has one.
        scale: factor on all widths.
        classes: outputs.
        channels: input channels.
    """
    if not isinstance(depth, int) or depth < 8 or depth % 6 != 2:
        raise ArgumentError(
            "resnet_cifar: option depth is not allowed",
            got=depth,
            allowed="6n + 2: 20, 32, 44, 56, ...",
        )
    check_sizes("resnet_cifar", classes=classes, channels=channels, reduction=reduction)
    style = style_of("resnet_cifar", unit, filters, out_unit, placement, coupler, reduction)
    widths = [check_scale("resnet_cifar", scale, width) for width in (16, 32, 64)]
    parts: OrderedDict[str, nn.Module] = OrderedDict(stem=stem(channels, widths[0], 3, 1, style))
    read = widths[0]
    for number, width in enumerate(widths, 1):
        first = basic_block(read, width, 1 if number == 1 else 2, style)
        rest = (basic_block(width, width, 1, style) for _ in range(depth // 6 - 1))
        parts[f"stage{number}"] = nn.Sequential(first, *rest)
        read = width
    return PooledClassifier(nn.Sequential(parts), read, classes)
