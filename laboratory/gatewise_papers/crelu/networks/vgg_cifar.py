"""VGG for CIFAR with batch norm and dropout, and its CReLU forms (CReLU paper, tables S3 to S6)."""

from collections.abc import Sequence

from torch import nn

from gatewise.checks import check_flag
from gatewise.models import network
from gatewise.models.blocks import RELU, Chain, Slot, UnitChoice, check_scale, check_sizes
from gatewise_papers.slots import slots

WIDTHS = (64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512)
# Places of the max-pools, counted from 1.
POOLS_AFTER = (2, 4, 7, 10, 13)
# Dropout after these places: with ReLU everywhere, and where CReLU stands in an odd place up to the
# fifth (S4 to S6).
DROPOUT = {1: 0.3, 3: 0.4, 5: 0.4, 6: 0.4, 8: 0.4, 9: 0.4, 11: 0.4, 12: 0.4}
CRELU_DROPOUT = {1: 0.1, 3: 0.2, 5: 0.2, 6: 0.2}


@network(title="VGG for CIFAR", reads=(3, 32, 32), paper="arXiv:1603.05201, tables S3 to S6")
def vgg_cifar(
    *,
    unit: UnitChoice = "relu",
    filters: str = "half",
    at: Sequence[int] | None = None,
    norm_before_crelu: bool = False,
    dropout: bool = True,
    scale: float = 1.0,
    classes: int = 10,
    channels: int = 3,
) -> nn.Sequential:
    """Thirteen 3x3 convolutions, five max-pools, a hidden layer of 512, and the classes.

    The paper's forms are ``unit="crelu"`` with ``at=(1,)``, ``(1, 3)`` and ``(1, 3, 5)`` and half
    the filters there.

    Args:
        unit: the unit in the slots of the convolutions, or in those of ``at``. The hidden layer has
            it, too, if it stands everywhere and does not need maps.
        filters: ``"same"`` or ``"half"``: filters before a unit that doubles the channels.
        at: the slots that have ``unit``, counted from 1; the others have ReLU.
        norm_before_crelu: whether batch norm precedes CReLU. The tables print none; whether there
            was one is open.
        dropout: whether there is dropout, as in the tables.
        scale: factor on all widths.
        classes: outputs.
        channels: input channels.
    """
    check_sizes("vgg_cifar", classes=classes, channels=channels)
    check_flag("vgg_cifar", "norm_before_crelu", norm_before_crelu)
    check_flag("vgg_cifar", "dropout", dropout)
    chosen = slots(len(WIDTHS), unit, at=at, filters=filters)
    chain = Chain(channels)
    ratios = dict(DROPOUT)
    for place, ratio in CRELU_DROPOUT.items():
        if _follows_crelu(place, chosen):
            ratios[place] = ratio
    for place, (width, slot) in enumerate(zip(WIDTHS, chosen, strict=True), 1):
        norm = slot.unit != "crelu" or norm_before_crelu
        width = check_scale("vgg_cifar", scale, width)
        chain.conv(f"conv{place}", width, 3, slot, padding=1, norm=norm, bias=True)
        if dropout and place in ratios:
            chain.add(f"drop{place}", nn.Dropout(ratios[place]))
        if place in POOLS_AFTER:
            chain.add(f"pool{POOLS_AFTER.index(place) + 1}", nn.MaxPool2d(2))
    chain.average("pool6")  # 1x1 already for images of 32 pixels, so this changes nothing there
    if dropout:
        chain.add("drop13", nn.Dropout(0.5))
    # With CReLU in some slots only, the tables have ReLU in the hidden layer.
    hidden = RELU if at is not None or chosen[0].needs_maps else chosen[0]
    chain.linear("fc14", check_scale("vgg_cifar", scale, 512), hidden, norm=True)
    if dropout:
        chain.add("drop14", nn.Dropout(0.5))
    chain.linear("fc15", classes, None)
    return chain.build()


def _follows_crelu(place: int, chosen: list[Slot]) -> bool:
    """Return whether the table with CReLU has another dropout ratio at ``place``.

    That is so at a CReLU, and in the block that the CReLU begins.
    """
    start = 5 if place == 6 else place
    return chosen[start - 1].unit == "crelu"
