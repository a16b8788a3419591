"""VGG for CIFAR with batch norm and dropout, and its CReLU forms (paper 002, tables S3 to S6)."""

from collections.abc import Sequence

from torch import nn

from gatewise.models.blocks import RELU, Chain, Slot, UnitChoice, check_scale, check_sizes, slots
from gatewise.models.catalogue import network
from gatewise.units import check_flag

WIDTHS = (64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512)
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
    scale: float = 1.0,
    classes: int = 10,
    channels: int = 3,
) -> nn.Sequential:
    """Thirteen 3x3 convolutions with batch norm, five max-pools, a hidden layer of 512, and the classes.

    Args:
        unit, filters, at: what stands in the thirteen convolutions' slots, or in some of them (ReLU in the others);
            the hidden layer has the unit too if it stands everywhere and does not need maps.
            The paper's forms are ``unit="crelu", at=(1,)``, ``(1, 3)`` and ``(1, 3, 5)``, with half the filters there.
        norm_before_crelu: the tables print no batch norm before CReLU; whether there was one is open.
        scale: factor on all widths. classes, channels: outputs, and channels of the input.
    """
    check_sizes("vgg_cifar", classes=classes, channels=channels)
    check_flag("vgg_cifar", "norm_before_crelu", norm_before_crelu)
    chosen = slots(len(WIDTHS), unit, at=at, filters=filters)
    chain = Chain(channels)
    ratios = DROPOUT | {
        place: CRELU_DROPOUT[place] for place in CRELU_DROPOUT if _follows_crelu(place, chosen)
    }
    for place, (width, slot) in enumerate(zip(WIDTHS, chosen, strict=True), 1):
        norm = slot.unit != "crelu" or norm_before_crelu
        chain.conv(
            f"conv{place}",
            check_scale("vgg_cifar", scale, width),
            3,
            slot,
            padding=1,
            norm=norm,
            bias=True,
        )
        if place in ratios:
            chain.add(f"drop{place}", nn.Dropout(ratios[place]))
        if place in POOLS_AFTER:
            chain.add(f"pool{POOLS_AFTER.index(place) + 1}", nn.MaxPool2d(2))
    chain.average("pool6")  # 1x1 already for images of 32 pixels, so this changes nothing there
    chain.add("drop13", nn.Dropout(0.5))
    hidden = RELU if at is not None or chosen[0].needs_maps else chosen[0]
    chain.linear("fc14", check_scale("vgg_cifar", scale, 512), hidden, norm=True)
    chain.add("drop14", nn.Dropout(0.5))
    chain.linear("fc15", classes, None)
    return chain.build()


def _follows_crelu(place: int, chosen: list[Slot]) -> bool:
    """Whether the table with CReLU prints its own ratio at ``place``.

    At a CReLU, or in the block it begins.
    """
    start = 5 if place == 6 else place
    return chosen[start - 1].unit == "crelu"
