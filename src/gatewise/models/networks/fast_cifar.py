"""A small network that reaches a real accuracy on CIFAR within minutes of one core."""

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gatewise.checks import check_choice
from gatewise.errors import ArgumentError
from gatewise.layers import PhaseLayer, PSConv2d
from gatewise.models.blocks import Chain, Slot, UnitChoice, check_sizes, check_widths, slot_of
from gatewise.models.catalogue import network

PATCH = 2  # pixels along each side of a whitened patch
LEAST_VARIANCE = 5e-4  # added to the variance of a direction before its root is divided by
LOGITS = 1 / 9  # factor on the outputs
POOLS = ("before", "behind")
WHITENINGS = ("both", "once")


class UnscaledNorm(nn.BatchNorm2d):
    """Batch norm with a trained shift and a fixed scale of 1.

    Args:
        channels: of the maps.
    """

    def __init__(self, channels: int) -> None:
        super().__init__(channels, eps=1e-12, momentum=0.4)
        self.weight.requires_grad_(False)


class Scale(nn.Module):
    """Multiply by a constant.

    Args:
        factor: the constant.
    """

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * x

    def extra_repr(self) -> str:
        return f"{self.factor:.4g}"


class FastCifar(nn.Sequential):
    """A chain whose first layer whitens patches of the images and is not trained.

    The first filters of every other convolution start as copies of its inputs. After CReLU they are
    copies of the positive parts: a copy of a negative part is constant where its maximum is, and
    after two pools in all images, so that a norm would divide by 0.

    Args:
        parts: the layers.
        signs: 2 if convolutions read positive and then negative parts, else 1.
    """

    def __init__(self, parts: OrderedDict[str, nn.Module], signs: int) -> None:
        super().__init__(parts)
        self.signs = signs

    def reset_parameters(self) -> None:
        """Set the starting values that are not random, after all layers have drawn theirs."""
        self[0].get_parameter("layer.weight").requires_grad_(False)
        for name, part in self.named_children():
            layer = getattr(part, "layer", None)
            if name == "whiten" or not isinstance(layer, nn.Conv2d | PhaseLayer):
                continue
            weight = layer._parameters.get("weight")
            if weight is not None and weight.dim() == 4:
                _start_as_copies(layer, self.signs)

    @torch.no_grad()
    def start_from_data(self, images: Tensor) -> None:
        """Set the filters of the first layer to the whitened principal directions of patches.

        Args:
            images: (n, channels, height, width), as the network reads them.
        """
        weight = self[0].get_parameter("layer.weight")
        patches = images.unfold(2, PATCH, 1).unfold(3, PATCH, 1).permute(0, 2, 3, 1, 4, 5)
        flat = patches.reshape(-1, weight[0].numel()).double()
        variances, directions = torch.linalg.eigh(flat.T @ flat / len(flat))
        filters = (directions / (variances + LEAST_VARIANCE).sqrt()).T.flip(0)
        both = torch.cat([filters, -filters])[: len(weight)]
        weight.copy_(both.reshape(weight.shape))


@network(title="Fast CIFAR network", reads=(3, 32, 32), paper="gatewise")
def fast_cifar(
    *,
    unit: UnitChoice = "relu",
    filters: str = "same",
    widths: Sequence[int] = (32, 128, 128),
    classes: int = 10,
    channels: int = 3,
    pool: str | None = None,
    whitening: str | None = None,
) -> FastCifar:
    """Three blocks of two 3x3 convolutions behind a fixed layer that whitens patches of 2x2 pixels.

    A block is a convolution, a max-pool, norm and unit, and then a convolution, norm and unit. A
    max-pool and a linear layer follow. A unit that reads the layer before it needs the pool behind
    it. The fixed layer has each direction with both signs. A unit that keeps both signs of its
    inputs (CReLU, phase selection) needs each direction once, so that the information is the same.
    No unit that halves the channels follows it. Both options can be set for a network whose units
    are put in later by :func:`gatewise.swap`.

    Trained by the recipe ``fast_cifar``.

    Args:
        unit: the unit in all slots.
        filters: ``"same"`` or ``"half"``: filters before a unit that doubles the channels.
        widths: filters of the two convolutions of each block.
        classes: outputs.
        channels: input channels.
        pool: whether the first max-pool of a block stands ``"before"`` norm and unit or
            ``"behind"`` them. By default as the unit needs it.
        whitening: whether the fixed layer has each direction with ``"both"`` signs or ``"once"``.
            By default as the unit needs it.
    """
    check_sizes("fast_cifar", classes=classes, channels=channels)
    widths = check_widths("fast_cifar", widths)
    slot = slot_of(unit, filters)
    pool = check_choice("fast_cifar", "pool", pool or POOLS[slot.binds], POOLS)
    keeps_signs = slot.defers or slot.ratio > 1
    whitening = whitening or WHITENINGS[keeps_signs]
    whitening = check_choice("fast_cifar", "whitening", whitening, WHITENINGS)
    if pool == "before" and slot.binds:
        raise ArgumentError(
            f"fast_cifar: {unit} reads the layer before it, so no pool can stand between",
            got="pool='before'",
            fix="pool='behind'",
        )
    chain = Chain(channels)
    _add_whitening(chain, slot, whitening)
    for place, width in enumerate(widths, 1):
        _add_block(chain, f"conv{place}", width, slot, pool)
    chain.add("pool", nn.AdaptiveMaxPool2d(1))
    chain.flatten("flat", 1)
    chain.linear("head", classes, None, bias=False)
    chain.add("scale", Scale(LOGITS))
    built = FastCifar(chain.parts, signs=2 if slot.ratio > 1 and not slot.defers else 1)
    built.reset_parameters()
    return built


def _add_whitening(chain: Chain, slot: Slot, whitening: str) -> None:
    """Add the layer that whitens patches, and its unit."""
    directions = chain.channels * PATCH**2
    first = None if slot.ratio < 1 else Slot(slot.unit, slot.options)
    count = directions if whitening == "once" else 2 * directions
    chain.conv("whiten", count, PATCH, first, norm=False, bias=True)


def _add_block(chain: Chain, name: str, width: int, slot: Slot, pool: str) -> None:
    """Add two convolutions with norm and unit, and a max-pool to half the size."""
    channels = slot.count_filters(width)
    pooled: nn.Module = UnscaledNorm(channels)
    if pool == "before":
        pooled = nn.Sequential(nn.MaxPool2d(2), pooled)
    chain.conv(f"{name}a", width, 3, slot, padding=1, norm=pooled)
    if pool == "behind":
        chain.add(f"{name}_pool", nn.MaxPool2d(2))
    chain.conv(f"{name}b", width, 3, slot, padding=1, norm=UnscaledNorm(channels))


@torch.no_grad()
def _start_as_copies(layer: nn.Module, signs: int) -> None:
    """Let the first filters of a convolution return its inputs, or parts of one sign of them."""
    weight = layer.get_parameter("weight")
    nn.init.dirac_(weight[: weight.shape[1] // signs])
    if isinstance(layer, PSConv2d):
        layer.get_parameter("weight_neg")[: weight.shape[1]] = 0.0
    elif "weight_neg" in layer._parameters:
        nn.init.dirac_(layer.get_parameter("weight_neg")[: weight.shape[1]])
